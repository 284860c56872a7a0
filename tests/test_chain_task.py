"""The embedded task: its arithmetic by hand, its diagnosis against planted errors, its verdicts, its splits."""

import json
import random
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from mentor_audit.errors import TaskError
from mentor_audit.protocols import ChecksSteps, FirstError, TaskProblem
from mentor_audit.tasks.chain import KINDS, LABELS, WORDS, Chain, ChainError, ChainSettings, ChainTask, Step, draw_chain, perform
from mentor_audit.tasks.identity import fingerprint, problem_id

TASK = ChainTask(ChainSettings(num_train=60, num_heldout=40))

operations = st.sampled_from("+-*")
steps = operations.flatmap(lambda op: st.builds(Step, st.just(op), st.integers(2, 5 if op == "*" else 9)))
chains = st.builds(Chain, st.integers(0, 99), st.lists(steps, min_size=2, max_size=4).map(tuple))


def problem(chain: Chain) -> TaskProblem:
    row = TASK.problems("train")[0].row.model_copy(update={"prompt": chain.prompt, "gold": chain.answer})
    return TaskProblem(row, chain.prompt)


@pytest.mark.parametrize(
    ("value", "step", "right", "misconceived"),
    [
        (27, Step("+", 8), (15, 35), (15, 25)),  # the carry is dropped
        (21, Step("+", 8), (9, 29), (9, 29)),
        (95, Step("+", 7), (12, 2), (12, 92)),  # modulo 100
        (32, Step("-", 9), (13, 23), (7, 37)),  # 9 - 2: the smaller from the larger
        (39, Step("-", 4), (5, 35), (5, 35)),
        (3, Step("-", 7), (16, 96), (4, 4)),  # borrowed from nothing: modulo 100
        (27, Step("*", 4), (28, 8), (28, 88)),
        (12, Step("*", 4), (8, 48), (8, 48)),
        (50, Step("*", 3), (0, 50), (0, 50)),  # the tens overflow either way
    ],
)
def test_one_step_by_hand(value: int, step: Step, right: tuple[int, int], misconceived: tuple[int, int]) -> None:
    assert perform(value, step, misconceived=False) == right
    assert perform(value, step, misconceived=True) == misconceived


CHAIN = Chain(27, (Step("+", 8), Step("-", 9), Step("*", 2)))
"""27 + 8 = 35 (hard), 35 - 9 = 26 (hard), 26 * 2 = 52 (hard)."""


def test_a_chain_in_words() -> None:
    assert CHAIN.prompt == "Q 2 7 s1 + 8 s2 - 9 s3 * 2 A"
    assert CHAIN.answer == "52"
    assert CHAIN.write() == "s1 + 8 =15 3 5 s2 - 9 =16 2 6 s3 * 2 =12 5 2"
    assert CHAIN.hard_steps() == [0, 1, 2]
    assert CHAIN.write({0, 1, 2}) == "s1 + 8 =15 2 5 s2 - 9 =04 2 4 s3 * 2 =08 4 8"
    assert CHAIN.hard_steps({0, 1, 2}) == [0, 1]  # 24 * 2 has no carry


