"""The report on simulated stores with a planted truth, on hand-made rows with exact answers, and on a hostile store."""

import importlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from simulated import ALL_DIAGNOSIS, ALL_FORM, ALL_SAMPLING, BOTH, NOTHING, SimulatedStore, World, simulate

from mentor_audit.errors import ReportError
from mentor_audit.records import TRAJECTORY_TABLES, Run
from mentor_audit.report import build_report
from mentor_audit.report.data import load, queries
from mentor_audit.report.findings import find
from mentor_audit.report.pictures import clean
from mentor_audit.schema import validate_rows
from mentor_audit.store import Store
from mentor_audit.store.writer import StepRows

SMALL = replace(BOTH, heldout=20, samples=2, steps=10, eval_every=5)


def findings(world: World, seed: int = 0, unit: str = "flops") -> dict[str, Any]:
    return find(load(SimulatedStore(simulate(world, seed)), None, None), "store", unit, 0)


@pytest.fixture(scope="module")
def both() -> dict[str, Any]:
    return findings(BOTH)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    build_report(SimulatedStore(simulate(SMALL)), folder)
    return folder


# --- the verdict on a planted truth


@pytest.mark.parametrize(
    ("world", "code"),
    [
        (ALL_SAMPLING, "extra_sampling"),
        (ALL_DIAGNOSIS, "correct_diagnoses"),
        (ALL_FORM, "instruction_form"),
        (NOTHING, "no_gain"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_verdict_finds_the_planted_truth(world: World, code: str) -> None:
    assert findings(world)["verdict"]["code"] == code


def test_a_gain_from_both_is_taken_apart(both: dict[str, Any]) -> None:
    assert both["verdict"]["code"] == "both"
    terms = {step["name"]: step["estimate"] for step in both["transfer"]["decomposition"]}
    assert list(terms) == ["sampling", "context", "form", "residual", "correctness"]
    gain = next(c for c in both["transfer"]["contrasts"] if c["name"] == "gain")["estimate"]["value"]
    assert sum(term["value"] for term in terms.values()) == pytest.approx(gain)
    # At 16e9 FLOPs vanilla has all of its 20 steps, each other arm 80 % of its gain, resample's steps costing more.
    assert terms["sampling"]["low"] < 0.2 * 0.8 < terms["sampling"]["high"]
    assert terms["correctness"]["low"] < (0.55 - 0.22) * 0.8 < terms["correctness"]["high"]
    for word in ("sampling explains", "form explains", "correctness explains", "1.60 × 10¹⁰ FLOPs"):
        assert word in both["verdict"]["paragraph"]


def test_nothing_is_rarely_taken_for_a_gain() -> None:
    world = replace(NOTHING, heldout=30, samples=2, steps=6, eval_every=6, groups_a_step=1, seed_spread=0.04)
    codes = [findings(world, seed)["verdict"]["code"] for seed in range(8)]
    assert sum(code not in ("no_gain", "cannot_tell") for code in codes) <= 1


def test_too_few_seeds_is_said() -> None:
    two = findings(replace(ALL_DIAGNOSIS, seeds=(1, 2)))["verdict"]
    assert two["code"] == "cannot_tell"
    assert "too few seeds, 2" in two["paragraph"]
    three = findings(replace(ALL_DIAGNOSIS, seeds=(1, 2, 3)))["verdict"]
    assert three["code"] == "correct_diagnoses"
    assert "Only 3 seeds" in three["paragraph"]


def test_a_seed_that_one_arm_lacks_is_said_where_parts_must_add_up() -> None:
    rows = simulate(replace(SMALL, heldout=5))
    rows["run"] = [r for r in rows["run"] if (r["arm"], r["seed"]) != ("wrong", 5)]
    found = find(load(SimulatedStore(rows), None, None), "s", "flops", 0)
    assert "wrong has 4 of 5" in found["verdict"]["paragraph"]
    correctness = next(c for c in found["transfer"]["contrasts"] if c["name"] == "correctness")
    assert correctness["estimate"]["num_seeds"] == 4


def test_budgets_that_do_not_overlap_are_refused() -> None:
    apart = replace(ALL_DIAGNOSIS, flops_a_step={"vanilla": 1e7}, first_eval=10)
    found = findings(apart)
    assert found["verdict"]["code"] == "cannot_tell"
    assert "budgets don't overlap" in found["verdict"]["paragraph"]
    assert "vanilla 1e+08 to 2e+08" in found["verdict"]["paragraph"]
    assert found["transfer"]["budget"] is None and found["transfer"]["contrasts"] == []


@pytest.mark.parametrize(
    ("missing", "says"),
    [("resample", "missing from the comparison, resample"), ("vanilla", "vanilla"), ("wrong", "without the arm wrong")],
)
def test_missing_arms_are_named(missing: str, says: str) -> None:
    gain = {arm: value for arm, value in ALL_DIAGNOSIS.gain.items() if arm != missing}
    verdict = findings(replace(ALL_DIAGNOSIS, gain=gain, heldout=40))["verdict"]
    assert verdict["code"] == "cannot_tell"
    assert says in verdict["sentence"]


def test_a_gain_that_noise_could_make_cannot_be_told() -> None:
    noisy = replace(ALL_DIAGNOSIS, seed_spread=0.5, seeds=(1, 2, 3), heldout=20)
    verdict = findings(noisy, seed=3)["verdict"]
    assert verdict["code"] == "cannot_tell"
    assert "includes 0" in verdict["sentence"]


def test_unknown_flops_refuse_flops_but_not_tokens() -> None:
    unknown = replace(ALL_DIAGNOSIS, unknown_mentor_flops=True, heldout=40)
    by_flops, by_tokens = findings(unknown), findings(unknown, unit="tokens")
    assert by_flops["verdict"]["code"] == "cannot_tell"
    assert "FLOPs are not known" in by_flops["transfer"]["left_out"]["simulated-mentor-s1"]
    assert by_tokens["verdict"]["code"] == "correct_diagnoses"
    total = next(t for t in by_flops["compute"]["training_per_run"] if t["arm"] == "mentor")
    assert total["flops"] is None and total["mentor_fraction"] is None


def test_accuracy_leaves_out_samples_without_a_verdict_and_says_what_that_does() -> None:
    rows = simulate(replace(SMALL, gain={"vanilla": 0.0, "mentor": 0.3}))
    before = find(load(SimulatedStore(rows), None, None), "s", "flops", 0)["transfer"]["arms"][1]
    for attempt in rows["attempt"]:
        if attempt["role"] == "eval" and "mentor" in attempt["run_id"] and not attempt["is_correct"] and attempt["position"] == 1:
            attempt.update(is_correct=None, status="truncated")
    found = find(load(SimulatedStore(rows), None, None), "s", "flops", 0)
    after = found["transfer"]["arms"][1]
    assert after["accuracy"]["value"] > before["accuracy"]["value"] + 0.05
    assert after["accuracy_unscored_as_wrong"] == pytest.approx(before["accuracy"]["value"])
    assert after["unscored_fraction_at_end"] > 0.1 and found["transfer"]["arms"][0]["unscored_fraction_at_end"] == 0.0
    assert "counting them as wrong would move mentor" in found["verdict"]["paragraph"]


def test_missing_rungs_join_the_next_one() -> None:
    gain = {"vanilla": 0.0, "resample": 0.1, "mentor": 0.4}
    steps = findings(World(gain=gain, heldout=20))["transfer"]["decomposition"]
    assert [(s["name"], s["plus"], s["minus"]) for s in steps] == [
        ("sampling", "resample", "vanilla"),
        ("form, residual and correctness", "mentor", "resample"),
    ]


# --- what happened in training


def test_rescue_diagnosis_and_accidents_are_recovered(both: dict[str, Any]) -> None:
    rates = {row["arm"]: row["rescue_rate"] for row in both["rescue"]["arms"]}
    assert "vanilla" not in rates
    assert rates["mentor"]["low"] < 0.7 < rates["mentor"]["high"]
    against = {c["minus"]: c for c in both["rescue"]["contrasts"]}
    assert against["resample"]["estimate"]["low"] > 0 and against["wrong"]["estimate"]["low"] > 0
    mentor = next(d for d in both["diagnoses"] if d["arm"] == "mentor")
    assert mentor["set_accuracy"] == 0.8
    assert mentor["both"]["low"] < 0.8 < mentor["both"]["high"]
    shares = {row["arm"]: row["arm_fitting_fraction"] for row in both["instructions"]}
    assert shares["shuffled_other"] == pytest.approx(0.1, abs=0.06)
    assert shares["wrong"] == 0.0
    assert shares["placebo"] is None


def test_all_flops_are_the_sum_of_the_cost_rows(both: dict[str, Any]) -> None:
    rows = simulate(BOTH)["cost"]
    assert both["compute"]["all"]["flops"] == pytest.approx(sum(row["flops"] for row in rows))
    assert both["compute"]["all"]["cost_rows"] == len(rows)
    vanilla, resample = both["compute"]["training_per_run"][:2]
    assert vanilla["flops"] == pytest.approx(20 * 8e8)
    assert resample["times_vanilla"] == pytest.approx(1.5)


def test_zero_reward_before_and_after(both: dict[str, Any]) -> None:
    by_arm = {row["arm"]: row for row in both["zero_reward"]}
    assert by_arm["vanilla"]["overall"]["before"] == by_arm["vanilla"]["overall"]["after"]
    assert by_arm["mentor"]["overall"]["after"] < by_arm["mentor"]["overall"]["before"]
    assert by_arm["mentor"]["first_tenth"]["before"] > by_arm["mentor"]["last_tenth"]["before"]
    assert len(by_arm["mentor"]["series"]) <= 12


# --- exact answers from hand-made rows


def hand_made() -> dict[str, list[dict[str, Any]]]:
    """One run that died at step 3 and went on from step 2: launch 1 has steps 0 to 2 and 4, launch 2 steps 2 and 3."""
    world = World(gain={"mentor": 0.0}, seeds=(1,), steps=4, eval_every=2, heldout=2, samples=2, groups_a_step=1)
    rows = simulate(world)
    run = "simulated-mentor-s1"
    for table in TRAJECTORY_TABLES:
        rows[table] = [r for r in rows[table] if r.get("mode") != "train" and not (table != "problem" and r["step"] == 4)]
    for launch, step, flops in ((1, 0, 1.0), (1, 1, 10.0), (1, 2, 100.0), (1, 4, 5.0), (2, 2, 1000.0), (2, 3, 10000.0)):
        unit = {"run_id": run, "launch": launch, "step": step, "mode": "train", "rank": 0}
        key = f"{run}.l{launch}.t{step}"
        base = {"owner_table": "train_step", "owner_id": key, "call_id": key, "sequences": 1, "wall_seconds": 1.0}
        spent = {"prompt_tokens": 3, "output_tokens": 4, "cached_tokens": 2, "padded_tokens": 1, "flops": flops}
        rows["cost"] += [
            {**unit, **base, **spent, "cost_id": f"{key}.r", "phase": "rollout", "payer": "learner", "disposition": "used"},
            {
                **{**unit, **base, **spent, "cost_id": f"{key}.o", "phase": "optimizer"},
                **{"payer": "learner", "disposition": "discarded", "flops": 2 * flops, "flops_prefix_cached": flops},
            },
        ]
        rows["train_step"].append(
            {
                **rows["train_step"][0],
                **unit,
                "train_step_id": key,
                "launch_start_step": 0 if launch == 1 else 2,
                "num_groups": 2,
                "num_zero_reward_groups": 1,
                "zero_reward_fraction": 0.5,
                "zero_reward_fraction_after": 0.0,
                "num_inserted": 1,
            }
        )
    last = {"run_id": run, "launch": 2, "step": 4, "mode": "eval", "rank": 0}
    rows["train_step"].append({**rows["train_step"][0], **last, "train_step_id": "e4", "launch_start_step": 2})
    attempt = next(r for r in rows["attempt"] if r["role"] == "eval")
    verdicts = [("h0", 0, True), ("h0", 1, None), ("h1", 0, None), ("h1", 1, False)]
    for problem, position, verdict in verdicts:
        given = {"problem_id": problem, "position": position, "is_correct": verdict, "attempt_id": f"e4.{problem}.{position}"}
        rows["attempt"].append({**attempt, **last, **given})
    return rows


def query(name: str, rows: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    sql = next(q.sql for q in queries() if q.name == name)
    found: list[dict[str, Any]] = SimulatedStore(rows).arrow(sql).to_pylist()
    return found


def test_compute_before_an_evaluation_counts_what_a_dead_launch_spent() -> None:
    rows = query("evaluations", hand_made())
    assert [(r["launch"], r["step"], r["flops"], r["tokens"]) for r in rows] == [
        (1, 0, 0.0, 0.0),
        (1, 2, 33.0, 14.0),
        (2, 4, 33348.0, 42.0),
    ]


def test_one_unknown_cost_makes_the_sum_unknown() -> None:
    made = hand_made()
    next(r for r in made["cost"] if r["launch"] == 2 and r["phase"] == "rollout")["flops"] = None
    assert [r["flops"] for r in query("evaluations", made)] == [0.0, 33.0, None]
    compute = {(r["mode"], r["phase"]): r for r in query("compute", made)}
    assert compute["train", "rollout"]["flops"] is None
    assert compute["train", "optimizer"]["flops"] == 22232.0


def test_compute_tells_its_columns_apart() -> None:
    row = next(r for r in query("compute", hand_made()) if r["phase"] == "optimizer")
    wanted = {
        "cost_rows": 6,
        "sequences": 6,
        "prompt_tokens": 18,
        "cached_tokens": 12,
        "output_tokens": 24,
        "padded_tokens": 6,
        "flops": 22232.0,
        "flops_prefix_cached": 11116.0,
        "wall_seconds": 6.0,
        "discarded_flops": 22232.0,
        "superseded_flops": 210.0,
    }
    assert {key: row[key] for key in wanted} == wanted


def test_superseded_steps_are_left_out_of_training_curves() -> None:
    assert [(r["step"], r["before"], r["after"], r["inserted"]) for r in query("zero_reward", hand_made())] == [
        (step, 0.5, 0.0, 1) for step in range(4)
    ]


def test_unscored_samples_are_not_wrong() -> None:
    rows = [r for r in query("heldout", hand_made()) if r["launch"] == 2]
    keys = ("problem_id", "samples", "correct", "incorrect", "unscored", "first_is_correct")
    assert [tuple(r[k] for k in keys) for r in rows] == [("h0", 2, 1, 0, 1, True), ("h1", 2, 0, 1, 1, None)]


def test_rescue_counts_groups_and_responses_apart() -> None:
    world = World(gain={"mentor": 0.0}, seeds=(1,), steps=1, eval_every=1, heldout=1, groups_a_step=4, train_problems=1)
    rows = simulate(replace(world, rescue={"mentor": 0.0}), seed=1)
    groups = [g for g in rows["attempt_group"] if g["mode"] == "train"]
    for group in groups:
        group.update(zero_reward=True, triggered=True)
    template = next(a for a in rows["attempt"] if a["role"] == "follow_up")
    rows["attempt"] = [a for a in rows["attempt"] if a["role"] != "follow_up"]
    responses = ((0, True), (0, False), (1, True), (1, None), (2, None))
    for n, (g, verdict) in enumerate(responses):
        rows["attempt"].append({**template, "attempt_id": f"f{n}", "group_id": groups[g]["group_id"], "is_correct": verdict})
    (row,) = query("rescue", rows)
    wanted = {"failed": 4, "rescued": 1, "unanswered": 1, "unknown": 2, "responses": 5, "scored": 3, "correct": 2}
    assert {key: row[key] for key in wanted} == wanted
    assert row["response_tokens"] == 5 * 30


def test_every_query_says_what_it_answers_and_runs_on_an_empty_store() -> None:
    empty = SimulatedStore({})
    for each in queries():
        assert each.question.endswith("?") and each.grain and each.units, each.name
        assert empty.arrow(each.sql).num_rows == 0


# --- the files


def test_the_json_has_a_stable_shape(written: Path) -> None:
    found = json.loads((written / "report.json").read_text())
    assert list(found) == [
        *("format", "format_version", "suite", "task", "learner", "arms", "seeds", "verdict", "transfer", "replays"),
        *("chance", "strata", "randomised", "leakage", "audits", "health", "rescue", "zero_reward", "diagnoses", "instructions"),
        *("compute", "statuses", "assumed", "reproduce", "sources", "queries"),
    ]
    assert list(found["transfer"]) == [
        *("unit", "budget", "range", "refusal", "left_out", "num_problems", "arms", "decomposition", "contrasts", "pass_at_k"),
        *("pairs", "bands", "matched", "trajectory", "equal_sampling", "curves"),
    ]
    assert list(found["transfer"]["contrasts"][0]["estimate"]) == [
        *("value", "low", "high", "standard_error", "degrees_of_freedom", "p", "num_seeds", "num_problems"),
    ]


def test_every_block_names_queries_and_functions_that_exist(written: Path) -> None:
    found = json.loads((written / "report.json").read_text())
    for block, made in found["sources"].items():
        assert set(made["queries"]) <= found["queries"].keys(), block
        home = None
        for name in made["function"].split(", "):
            module, _, function = name.rpartition(".")
            home = module or home
            assert callable(getattr(importlib.import_module(f"mentor_audit.{home}"), function)), name


def test_every_table_and_picture_names_its_query(written: Path) -> None:
    page = (written / "report.html").read_text()
    numbered = re.findall(r"<(?:table|figure)[^>]*>", page)[:-1]  # the last lists the sources themselves
    assert len(numbered) > 10
    assert all(re.search(r'title="quer(y|ies) \w', tag) for tag in numbered)
    assert set(re.findall(r'href="#([\w-]+)"', page)) <= set(re.findall(r'id="([\w-]+)"', page))
    assert page.count("<svg") == 4


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


HOSTILE = '<script>alert(1)</script><img src=x onerror=alert(2)>]]>" onload="x\' {{7*7}} | [x](http://evil) **b** `c`\n# h'


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    world = replace(SMALL, gain={**SMALL.gain, HOSTILE: 0.1}, notes=(HOSTILE,), suite=f"s{HOSTILE}", heldout=5)
    build_report(SimulatedStore(simulate(world)), tmp_path)
    page = (tmp_path / "report.html").read_text()
    parser = Tags()
    parser.feed(page)
    names = {tag for tag, _ in parser.tags}
    assert not names & {"script", "img", "iframe", "link", "object", "foreignobject", "use", "image"}
    for tag, attributes in parser.tags:
        assert not [name for name in attributes if name.startswith("on")], tag
        for name in ("href", "src", "xlink:href"):
            assert (attributes.get(name) or "#").startswith("#")
    policy = next(
        a["content"] for t, a in parser.tags if t == "meta" and "content-security-policy" in str(a.get("http-equiv")).lower()
    )
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert "49" not in re.findall(r"x' (\S+) \|", page)
    text = (tmp_path / "report.md").read_text()
    assert "<script" not in text and "<img" not in text and "[x](" not in text
    assert not re.search(r"^# h", text, re.MULTILINE)
    json.loads((tmp_path / "report.json").read_text())


def test_a_picture_keeps_only_what_is_allowed() -> None:
    dirty = (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="9" height="9" viewBox="0 0 9 9" '
        'onload="x()"><script>x()</script><style>*{}</style><a xlink:href="http://evil"><text>a</text></a>'
        '<g clip-path="url(#c)" onclick="x()" fill="url(http://evil)" style="x"><text id="t">&lt;b&gt;</text></g></svg>'
    )
    assert clean(dirty, "p") == (
        '<svg viewBox="0 0 9 9" style="max-width:9px" xmlns="http://www.w3.org/2000/svg"><g clip-path="url(#p-c)"><text id="p-t">'
        "&lt;b&gt;</text></g></svg>"
    )


def test_unknown_is_written_as_not_known(tmp_path: Path) -> None:
    build_report(SimulatedStore(simulate(replace(SMALL, unknown_mentor_flops=True, heldout=5))), tmp_path)
    for kind in ("html", "md"):
        text = (tmp_path / f"report.{kind}").read_text()
        assert "not known" in text
        assert "None" not in text and "nan" not in text.lower().split()


def test_a_run_without_evaluations_still_gets_a_report(tmp_path: Path) -> None:
    rows = simulate(replace(SMALL, heldout=2))
    for table in ("attempt", "attempt_group", "train_step", "cost"):
        rows[table] = [r for r in rows[table] if r["mode"] == "train"]
    report = build_report(SimulatedStore(rows), tmp_path)
    assert "held-out evaluation" in report.verdict and report.findings["verdict"]["code"] == "cannot_tell"
    assert {path.name for path in tmp_path.iterdir()} == {"report.html", "report.md", "report.json"}


def test_a_registry_without_steps_still_gets_a_report(tmp_path: Path) -> None:
    rows = simulate(replace(SMALL, heldout=2, seeds=(1,)))
    report = build_report(SimulatedStore({"run": rows["run"]}), tmp_path)
    assert report.findings["verdict"]["code"] == "cannot_tell"


def test_the_same_store_and_seed_give_the_same_files(written: Path, tmp_path: Path) -> None:
    store = SimulatedStore(simulate(SMALL))
    build_report(store, tmp_path / "again")
    for kind in ("html", "md", "json"):
        assert (tmp_path / "again" / f"report.{kind}").read_text() == (written / f"report.{kind}").read_text()
    other = build_report(store, tmp_path / "other", seed=1).findings
    first = json.loads((written / "report.json").read_text())
    assert other["transfer"]["contrasts"][0]["estimate"]["low"] != first["transfer"]["contrasts"][0]["estimate"]["low"]


def test_bad_input_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    world = replace(SMALL, heldout=2, seeds=(1,), gain={"vanilla": 0.0})
    one = simulate(world)
    with pytest.raises(ReportError, match="found 'hours'"):
        build_report(SimulatedStore(one), tmp_path / "r", budget="hours")
    with pytest.raises(ReportError, match="found none"):
        build_report(SimulatedStore({}), tmp_path / "r")
    two = {table: rows + simulate(replace(world, suite="other"))[table] for table, rows in one.items()}
    with pytest.raises(ReportError, match="found other, simulated"):
        build_report(SimulatedStore(two), tmp_path / "r")
    with pytest.raises(ReportError, match="found third"):
        build_report(SimulatedStore(two), tmp_path / "r", suite="third")
    assert not (tmp_path / "r").exists()
    assert build_report(SimulatedStore(two), tmp_path / "r", suite="other").findings["suite"] == "other"
    (tmp_path / "file").write_text("x")
    with pytest.raises(ReportError, match="Choose another folder"):
        build_report(SimulatedStore(one), tmp_path / "file")


def test_a_second_run_of_an_arm_and_seed_is_left_out_and_named() -> None:
    rows = simulate(replace(SMALL, heldout=2))
    rows["run"].append({**rows["run"][0], "run_id": "earlier", "created_at": rows["run"][0]["created_at"].replace(year=2025)})
    assert "same arm and seed" in find(load(SimulatedStore(rows), None, None), "s", "flops", 0)["transfer"]["left_out"]["earlier"]


def test_a_real_store_gives_the_same_findings(tmp_path: Path) -> None:
    world = replace(SMALL, gain={"vanilla": 0.0, "resample": 0.1, "mentor": 0.3}, seeds=(1,), steps=2, eval_every=1, heldout=3)
    rows = simulate(world)
    store = Store.create(tmp_path / "store")
    for number, run in enumerate(rows["run"]):
        with store.writer(Run(**run)) as writer:
            if number == 0:
                writer.put_problems(validate_rows("problem", rows["problem"]))  # type: ignore[arg-type]
            for step in range(world.steps + 1):
                for mode in ("eval", "train"):
                    unit = {
                        table: validate_rows(table, found)
                        for table in TRAJECTORY_TABLES
                        if table != "problem"
                        and (
                            found := [
                                r for r in rows[table] if (r["run_id"], r["step"], r["mode"]) == (run["run_id"], step, mode)
                            ]
                        )
                    }
                    if unit:
                        writer.commit_step(StepRows(step, mode, unit))
            writer.flush()
    real = build_report(store, tmp_path / "report", versions=store.versions()).findings
    fake = find(load(SimulatedStore(rows), None, None), "store", "flops", 0)
    for block in ("transfer", "rescue", "zero_reward", "diagnoses", "instructions", "compute", "statuses"):
        assert real[block] == fake[block], block
    assert real["reproduce"]["table_versions"] == store.versions()
