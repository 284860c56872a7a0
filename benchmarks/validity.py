"""Is the report right? Hundreds of simulated stores of each world of `mentor_audit.simulate.worlds`, judged by the report itself.

`python benchmarks/validity.py --stores 500 --workers 2` prints the tables of docs/validity.md, `--write` puts them there. `--out FILE` keeps
a line a store; the next call goes on from there. See that page for what is asked of a world and what a false verdict is.
"""

import argparse
import functools
import json
import multiprocessing
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from naive import ANALYSES
from validity_tables import tables

from mentor_audit.report.contrasts import MARGIN, Contrast
from mentor_audit.report.data import load
from mentor_audit.report.randomised import randomised
from mentor_audit.report.replay import RescueContrast, replays
from mentor_audit.report.settings import data_caveats
from mentor_audit.report.statistics import Estimate
from mentor_audit.report.transfer import compare
from mentor_audit.report.verdict import SAMPLING_LITTLE, Verdict, decide, decide_replay
from mentor_audit.simulate import SimulatedStore, simulate, truth
from mentor_audit.simulate.worlds import WORLDS

PAGE = Path(__file__).parents[1] / "docs" / "validity.md"
MARK, END = "<!-- tables: python benchmarks/validity.py --write -->", "<!-- end of the tables -->"
ABOVE, BELOW = "above 0", "below the margin"
CLAIMS: dict[str, dict[str, str]] = {
    "correct_diagnoses": {"mentor - vanilla": ABOVE, "mentor - resample": ABOVE, "scrubbed - wrong": ABOVE},
    "both": {"resample - vanilla": ABOVE, "mentor - resample": ABOVE, "scrubbed - wrong": ABOVE},
    "extra_sampling": {"resample - vanilla": ABOVE, "mentor - resample": BELOW},
    "leakage": {"mentor - resample": ABOVE, "scrubbed - wrong": BELOW, "mentor - scrubbed": ABOVE},
    "instruction_form": {"mentor - resample": ABOVE, "scrubbed - wrong": BELOW, "mentor - wrong": BELOW},
    "no_gain": {"mentor - vanilla": BELOW},
    "cannot_tell": {},
}
"""Verdict -> what it says of the truth."""


def main() -> None:
    asked = _arguments()
    records = [json.loads(line) for line in asked.out.read_text().splitlines()] if asked.out and asked.out.exists() else []
    there = {(record["world"], record["seed"]) for record in records}
    todo = [(name, seed) for seed in range(asked.stores) for name in asked.worlds if (name, seed) not in there]
    with multiprocessing.Pool(asked.workers) as pool:
        for record in pool.imap_unordered(_judge, todo, chunksize=4):
            records.append(record)
            if asked.out:
                with asked.out.open("a") as file:
                    file.write(json.dumps(record) + "\n")
    text = tables(sorted(records, key=lambda r: (list(WORLDS).index(r["world"]), r["seed"])))
    print(text)
    if asked.write:
        before, rest = PAGE.read_text(encoding="utf-8").split(MARK, 1)
        PAGE.write_text(f"{before}{MARK}\n\n{text}\n\n{END}{rest.split(END, 1)[1]}", encoding="utf-8")