@pytest.mark.parametrize(
    ("completion", "location", "error_type", "instruction"),
    [
        ("s1 + 8 =15 2 5 s2 - 9 =16 1 6 s3 * 2 =12 3 2", "s1", "carry", "hint s1 carry"),
        ("s1 + 8 =15 3 5 s2 - 9 =04 3 4 s3 * 2 =08 6 8", "s2", "borrow", "hint s2 borrow"),
        ("s1 + 8 =15 3 5 s2 - 9 =16 2 6 s3 * 2 =12 4 2", "s3", "mulcarry", "hint s3 mulcarry"),
        ("s1 + 8 =15 3 6 s2 - 9 =17 2 7 s3 * 2 =14 5 4", "s1", "slip", "hint s1 carry"),
        ("s1 + 8 =14 3 5 s2 - 9 =16 2 6 s3 * 2 =12 5 2", "s1", "slip", "hint s1 carry"),  # the result is right, the work isn't
        ("s1 + 8 =15 3 5 s2 - 8 =17 2 7 s3 * 2 =14 5 4", "s2", "copy", "hint s2 borrow"),
        ("s1 + 8 =15 3 5 s2 + 9 =14 4 4 s3 * 2 =08 8 8", "s2", "copy", "hint s2 borrow"),
        ("s1 + 8 =15 3 5 s3 * 2 =10 7 0", "s2", "copy", "hint s2 borrow"),
        ("s1 + 8 =15 3 5", "s2", "format", "hint s2 borrow"),
        ("", "s1", "format", "hint s1 carry"),
        ("s1 + 8 =15 3 s2", "s1", "format", "hint s1 carry"),
        (CHAIN.write() + " s4", "s3", "format", "hint s3 mulcarry"),
        ("s1 + 8 =15 ٣ 5", "s1", "format", "hint s1 carry"),  # an Arabic-Indic digit is not one of ours
    ],
)
def test_the_first_error_by_hand(completion: str, location: str, error_type: str, instruction: str) -> None:
    error = TASK.first_error(problem(CHAIN), completion)
    assert error is not None
    assert (error.location, error.error_type) == (location, error_type)
    assert TASK.instruction_for(error) == instruction
    assert TASK.fits(problem(CHAIN), completion, instruction) is True


def test_a_right_answer_has_no_error() -> None:
    assert TASK.first_error(problem(CHAIN), CHAIN.write()) is None
    assert TASK.fits(problem(CHAIN), CHAIN.write(), "hint s1 carry") is None


def test_diagnosis_of_thousands_of_planted_errors_is_never_wrong() -> None:
    rng = random.Random(3)
    seen: Counter[str] = Counter()
    for _ in range(4000):
        chain = draw_chain(rng, rng.choice([2, 3, 4]))
        misconceived = {i for i in range(len(chain.steps)) if rng.random() < 0.7}
        planted = [i for i in chain.hard_steps(misconceived) if i in misconceived]
        error = TASK.first_error(problem(chain), chain.write(misconceived))
        if not planted:
            assert error is None
            continue
        kind = KINDS[chain.steps[planted[0]].operation]
        assert error is not None and (error.location, error.error_type) == (LABELS[planted[0]], kind)
        seen[kind] += 1
    assert min(seen[kind] for kind in KINDS.values()) > 300


@given(chains, st.data())
def test_any_single_changed_number_is_found_where_it_is(chain: Chain, data: st.DataObject) -> None:
    words = chain.write().split()
    step = data.draw(st.integers(0, len(chain.steps) - 1))
    place, choices = data.draw(
        st.sampled_from([(3, [f"={i:02d}" for i in range(46)]), (4, list("0123456789")), (5, list("0123456789"))])
    )
    index = step * 6 + place
    words[index] = data.draw(st.sampled_from([c for c in choices if c != words[index]]))
    error = TASK.first_error(problem(chain), " ".join(words))
    assert error is not None and error.location == LABELS[step]
    assert error.error_type in (KINDS[chain.steps[step].operation], "slip")


@given(chains)
def test_a_prompt_is_read_back(chain: Chain) -> None:
    assert Chain.read(chain.prompt) == chain


@given(chains)
def test_answers_use_the_language_only(chain: Chain) -> None:
    everything = range(len(chain.steps))
    assert set(chain.prompt.split()) | set(chain.write().split()) | set(chain.write(everything).split()) <= set(WORDS)


@given(chains, st.sets(st.integers(0, 3)), st.integers(0, 10**6))
def test_an_altered_diagnosis_is_never_the_true_one(chain: Chain, misconceived: set[int], seed: int) -> None:
    posed, completion = problem(chain), chain.write(misconceived)
    truth = TASK.first_error(posed, completion)
    if truth is None:
        return
    altered = TASK.altered(posed, truth, random.Random(seed))
    shown = TASK.instruction_for(altered)
    assert (altered.location, altered.error_type) != (truth.location, truth.error_type)
    assert altered.location in LABELS[: len(chain.steps)]
    assert len(shown.split()) == len(TASK.instruction_for(truth).split()) and set(shown.split()) <= set(WORDS)
    assert TASK.fits(posed, completion, shown) is False


