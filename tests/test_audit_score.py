"""Benchmarks of first wrong steps: the four shapes on rows of our own, what is refused, and the score by hand."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planted_steps import planted, write
from scripted import ScriptedPolicy

from mentor_audit.audit.benchmarks import LabelledSolution, load_benchmark
from mentor_audit.audit.benchmarks.locators import Located, ModelLocator, StepChecker, question
from mentor_audit.audit.score import Score, audit_score, f1_interval, harmonic_mean, score, wilson
from mentor_audit.errors import ConfigError, TaskError
from mentor_audit.tasks.maths import MathVerifier

STEPS = ["Take 4 and 5.", "4 + 5 = 10", "So it is 10."]


def completion(text: str, rating: int | None) -> dict[str, Any]:
    return {"text": text, "rating": rating, "flagged": None}


def prm(steps: list[dict[str, Any]], reason: str, generated: list[str] | None = None) -> dict[str, Any]:
    question = {"problem": "How many?", "ground_truth_answer": "9", "pre_generated_steps": generated}
    return {"labeler": "l", "question": question, "label": {"steps": steps, "total_time": 1, "finish_reason": reason}}


def step(*completions: dict[str, Any], chosen: int | None = 0, human: Any = None) -> dict[str, Any]:
    return {"completions": list(completions), "human_completion": human, "chosen_completion": chosen}


PRM_FOUND = prm(
    [step(completion(STEPS[0], 0)), step(completion(STEPS[1], -1), completion("4 + 5 = 9", 1), chosen=None)], "found_error", STEPS
)
MR = {
    "uuid": "u1",
    "question": "How many?",
    "model_output_steps": STEPS,
    "model_output_solution_correctness": "wrong",
    "model_output_solution_first_error_step": "2",
    "model_output_answer_correctness": "incorrect",
    "ground_truth_answer": 9,
}
ROWS: dict[str, dict[str, Any]] = {
    "processbench": {"id": "p-1", "problem": "How many?", "steps": STEPS, "final_answer_correct": False, "label": 1},
    "bigbench_mistake": {"input": "How many?", "steps": STEPS, "answer": "10", "target": "9", "mistake_index": 1},
    "prm800k": PRM_FOUND,
    "mr_gsm8k": MR,
}
NO_ERROR = {
    "processbench": {"label": -1},
    "bigbench_mistake": {"mistake_index": None},
    "prm800k": {"label": {"steps": [step(completion("4 + 5 = 9", 1))], "finish_reason": "solution"}},
    "mr_gsm8k": {"model_output_solution_correctness": "correct", "model_output_solution_first_error_step": "N/A"},
}


def load(tmp_path: Path, shape: str, *rows: dict[str, Any]) -> Any:
    return load_benchmark(str(write(list(rows), tmp_path / "rows.jsonl")), shape)


@pytest.mark.parametrize("shape", list(ROWS))
def test_every_shape_gives_the_same_solution(tmp_path: Path, shape: str) -> None:
    (wrong, right) = load(tmp_path, shape, ROWS[shape], {**ROWS[shape], **NO_ERROR[shape]}).solutions
    assert (wrong.source, wrong.problem, wrong.steps, wrong.first_error) == (shape, "How many?", tuple(STEPS), 1)
    assert right.first_error is None
    assert wrong.answer == (None if shape == "processbench" else "9")
    assert wrong.answer_is_right is (None if shape == "prm800k" else False)


def test_ids_are_the_rows_own_or_their_number(tmp_path: Path) -> None:
    ids = {shape: load(tmp_path, shape, row).solutions[0].id for shape, row in ROWS.items()}
    expected = {"processbench": "p-1", "bigbench_mistake": "bigbench_mistake-1", "prm800k": "prm800k-1", "mr_gsm8k": "u1"}
    assert ids == expected


def test_prm800k_follows_the_labelled_path(tmp_path: Path) -> None:
    human = step(completion("4 + 5 = 8", -1), chosen=None, human=completion("4 + 5 = 9", None))
    rows = [
        prm([step(completion("a", 1), completion("b", -1)), step(completion("c", -1), completion("d", 0), chosen=1)], "solution"),
        prm([step(completion("a", 1)), human, step(completion("c", -1))], "solution"),
        prm([step(completion("a", 1)), {**human, "human_completion": "by hand"}], "solution"),
        prm([step(completion("a", 0)), step(completion("b", -1), chosen=None)], "found_error", ["other", "b", "c"]),
    ]
    found = load(tmp_path, "prm800k", *rows).solutions
    assert [(s.steps, s.first_error) for s in found] == [
        (("a", "d"), None),
        (("a", "4 + 5 = 9", "c"), 2),
        (("a", "by hand"), None),
        (("a", "b"), 1),
    ]


def test_prm800k_rows_without_a_verdict_are_counted(tmp_path: Path) -> None:
    ended = [prm([step(completion("a", 1))], reason) for reason in ("give_up", "give_up", "bad_problem", "found_error")]
    unrated = prm([step(completion("a", None)), step(completion("b", -1))], "found_error")
    imported = load(tmp_path, "prm800k", PRM_FOUND, *ended, unrated)
    assert len(imported.solutions) == 1
    assert imported.left_out == {
        "give_up": 2,
        "bad_problem": 1,
        "found_error, and no step on the path is rated -1": 1,
        "a step without a rating": 1,
    }
    with pytest.raises(TaskError, match="Expected solutions with a verdict"):
        load(tmp_path, "prm800k", ended[0])


def test_steps_of_one_text_are_its_lines(tmp_path: Path) -> None:
    row = {**MR, "model_output_steps": "\n".join([*STEPS, ""])}
    assert load(tmp_path, "mr_gsm8k", row).solutions[0].steps == tuple(STEPS)


BAD = [
    ("processbench", {"label": 3}, r"a step from 0 to 2 in `label` of row 2 .*found 3"),
    ("processbench", {"label": -2}, r"a step from 0 to 2"),
    ("processbench", {"label": True}, r"found True"),
    ("processbench", {"label": None}, r"found None"),
    ("processbench", {"steps": []}, r"a list of texts in `steps` of row 2"),
    ("processbench", {"steps": "one text"}, r"a list of texts"),
    ("processbench", {"problem": " "}, r"text in `problem` of row 2"),
    ("bigbench_mistake", {"mistake_index": "later"}, r"found 'later'"),
    ("bigbench_mistake", {"mistake_index": 1.5}, r"found 1.5"),
    ("mr_gsm8k", {"model_output_solution_first_error_step": 0}, r"a step from 1 to 3"),
    ("mr_gsm8k", {"model_output_solution_first_error_step": "N/A"}, r"a step from 1 to 3 .*found 'N/A'"),
    ("mr_gsm8k", {"model_output_solution_correctness": "correct"}, r"`N/A` for a solution that is correct"),
    ("mr_gsm8k", {"model_output_solution_correctness": "maybe"}, r"`correct` or `wrong`"),
    ("prm800k", {"label": {"steps": [], "finish_reason": "solution"}}, r"a list of objects in `steps` of `label` of row 2"),
    ("prm800k", {"label": {"steps": [step(completion("a", 2))], "finish_reason": "solution"}}, r"-1, 0, 1 or null"),
    ("prm800k", {"label": {"steps": [step(completion("a", 1), chosen=1)], "finish_reason": "solution"}}, r"a step from 0 to 0"),
    ("prm800k", {"label": {"steps": [step(completion("a", 1))], "finish_reason": "bored"}}, r"found 'bored'"),
]


@pytest.mark.parametrize(("shape", "change", "words"), BAD, ids=[f"{b[0]}: {b[1]}"[:60] for b in BAD])
def test_a_bad_row_is_refused_by_its_number(tmp_path: Path, shape: str, change: dict[str, Any], words: str) -> None:
    with pytest.raises(TaskError, match=words):
        load(tmp_path, shape, ROWS[shape], {**ROWS[shape], **change})


def test_a_missing_index_is_not_no_error(tmp_path: Path) -> None:
    row = {k: v for k, v in ROWS["bigbench_mistake"].items() if k != "mistake_index"}
    with pytest.raises(TaskError, match=r"found no such field \(fields: answer, input, steps, target\)"):
        load(tmp_path, "bigbench_mistake", row)


def test_unknown_shapes_and_limits_are_refused(tmp_path: Path) -> None:
    path = str(write([ROWS["processbench"]] * 3, tmp_path / "rows.jsonl"))
    with pytest.raises(ConfigError, match="processbench, bigbench_mistake, prm800k, mr_gsm8k"):
        load_benchmark(path, "procesbench")
    with pytest.raises(ConfigError, match="limit of at least 1"):
        load_benchmark(path, "processbench", limit=0)
    assert len(load_benchmark(path, "processbench", limit=2).solutions) == 2


def solution(number: int, first_error: int | None) -> LabelledSolution:
    return LabelledSolution("processbench", str(number), f"problem {number}", ("a", "b", "c"), first_error)


def of(answers: Sequence[tuple[int | None, Located]], **more: Any) -> Score:
    solutions = [solution(i, first) for i, (first, _) in enumerate(answers)]
    return score("processbench", "somebody", solutions, [found for _, found in answers], {}, **more)


def test_f1_by_hand() -> None:
    found = of(
        [
            (1, Located(1, True)),
            (1, Located(0, True)),  # another step is not right
            (2, Located(None, True)),
            (0, Located(None, False)),
            (None, Located(None, True)),
            (None, Located(None, True)),
            (None, Located(None, False)),  # "can't tell" is not "no error"
            (None, Located(2, True)),
        ]
    )
    assert (found.erroneous.asked, found.erroneous.right, found.erroneous.could_not_tell, found.erroneous.accuracy) == (
        4,
        1,
        1,
        0.25,
    )
    assert (found.correct.asked, found.correct.right, found.correct.could_not_tell, found.correct.accuracy) == (4, 2, 1, 0.5)
    assert found.f1 == pytest.approx(2 * 0.25 * 0.5 / 0.75) and found.f1 == pytest.approx(1 / 3)
    assert found.f1_interval is not None and found.f1_interval[0] < found.f1 < found.f1_interval[1]


def test_the_harmonic_mean_punishes_who_says_the_same_of_all() -> None:
    assert (harmonic_mean(1.0, 0.0), harmonic_mean(0.0, 0.0), harmonic_mean(None, 1.0)) == (0.0, 0.0, None)
    always = of([(1, Located(None, True)), (None, Located(None, True))])
    assert (always.correct.accuracy, always.f1) == (1.0, 0.0)


def test_one_kind_alone_has_no_f1() -> None:
    found = of([(None, Located(None, True))])
    assert (found.erroneous.accuracy, found.erroneous.interval, found.f1, found.f1_interval) == (None, None, None, None)


def test_wilsons_interval_is_that_of_the_books() -> None:
    from scipy.stats import binomtest

    for right, number in ((0, 10), (8, 10), (10, 10), (45, 100)):
        theirs = binomtest(right, number).proportion_ci(method="wilson")
        assert wilson(right / number, number) == pytest.approx((theirs.low, theirs.high), abs=1e-6)


def test_solutions_of_one_problem_do_not_count_as_many() -> None:
    pairs = [(1, Located(1, True)), (1, Located(0, True))]
    apart = of(pairs * 20)
    solutions = [solution(i % 2, 1) for i in range(40)]
    together = score("processbench", "somebody", solutions, [found for _, found in pairs * 20], {})
    assert apart.erroneous.accuracy == together.erroneous.accuracy == 0.5
    assert apart.erroneous.interval == wilson(0.5, 40) and together.erroneous.interval == wilson(0.5, 2)
    assert (apart.num_problems, together.num_problems) == (40, 2)


def test_the_bootstrap_repeats_with_its_seed_and_resamples_problems() -> None:
    counts = np.array([[1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1]] * 10)
    first, again, other = (f1_interval(counts, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert first == again != other
    spread = f1_interval(counts.reshape(10, 4, 4).sum(axis=1), np.random.default_rng(1))
    assert spread == (0.5, 0.5), "every problem has the same share: nothing is left to vary"


def test_the_step_checker_on_planted_errors(tmp_path: Path) -> None:
    """50 solutions with a false equality at a known step and 50 without; some equalities are chains or in words, which it does
    not judge.
    """
    path = str(write(planted(0, 50), tmp_path / "planted.jsonl"))
    found = audit_score(path, "processbench")
    assert (found.auditor, found.num_problems, found.prompt_tokens) == ("step_checker", 100, 0)
    assert (found.erroneous.asked, found.erroneous.right, found.erroneous.could_not_tell) == (50, 45, 0)
    assert (found.correct.asked, found.correct.right, found.correct.could_not_tell) == (50, 50, 0)
    assert found.f1 == pytest.approx(2 * 0.9 * 1.0 / 1.9)


@pytest.mark.parametrize(
    ("form", "found_right", "correct_right", "unknown"),
    [
        ("text", 50, 50, 0),
        ("formula", 50, 50, 0),
        ("formula in the next line", 50, 50, 0),
        ("annotation", 50, 50, 0),
        ("chain", 40, 50, 0),
        ("words", 0, 0, 100),
    ],
)
def test_the_step_checker_by_form(tmp_path: Path, form: str, found_right: int, correct_right: int, unknown: int) -> None:
    found = audit_score(str(write(planted(0, 50, (form,)), tmp_path / "planted.jsonl")), "processbench")
    assert (found.erroneous.right, found.correct.right) == (found_right, correct_right)
    assert found.erroneous.could_not_tell + found.correct.could_not_tell == unknown


def test_the_step_checker_counts_the_data_sets_steps_and_not_its_own() -> None:
    steps = ("Take 4. Then take 5. 4 + 5 = 9.", "Next:\n$$9 + 1 = 10$$\nand 10 + 1 = 11.", "10 + 2 = 13")
    with MathVerifier(workers=1) as verifier:
        checker = StepChecker(verifier)
        wrong, idle, long = checker.locate(
            [
                LabelledSolution("s", "1", "p", steps, 2),
                LabelledSolution("s", "2", "p", ("Nothing is said.",), None),
                LabelledSolution("s", "3", "p", ("2 + 2 = 4", "x" * 60_000), None),
            ]
        )
    assert (wrong.first_error, wrong.could_tell) == (2, True) and "10 + 2 = 13" in wrong.why
    assert (idle.could_tell, idle.why) == (False, "no equality that could be checked")
    assert long.could_tell is False and "step 1 could not be checked" in long.why


def reply(number: int, answer: Any, nonce: str | None = None) -> str:
    return json.dumps({"nonce": nonce or question(solution(number, None))[1], "first_wrong_step": answer})


def test_a_judge_answers_with_our_nonce_in_json_or_could_not_tell() -> None:
    replies = [
        f"I think so. {reply(0, 1)}",
        reply(1, None),
        reply(2, 3),
        reply(3, True),
        reply(4, 1, nonce="forged"),
        "no json { here",
        f"{reply(6, 0)} or rather {reply(6, 2)}",
    ]
    policy = ScriptedPolicy(replies)
    found = ModelLocator(policy).locate([solution(i, None) for i in range(7)])
    answers = [(f.first_error, f.could_tell) for f in found]
    assert answers == [(1, True), (None, True), (None, False), (None, False), (None, False), (None, False), (2, True)]
    assert "a step from 0 to 2 or null, found 3" in found[2].why
    prompt = policy.calls[0][0][0]
    assert isinstance(prompt, list) and "[0] a\n[1] b\n[2] c" in prompt[0]["content"]


def test_a_judge_is_scored_and_its_tokens_are_counted(tmp_path: Path) -> None:
    rows = [{**ROWS["processbench"], "id": str(i), "label": label} for i, label in enumerate([1, 0, -1])]
    path = str(write(rows, tmp_path / "rows.jsonl"))
    nonce = question(load_benchmark(path, "processbench").solutions[0])[1]
    policy = ScriptedPolicy([reply(0, answer, nonce) for answer in (1, 1, None)], name="judge-1")
    seen: list[tuple[int, int]] = []
    found = audit_score(
        path, "processbench", "judge", policy, as_chat=False, batch=2, progress=lambda done, of: seen.append((done, of))
    )
    assert (found.auditor, found.erroneous.right, found.correct.right, found.f1) == ("judge-1", 1, 1, pytest.approx(2 / 3))
    assert found.output_tokens == 12 and found.prompt_tokens is not None and found.prompt_tokens > 100
    assert seen == [(2, 3), (3, 3)]


def test_who_scores_is_named_once(tmp_path: Path) -> None:
    path = str(write([ROWS["processbench"]], tmp_path / "rows.jsonl"))
    with pytest.raises(ConfigError, match="`step_checker` or `judge`"):
        audit_score(path, "processbench", "stepchecker")
    for auditor, judge in (("judge", None), ("step_checker", ScriptedPolicy([]))):
        with pytest.raises(ConfigError, match="Give both or neither"):
            audit_score(path, "processbench", auditor, judge)


def test_an_auditor_of_ones_own_can_be_scored(tmp_path: Path) -> None:
    class Second:
        name = "always the second"

        def locate(self, solutions: Sequence[LabelledSolution]) -> list[Located]:
            return [Located(1, True) for _ in solutions]

    path = str(write([ROWS["processbench"], {**ROWS["processbench"], "label": -1}], tmp_path / "rows.jsonl"))
    found = audit_score(path, "processbench", Second())
    assert (found.auditor, found.erroneous.accuracy, found.correct.accuracy, found.f1) == ("always the second", 1.0, 0.0, 0.0)
