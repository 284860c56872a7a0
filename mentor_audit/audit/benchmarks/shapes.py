"""Rows of four data sets -> labelled solutions. The shapes are those of the published files; nothing of their data is here.

processbench      Zheng et al., arXiv 2412.06559: `steps`, `label` counted from 0, -1 for none
bigbench_mistake  Tyen et al., arXiv 2311.08516: `steps`, `mistake_index` counted from 0, null for none
prm800k           Lightman et al., arXiv 2305.20050: ratings of every step, -1 for a wrong one
mr_gsm8k          Zeng et al., arXiv 2312.17080: `model_output_steps`, the first wrong step counted from 1
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from mentor_audit.audit.benchmarks.labelled import Fields, Imported, LabelledSolution, LeftOut
from mentor_audit.config import nearest
from mentor_audit.errors import ConfigError, TaskError
from mentor_audit.tasks.reading import read_rows

Read = Callable[[Fields, str], "LabelledSolution | LeftOut"]


def load_benchmark(path: str, shape: str, *, split: str = "test", limit: int | None = None) -> Imported:
    """The solutions of a file (JSONL, JSON, Parquet) or a Hugging Face data set, in its order; `split` is of the latter.

    `limit` reads so many rows and no more; None: all. Raises ConfigError for an unknown shape or a limit below 1, TaskError for
    a row that is not of the shape (rows are counted from 1), and for a file without a solution that could be scored.
    """
    if shape not in SHAPES:
        raise ConfigError(f"Expected a shape ({', '.join(SHAPES)}), found `{shape}`{nearest(shape, list(SHAPES))}")
    if limit is not None and limit < 1:
        raise ConfigError(f"Expected a limit of at least 1, found {limit}. Leave it out to read every row.")
    solutions, left_out = [], Counter[str]()
    for number, row in enumerate(read_rows(path, split)[:limit], 1):
        found = SHAPES[shape](Fields(row, f"row {number} of {path}"), f"{shape}-{number}")
        if isinstance(found, LeftOut):
            left_out[found.why] += 1
        else:
            solutions.append(found)
    if not solutions:
        raise TaskError(
            f"Expected solutions with a verdict in {path}, found none: {dict(left_out)} are left out. Choose another file."
        )
    return Imported(tuple(solutions), dict(left_out))


def of_processbench(row: Fields, name: str) -> LabelledSolution:
    steps = row.texts("steps")
    right = row.optional("final_answer_correct")
    return LabelledSolution(
        source="processbench",
        id=str(row.optional("id") or name),
        problem=row.text("problem"),
        steps=steps,
        first_error=None if _is(row.optional("label"), -1) else row.index("label", steps),
        answer_is_right=right if isinstance(right, bool) else None,
    )


def of_bigbench_mistake(row: Fields, name: str) -> LabelledSolution:
    steps = row.texts("steps")
    answer, target = row.optional("answer"), row.optional("target")
    unmarked = row.optional("mistake_index") is None and row.has("mistake_index")
    return LabelledSolution(
        source="bigbench_mistake",
        id=name,
        problem=row.text("input"),
        steps=steps,
        first_error=None if unmarked else row.index("mistake_index", steps),
        answer=target if isinstance(target, str) else None,
        answer_is_right=answer.strip() == target.strip() if isinstance(answer, str) and isinstance(target, str) else None,
    )


def of_mr_gsm8k(row: Fields, name: str) -> LabelledSolution:
    """`model_output_steps` is a list, or a text with a step a line."""
    written = row.optional("model_output_steps")
    steps = tuple(s for s in written.splitlines() if s.strip()) if isinstance(written, str) else row.texts("model_output_steps")
    verdict, field = row.text("model_output_solution_correctness").strip().lower(), "model_output_solution_first_error_step"
    if verdict not in ("correct", "wrong") or not steps:
        raise row.wrong(
            "model_output_solution_correctness" if steps else "model_output_steps", "`correct` or `wrong`" if steps else "steps"
        )
    marked = str(row.optional(field)).strip().upper()
    if verdict == "correct" and marked not in ("N/A", "NONE", ""):
        raise row.wrong(field, "`N/A` for a solution that is correct")
    right = row.optional("model_output_answer_correctness")
    return LabelledSolution(
        source="mr_gsm8k",
        id=str(row.optional("uuid") or name),
        problem=row.text("question"),
        steps=steps,
        first_error=None if verdict == "correct" else row.index(field, steps, first=1),
        answer=_text(row.optional("ground_truth_answer")),
        answer_is_right=right.strip().lower() == "correct" if isinstance(right, str) else None,
    )


def of_prm800k(row: Fields, name: str) -> LabelledSolution | LeftOut:
    """The labelled path: at each step the completion that was chosen, else the one that a person wrote, which counts as right,
    else the first.

    A path that was labelled up to its first error goes on as it was generated, where the row has those steps. Rows that ended
    without a verdict (`give_up`, `bad_problem`), and those with an unrated step before any wrong one, are left out.
    """
    label, question = row.inner("label"), row.inner("question")
    reason = label.text("finish_reason")
    if reason in ("give_up", "bad_problem"):
        return LeftOut(reason)
    if reason not in ("solution", "found_error"):
        raise label.wrong("finish_reason", "`solution`, `found_error`, `give_up` or `bad_problem`")
    steps: list[str] = []
    first_error = None
    for step in label.inners("steps"):
        text, rating = _of_step(step)
        steps.append(text)
        if rating is None:
            return LeftOut("a step without a rating")
        if rating == -1:
            first_error = len(steps) - 1
            break
    if first_error is None and reason == "found_error":
        return LeftOut("found_error, and no step on the path is rated -1")
    generated = question.optional("pre_generated_steps")
    if first_error is not None and isinstance(generated, list) and generated[: len(steps)] == steps:
        steps = [str(step) for step in generated]
    return LabelledSolution(
        source="prm800k",
        id=name,
        problem=question.text("problem"),
        steps=tuple(steps),
        first_error=first_error,
        answer=_text(question.optional("ground_truth_answer")),
        answer_is_right=True if reason == "solution" and first_error is None else None,
    )


def _of_step(step: Fields) -> tuple[str, int | None]:
    """(text, rating) of the step on the labelled path."""
    chosen, human = step.optional("chosen_completion"), step.optional("human_completion")
    if chosen is None and human is not None:
        return (human if isinstance(human, str) else step.inner("human_completion").text("text")), 1
    completions = step.inners("completions")
    if chosen is not None:
        step.index("chosen_completion", tuple("" for _ in completions))
    taken = completions[int(chosen or 0)]
    rating = taken.optional("rating")
    if rating not in (-1, 0, 1, None) or isinstance(rating, bool):
        raise taken.wrong("rating", "-1, 0, 1 or null")
    return taken.text("text"), rating if rating is None else int(rating)


def _is(found: Any, value: int) -> bool:
    return not isinstance(found, bool) and found == value


def _text(found: Any) -> str | None:
    return None if found is None else str(found)


SHAPES: dict[str, Read] = {
    "processbench": of_processbench,
    "bigbench_mistake": of_bigbench_mistake,
    "prm800k": of_prm800k,
    "mr_gsm8k": of_mr_gsm8k,
}