@pytest.mark.parametrize("error_type", ["slip", "copy", "format"])
def test_an_error_that_is_no_misconception_can_be_altered_too(error_type: str) -> None:
    truth = ChainError("s2", error_type, "", "borrow")
    for seed in range(40):
        altered = TASK.altered(problem(CHAIN), truth, random.Random(seed))
        assert TASK.instruction_for(altered) != "hint s2 borrow"


def test_altered_changes_place_and_kind_about_equally_often() -> None:
    truth = TASK.first_error(problem(CHAIN), CHAIN.write({1}))
    assert truth is not None
    altered = [TASK.altered(problem(CHAIN), truth, random.Random(seed)) for seed in range(400)]
    assert 160 < sum(a.location != "s2" for a in altered) < 240
    assert {a.error_type for a in altered if a.location != "s2"} == {"borrow"}
    assert altered[:20] == [TASK.altered(problem(CHAIN), truth, random.Random(seed)) for seed in range(20)]


def test_a_diagnosis_from_elsewhere_makes_an_instruction() -> None:
    assert TASK.instruction_for(FirstError("s2", "borrow", "")) == "hint s2 borrow"


@pytest.mark.parametrize(
    ("instruction", "fits"),
    [
        ("hint s2 borrow", True),
        ("in s2 the borrow is neglected\nhint s2  borrow", True),
        ("hint s2 carry", False),
        ("hint s1 borrow", False),
        ("hint s2 borrow hint s1 carry", False),  # a shotgun is not a diagnosis
        ("check again check", False),
        ("", False),
    ],
)
def test_what_fits(instruction: str, fits: bool) -> None:
    assert TASK.fits(problem(CHAIN), CHAIN.write({1}), instruction) is fits


@pytest.mark.parametrize(
    ("completion", "finish_reason", "status", "is_correct", "extracted"),
    [
        (CHAIN.write(), "eos", "correct", True, "52"),
        (CHAIN.write({0}), "eos", "incorrect", False, "32"),
        (CHAIN.write(), "length", "truncated", None, None),
        ("s1 + 8", "eos", "no_answer", False, None),
        ("5 2", "eos", "no_answer", False, None),
        ("", "eos", "no_answer", False, None),
        (CHAIN.write() + " s4", "eos", "no_answer", False, None),
    ],
)
def test_verdicts(completion: str, finish_reason: str, status: str, is_correct: bool | None, extracted: str | None) -> None:
    verdict = TASK.verify(problem(CHAIN), completion, finish_reason)
    assert (verdict.status, verdict.is_correct, verdict.extracted) == (status, is_correct, extracted)
    assert "52" not in (verdict.why or "") or extracted == "52"  # a mentor may read it: it must not give the answer away


@given(st.text())
def test_no_completion_crashes_verifier_or_checker(text: str) -> None:
    TASK.verify(problem(CHAIN), text, "eos")
    TASK.first_error(problem(CHAIN), text)


def test_instructed_prompts() -> None:
    posed = problem(CHAIN)
    assert TASK.instructed_prompt(posed, "hint s2 borrow", None) == "Q 2 7 s1 + 8 s2 - 9 s3 * 2 hint s2 borrow A"
    assert TASK.instructed_prompt(posed, TASK.verdict_only(posed), None) == "Q 2 7 s1 + 8 s2 - 9 s3 * 2 wrong A"
    assert TASK.instructed_prompt(posed, "", "s1 + 8 =15 2 5") == "Q 2 7 s1 + 8 s2 - 9 s3 * 2 tried s1 + 8 =15 2 5 A"
    assert TASK.instructed_prompt(posed, "", None) == posed.prompt


@given(st.text() | st.sampled_from(["<eos>", "a<eos>b", "<pad><unk>", "\ud800 hint", "hint " * 500]))
def test_a_hostile_instruction_is_words_and_short(text: str) -> None:
    prompt = TASK.instructed_prompt(problem(CHAIN), text, text)
    assert "<eos>" not in prompt and "<pad>" not in prompt
    assert prompt.startswith("Q 2 7 s1 + 8 s2 - 9 s3 * 2 tried") and prompt.endswith(" A")
    assert len(prompt.split()) <= 13 + 1 + 2 * 32
    prompt.encode("utf-8")