def judge(name: str, seed: int) -> dict[str, Any]:
    """One store: what the report says of it, held against the truth, and what the naive analyses make of the same rows.

    Worlds share no draws: each has seeds of its own.
    """
    rows, known = simulate(WORLDS[name], 100_000 * list(WORLDS).index(name) + seed), _truth(name)
    data = load(SimulatedStore(rows), None, None)
    parts = {}
    if WORLDS[name].gain:
        transfer = compare(data, "flops", seed)
        said = [(c.plus, c.minus, c.estimate) for c in (*transfer.contrasts, *transfer.decomposition)]
        verdict = decide(transfer, data_caveats(data))
        parts["transfer"] = {
            **_verdict("transfer", verdict, known),
            **_intervals("transfer", said, transfer.decomposition, known),
        }
    for replay in replays(data, "flops", seed):
        contrasts = (*replay.contrasts, *replay.decomposition, *replay.trajectory)
        parts["rescue"] = {
            **_verdict("rescue", decide_replay(replay), known),
            **_intervals("rescue", [(c.plus, c.minus, c.estimate) for c in contrasts], replay.decomposition, known),
        }
        parts["success"] = _intervals("success", [(c.plus, c.minus, c.success) for c in contrasts if c.success], [], known)
    if drawn := randomised(data, seed):
        parts["randomised"] = _intervals(
            "randomised", [(c["plus"], c["minus"], c["estimate"]) for c in drawn["contrasts"]], [], known
        )
    naive = {}
    for analysis in ANALYSES:
        if name in analysis.worlds:
            estimate, p = analysis.run(rows)
            true = known[analysis.estimates]
            naive[analysis.name] = {"error": estimate - true, "false": p < 0.05 if abs(true) < 1e-9 else None}
    return {"world": name, "seed": seed, "parts": parts, "naive": naive}


def is_false(code: str, outcome: str, known: dict[str, float], little_sampling: bool = False) -> bool:
    """Does any claim of the verdict contradict the truth? `little_sampling`: it also says that sampling adds less than the margin."""
    claims = CLAIMS[code] | ({"resample - vanilla": BELOW} if little_sampling else {})
    held = {pair: known[f"{outcome}/{pair}"] for pair in claims}
    return any(held[pair] <= 1e-9 if claim == ABOVE else held[pair] >= MARGIN for pair, claim in claims.items())


def _verdict(outcome: str, verdict: Verdict, known: dict[str, float]) -> dict[str, Any]:
    """`right`: it is the one that the truth deserves."""
    false = is_false(verdict.code, outcome, known, SAMPLING_LITTLE in verdict.sentence)
    return {"code": verdict.code, "false": false, "right": verdict.code == right_code(outcome, known)}


def _intervals(
    outcome: str,
    contrasts: Sequence[tuple[str, str, Estimate]],
    steps: Sequence[Contrast | RescueContrast],
    known: dict[str, float],
) -> dict[str, Any]:
    """contrasts: pair -> true, value, low, high. joint: do the simultaneous intervals of a decomposition hold all of its true steps?

    joint is None without such intervals.
    """
    found = {}
    for plus, minus, estimate in contrasts:
        pair = f"{plus} - {minus}"
        found[pair] = {"true": known[f"{outcome}/{pair}"], "value": estimate.value, "low": estimate.low, "high": estimate.high}
    ends = [(known[f"{outcome}/{step.plus} - {step.minus}"], step.simultaneous) for step in steps]
    whole = bool(ends) and all(end for _, end in ends)
    joint = all(end[0] - 1e-9 <= true <= end[1] + 1e-9 for true, end in ends if end) if whole else None
    return {"contrasts": found, "joint": joint}


def right_code(outcome: str, known: dict[str, float]) -> str:
    """The verdict that the truth deserves. A difference under the margin is no cause."""
    gain, sampling, beyond, correct, leaked = (
        known[f"{outcome}/{pair}"]
        for pair in ("mentor - vanilla", "resample - vanilla", "mentor - resample", "scrubbed - wrong", "mentor - scrubbed")
    )
    if gain < MARGIN:
        return "no_gain"
    if beyond < MARGIN:
        return "extra_sampling"
    if correct >= MARGIN:
        return "both" if sampling >= MARGIN else "correct_diagnoses"
    return "leakage" if leaked >= MARGIN else "instruction_form"


@functools.cache
def _truth(name: str) -> dict[str, float]:
    return truth(WORLDS[name])


def _judge(which: tuple[str, int]) -> dict[str, Any]:
    return judge(*which)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stores", type=int, default=500, help="of each world")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument(
        "--worlds", nargs="+", default=list(WORLDS), choices=list(WORLDS), metavar="WORLD", help="all when left out"
    )
    parser.add_argument("--out", type=Path, help="a line of JSON a store; what is there is not made again")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/validity.md")
    return parser.parse_args()


if __name__ == "__main__":
    main()
