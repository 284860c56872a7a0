"""How large a replay must be: arms answer the same failures, and the problem is the unit."""

from collections.abc import Callable

import polars as pl

from mentor_audit.report.power_design import ContrastPlan, Design, Goal, by_price, deviations, share, smallest, times, total
from mentor_audit.report.variance import nested

MIN_PROBLEMS, MIN_FAILURES = 10, 20
"""Fewer tell too little of how they spread."""
FAILURES, RESPONSES = (1, 2, 4), (1, 2, 4)
MOST_PROBLEMS = 1_000_000
AGAINST = ("wrong", "resample", "resample_flops", "placebo", "retry", "scrubbed", "paraphrase")


def plan_replays(treatments: pl.DataFrame, prices: pl.DataFrame, goal: Goal) -> tuple[list[ContrastPlan], list[str]]:
    """Of every replay, mentor against each other arm that answered."""
    if treatments.is_empty():
        return [], ["no rescue contrast: the store holds no replay of this suite; `mentor-audit replay CONFIG` makes one"]
    found: list[ContrastPlan | str] = []
    for run_id in treatments["run_id"].unique(maintain_order=True):
        mine = treatments.filter((pl.col("run_id") == run_id) & (pl.col("scored") > 0))
        bought = _prices(prices.filter(pl.col("run_id") == run_id))
        mentor = mine.filter(pl.col("arm") == "mentor")
        for minus in [arm for arm in AGAINST if arm in set(mine["arm"])]:
            both = mentor.join(mine.filter(pl.col("arm") == minus), on=["failure", "problem_id"], suffix="_minus").sort("failure")
            problems = both["problem_id"].n_unique()
            if problems < MIN_PROBLEMS or len(both) < MIN_FAILURES:
                found.append(
                    f"no rescue contrast mentor − {minus} from {run_id}: {len(both)} failures of {problems} problems were answered with a "
                    f"verdict by both arms; {MIN_FAILURES} of {MIN_PROBLEMS} are the least that tell how they spread"
                )
            else:
                found.append(_plan(run_id, minus, both, bought, goal))
    return [plan for plan in found if not isinstance(plan, str)], [why for why in found if isinstance(why, str)]


def _plan(run_id: str, minus: str, both: pl.DataFrame, bought: "_Bought", goal: Goal) -> ContrastPlan | str:
    """Text: why there is none."""
    scored_N_2 = both.select("scored", "scored_minus").to_numpy().astype(float)
    spread = nested(both["problem_id"].to_list(), both.select("correct", "correct_minus").to_numpy().astype(float), scored_N_2)
    responses = float(scored_N_2.mean())
    if spread.problem == spread.failure == 0 and not spread.response:
        return f"no rescue contrast mentor − {minus} from {run_id}: every failure had the same difference, and without a spread nothing can be planned"
    designs = [
        _design(lambda n, f=f, m=m: spread.error(n, f, m), f, m, minus, bought, goal)  # type: ignore[misc]
        for f in (FAILURES if spread.num_failures > spread.num_problems else FAILURES[:1])
        for m in (RESPONSES if spread.response is not None else [max(1, round(responses))])
    ]
    cautions = []
    alone = spread.num_failures == spread.num_problems
    if spread.response is None:
        cautions.append("one response a failure in the pilot: what more of them would spare is not known")
    if alone:
        cautions.append("one failure a problem in the pilot: what more of them would spare is not known")
    pilot = spread.error(spread.num_problems, round(spread.num_failures / spread.num_problems), max(1, round(responses)))
    return ContrastPlan(
        f"mentor − {minus}",
        f"success of one response in {run_id}; problems are those with so many failures",
        deviations({"problem": spread.problem, "failure": None if alone else spread.failure, "response": spread.response}),
        {"problems": spread.num_problems, "failures": spread.num_failures, "responses a failure": responses},
        goal.reached(pilot, spread.num_problems - 1),
        by_price(designs),
        cautions,
    )


def _design(error: Callable[[int], float], failures: int, responses: int, minus: str, bought: "_Bought", goal: Goal) -> Design:
    problems = smallest(lambda n: goal.reached(error(n), n - 1) >= goal.power, MOST_PROBLEMS)
    sizes = {"failures a problem": failures, "responses a failure": responses}
    if problems is None:
        return Design(sizes, None, None, None)
    arms = ("mentor", minus)
    parts = [("failure", None, 1), ("diagnosis", None, 1), *(("response", arm, responses) for arm in arms)]
    parts += [("rewording", arm, 1) for arm in arms if ("rewording", arm) in bought]
    tokens, flops = (
        total(times(number, bought.get((what, arm), (None, None))[unit]) for what, arm, number in parts) for unit in (0, 1)
    )
    many = problems * failures
    reached = goal.reached(error(problems), problems - 1)
    return Design({"problems": problems, **sizes}, reached, times(many, tokens), times(many, flops))


_Bought = dict[tuple[str, str | None], tuple[float | None, float | None]]


def _prices(prices: pl.DataFrame) -> _Bought:
    """(what, arm) -> tokens and FLOPs of one."""
    return {
        (row["what"], row["arm"]): (share(row["tokens"], row["number"]), share(row["flops"], row["number"]))
        for row in prices.iter_rows(named=True)
    }