def test_a_placebo_is_as_long_as_what_it_replaces() -> None:
    posed, rng = problem(CHAIN), random.Random(0)
    assert TASK.placebo(posed, "hint s2 borrow", rng) == "check again check"
    assert TASK.placebo(posed, "a b c d", rng) == "check again check again"
    assert TASK.placebo(posed, "", rng) == "check again check"
    assert len(TASK.placebo(posed, "w " * 900, rng).split()) == 32


def test_splits_are_disjoint_and_follow_the_mix() -> None:
    settings = ChainSettings(num_train=300, num_heldout=100, train_mix={0: 1, 1: 3}, heldout_mix={0: 0.2, 1: 0.5, 2: 0.3})
    task = ChainTask(settings)
    train, heldout = task.problems("train"), task.problems("heldout")
    marks = [p.row.fingerprint for p in train + heldout]
    assert len(set(marks)) == 400 == len({p.row.problem_id for p in train + heldout})
    assert {p.row.split for p in train} == {"train"} and {p.row.split for p in heldout} == {"heldout"}
    facts = [json.loads(p.row.facts or "") for p in heldout]
    assert Counter(f["num_hard_steps"] for f in facts) == {0: 20, 1: 50, 2: 30}
    assert Counter(f["num_hard_steps"] for f in facts[:20]) == {0: 4, 1: 10, 2: 6}
    for posed, fact in zip(heldout, facts, strict=True):
        chain = Chain.read(posed.row.prompt)
        assert [LABELS[i] for i in chain.hard_steps()] == fact["hard_steps"]
        assert [KINDS[chain.steps[i].operation] for i in chain.hard_steps()] == fact["hard_kinds"]
        assert posed.row.gold == chain.answer and posed.prompt == posed.row.prompt
        fails = chain.write(range(4))
        assert TASK.verify(posed, fails, "eos").is_correct is (fact["num_hard_steps"] == 0)


def test_problems_come_from_the_seed_alone() -> None:
    def drawn(**settings: int) -> tuple[list[str], list[str]]:
        task = ChainTask(ChainSettings(**{"num_train": 20, "num_heldout": 10, **settings}))
        return [p.row.prompt for p in task.problems("train")], [p.row.prompt for p in task.problems("heldout")]

    state = random.getstate()
    assert drawn() == drawn()
    assert drawn(num_train=40)[1] == drawn()[1]  # more training problems leave the held-out ones as they are
    assert not set(drawn(seed=1)[0]) & set(drawn()[0])
    assert random.getstate() == state


@pytest.mark.parametrize(
    "settings",
    [
        {"steps": 5},
        {"steps": 1},
        {"train_mix": {}},
        {"train_mix": {0: 0}},
        {"train_mix": {0: -1, 1: 2}},
        {"heldout_mix": {5: 1}},
        {"x": 1},
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ChainSettings.model_validate(settings)


def test_more_problems_than_there_are_is_an_error() -> None:
    class Everything(set[Chain]):
        def __contains__(self, chain: object) -> bool:
            return True

    with pytest.raises(TaskError, match="2 steps with 1 hard ones"):
        draw_chain(random.Random(0), 2, 1, Everything())


def test_unknown_split_and_foreign_prompt_are_errors() -> None:
    with pytest.raises(TaskError, match="test"):
        TASK.problems("test")
    with pytest.raises(TaskError, match="What is"):
        Chain.read("What is 2 + 2?")


def test_it_checks_steps_and_loads_no_torch() -> None:
    assert isinstance(TASK, ChecksSteps)
    code = "import sys, mentor_audit.tasks.chain; print([m for m in ('torch', 'transformers') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_a_fingerprint_is_of_the_content() -> None:
    assert fingerprint("a  b\n", "1") == fingerprint("a b", " 1")
    assert fingerprint("e\u0301", None) == fingerprint("\xe9", None)
    marks = [
        fingerprint(*x)
        for x in [("a b", "1"), ("A b", "1"), ("a b 1", None), ("a b", None), ("a b", ""), ("a", "b 1"), ("\ud800", "1")]
    ]
    assert len(set(marks)) == 7
    assert problem_id("chain", marks[0]) == f"chain-{marks[0][:16]}"
