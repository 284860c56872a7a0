"""Verdicts: what a comparison allows to be said, in one word, one sentence and one plain paragraph. For transfer and for rescue alike.

The questions are asked in a fixed order, each only after the one before was answered, so that each may use the 5 % level:
1. is there a gain of mentor over vanilla? 2. does mentor beat resample? 3. does a true diagnosis, its answer removed, beat a wrong
one? 4. does resample beat vanilla; or, where the third says no, does the mentor beat its own words without the answer?
"Nothing there" needs evidence too: the one-sided 95 % bound below the margin. Otherwise the answer is "can't tell". A part that is above 0
but shown to be below the margin explains nothing of a gain that is larger: with enough failures every difference is above 0.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from mentor_audit.report.contrasts import MARGIN, Contrast
from mentor_audit.report.replay import Replay, RescueContrast
from mentor_audit.report.transfer import Transfer, resample_arm
from mentor_audit.report.words import and_list, compute_words, percent, points_interval

MIN_SEEDS, GOOD_SEEDS = 3, 5
MIN_PROBLEMS = 20
"""Of a replay: with fewer clusters the bootstrap's interval is too narrow (Cameron, Gelbach and Miller 2008, Rev. Econ. Stat. 90(3))."""
SECOND_EXIT = 0.025
"""Two-sided p of leakage, which names a cause after correctness was asked for one: the two share the level."""
AnyContrast = Contrast | RescueContrast

SENTENCES = {
    "correct_diagnoses": "Gain explained by correct diagnoses; {sampling}.",
    "extra_sampling": "Gain explained by extra sampling: the mentor is no better than resampling ({within}).",
    "both": "Gain explained by both extra sampling and correct diagnoses.",
    "leakage": "Gain explained by answers that instructions give away: without them a true diagnosis is no better than a wrong one "
    "({within}).",
    "instruction_form": "Gain explained by being shown an instruction, right or wrong: the mentor is no better than a wrong diagnosis "
    "({within}).",
    "no_gain": "No gain: the mentor is no better than vanilla ({within}).",
    "cannot_tell": "Can't tell.",
}
SAMPLING_LITTLE = f"extra sampling adds less than {100 * MARGIN:.0f} points to vanilla, with 95 % confidence"
SAMPLING_OPEN = "extra sampling was not shown to add to it"
PROOF = {
    "extra_sampling": "beyond sampling",
    "leakage": "correctness, answer removed",
    "instruction_form": "correctness",
    "no_gain": "gain",
}
"""Verdict -> the contrast that was found to be nothing."""


@dataclass(frozen=True)
class Verdict:
    """`code` is a key of SENTENCES. `reasons` say why it can't be told; `caveats` qualify any verdict."""

    code: str
    sentence: str
    paragraph: str
    reasons: list[str] = field(default_factory=list)
    caveats: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Evidence:
    """What a verdict stands on. `shortage` of a contrast: why it has too little behind it, in words; None: it has enough."""

    arms: list[str]
    extra: str
    contrast: Callable[[str], AnyContrast | None]
    shortage: Callable[[AnyContrast], str | None]


def decide(transfer: Transfer, caveats: list[str]) -> Verdict:
    """The verdict on a comparison of trainings; `caveats` are those that the data brought along."""
    arms = [arm["arm"] for arm in transfer.arms]
    evidence = Evidence(arms, resample_arm(arms, transfer.unit), transfer.contrast, _few_seeds)
    code, reasons = (
        ("cannot_tell", [transfer.refusal]) if transfer.refusal is not None else _code(evidence, len(transfer.left_out))
    )
    found = [*_seed_caveats(transfer), *_budget_caveats(transfer), *_answer_caveats(code, evidence), *caveats]
    return _verdict(code, reasons, evidence, [_numbers(transfer), _split(transfer)], found)


def decide_replay(replay: Replay) -> Verdict:
    """The verdict on one replay."""
    arms = [arm["arm"] for arm in replay.arms]
    extra = next((c.minus for c in replay.contrasts if c.name == "beyond sampling"), "resample")
    evidence = Evidence(arms, extra, replay.contrast, _few_problems)
    code, reasons = _code(evidence, 0)
    caveats = [*_replay_caveats(replay), *_answer_caveats(code, evidence)]
    return _verdict(code, reasons, evidence, [_rescued(replay, extra), _replay_split(replay)], caveats)


def _verdict(code: str, reasons: list[str], evidence: Evidence, numbers: list[str], caveats: list[str]) -> Verdict:
    sampling = evidence.contrast("sampling")
    sentence = SENTENCES[code].format(
        within=_within(evidence.contrast(PROOF[code])) if code in PROOF else "",
        sampling=SAMPLING_LITTLE if sampling is not None and _is_nothing(sampling) else SAMPLING_OPEN,
    )
    if reasons:
        sentence = f"{sentence.rstrip('.')}: {and_list(reasons)}."
    return Verdict(code, sentence, " ".join(part for part in (sentence, *numbers, *caveats) if part), reasons, caveats)


def _within(contrast: AnyContrast | None) -> str:
    """Equal within the margin, where that was shown; else only that it is not ahead by more."""
    margin = f"{100 * MARGIN:.0f} points"
    if contrast is not None and contrast.equivalence_p is not None and contrast.equivalence_p < 0.05:
        return f"equivalence within {margin}, with 95 % confidence"
    return f"ahead by less than {margin}, with 95 % confidence"


def _code(evidence: Evidence, num_left_out: int) -> tuple[str, list[str]]:
    missing = [arm for arm in ("vanilla", evidence.extra, "mentor") if arm not in evidence.arms]
    if missing:
        return "cannot_tell", [_missing_words(missing, num_left_out)]
    gain, beyond, sampling = (evidence.contrast(name) for name in ("gain", "beyond sampling", "sampling"))
    if gain is None or beyond is None or sampling is None:
        return "cannot_tell", ["an arm that is needed has no verdicts"]
    short = next((words for c in (gain, beyond, sampling) if (words := evidence.shortage(c))), None)
    if short:
        return "cannot_tell", [short]
    if not _above_zero(gain):
        if _is_nothing(gain):
            return "no_gain", []
        return "cannot_tell", [f"the interval of the gain over vanilla includes 0, {points_interval(gain.estimate)} points"]
    if _is_cause(beyond, gain):
        return _beyond_sampling(evidence, gain, sampling)
    if _is_cause(sampling, gain) and _is_nothing(beyond):
        return "extra_sampling", []
    return "cannot_tell", [
        f"there is a gain, but mentor minus {beyond.minus} is {points_interval(beyond.estimate)} points, so what is left of it beyond sampling "
        "is open"
    ]


def _beyond_sampling(evidence: Evidence, gain: AnyContrast, sampling: AnyContrast) -> tuple[str, list[str]]:
    removed = evidence.contrast("correctness, answer removed")
    correctness = removed or evidence.contrast("correctness")
    if correctness is None or evidence.shortage(correctness):
        return "cannot_tell", [
            "there is a gain beyond extra sampling, but without the arm wrong on as much data nobody can say whether correct diagnoses "
            "make it"
        ]
    if _is_cause(correctness, gain):
        return ("both" if _is_cause(sampling, gain) else "correct_diagnoses"), []
    if _is_nothing(correctness):
        leakage = evidence.contrast("leakage") if removed else None
        if leakage is not None and _is_cause(leakage, gain) and (leakage.estimate.p or 0.0) <= SECOND_EXIT:
            return "leakage", []
        whole = evidence.contrast("correctness")
        if whole is not None and _is_nothing(whole):
            return "instruction_form", []
        correctness = whole or correctness
    return "cannot_tell", [
        f"there is a gain beyond extra sampling, but {correctness.plus} minus {correctness.minus} is {points_interval(correctness.estimate)} "
        "points, so whether correct diagnoses make it is open"
    ]


def _few_seeds(contrast: AnyContrast) -> str | None:
    seeds = contrast.estimate.num_seeds
    return None if seeds >= MIN_SEEDS else f"too few seeds, {seeds} in all compared arms where at least {MIN_SEEDS} are needed"


def _few_problems(contrast: AnyContrast) -> str | None:
    problems = contrast.estimate.num_problems
    return (
        None
        if problems >= MIN_PROBLEMS
        else f"too few problems with a failure, {problems} where at least {MIN_PROBLEMS} are needed"
    )


def _answer_caveats(code: str, evidence: Evidence) -> list[str]:
    if code in ("correct_diagnoses", "both") and evidence.contrast("correctness, answer removed") is None:
        return ["Without the arm scrubbed an answer that instructions give away counts as correctness."]
    return []


def _replay_caveats(replay: Replay) -> list[str]:
    found = []
    unknown = [arm["arm"] for arm in replay.arms if arm["unknown"] > 0.02 * arm["failures"]]
    if unknown:
        found.append(f"Failures of which a response lacks a verdict are left out; of {and_list(unknown)} they are more than 2 %.")
    return found


def _rescued(replay: Replay, extra: str) -> str:
    rates = {arm["arm"]: arm["rescue_rate"].value for arm in replay.arms}
    told = [f"{arm} rescued {percent(rates[arm])}" for arm in ("mentor", extra, "wrong") if rates.get(arm) is not None]
    who = "" if replay.mentor_accuracy is None else f", by a mentor that is set to be right in {percent(replay.mentor_accuracy)}"
    return f"Of {replay.num_failures} failures on {replay.num_problems} problems{who}, {and_list(told)}." if told else ""


def _replay_split(replay: Replay) -> str:
    gain = replay.contrast("gain")
    if gain is None or gain.estimate.value is None:
        return ""
    parts = and_list([f"{rung.name} {points_interval(rung.estimate)}" for rung in replay.decomposition])
    noise = replay.contrast("noise floor")
    beside = f" The noise floor, mentor minus paraphrase, is {points_interval(noise.estimate)}." if noise else ""
    return f"Of these points: {parts}.{beside}" if parts else ""


def _numbers(transfer: Transfer) -> str:
    if transfer.budget is None:
        return ""
    order = ["mentor", resample_arm([a["arm"] for a in transfer.arms], transfer.unit), "vanilla"]
    known = {arm["arm"]: arm for arm in transfer.arms}
    reached = [(arm, known[arm]["accuracy"].value) for arm in order if arm in known]
    if not reached:
        return ""
    first, rest = reached[0], reached[1:]
    others = "".join(f", {arm} {percent(value)}" for arm, value in rest)
    return (
        f"At a matched {compute_words(transfer.budget, transfer.unit)} of training compute, mentor included, the {first[0]} arm solved "
        f"{percent(first[1])} of held-out problems without any instruction{others}."
    )


def _split(transfer: Transfer) -> str:
    gain = transfer.contrast("gain")
    if gain is None or gain.estimate.value is None:
        return ""
    is_gain = gain.estimate.value > 0
    verb = "explains" if is_gain else "accounts for"
    parts = and_list([f"{rung.name} {verb} {points_interval(rung.estimate)}" for rung in transfer.decomposition])
    whole = "Of the gain over vanilla" if is_gain else "Of the difference to vanilla"
    content = transfer.contrast("content")
    beside = (
        f" Against the diagnosis of another problem, matched in length, the mentor's is ahead by {points_interval(content.estimate)} "
        "(content)."
        if content
        else ""
    )
    return f"{whole} of {points_interval(gain.estimate)} points, {parts}.{beside}"


def _seed_caveats(transfer: Transfer) -> list[str]:
    core = [c for c in transfer.contrasts if c.name in ("gain", "beyond sampling", "correctness")]
    found = []
    compared = {arm for rung in transfer.decomposition for arm in (rung.plus, rung.minus)}
    parts = [arm for arm in transfer.arms if arm["arm"] in compared]
    counts = [len(arm["seeds"]) for arm in parts]
    if core and MIN_SEEDS <= min(c.estimate.num_seeds for c in core) < GOOD_SEEDS:
        found.append(
            f"Only {min(c.estimate.num_seeds for c in core)} seeds: fewer than {GOOD_SEEDS} can tell a false story, and the intervals are "
            "wide for that reason."
        )
    if len(set(counts)) > 1:
        few = and_list([f"{arm['arm']} has {len(arm['seeds'])}" for arm in parts if len(arm["seeds"]) < max(counts)])
        found.append(f"Not every arm has the same seeds ({few} of {max(counts)}), so the parts need not add up to the gain.")
    return found


def _budget_caveats(transfer: Transfer) -> list[str]:
    if transfer.budget is None:
        return []
    found = []
    if transfer.left_out:
        found.append(
            f"{len(transfer.left_out)} run{'s' if len(transfer.left_out) > 1 else ''} could not be compared; see below why."
        )
    mentor = next((arm for arm in transfer.arms if arm["arm"] == "mentor"), None)
    if mentor is not None and mentor["compute_at_end"] > 1.5 * transfer.budget:
        times = mentor["compute_at_end"] / transfer.budget
        found.append(
            f"The mentor arm went on to spend {times:.1f} times the matched budget; what it reached by then is not compared."
        )
    wide = [arm["arm"] for arm in transfer.arms if arm["widest_gap"] > 0.5 * transfer.budget]
    if wide:
        found.append(
            f"The value of {and_list(wide)} at the matched budget is read between evaluations that lie more than half the budget apart."
        )
    moved = [
        arm["arm"] for arm in transfer.arms if abs(arm["accuracy_unscored_as_wrong"] - (arm["accuracy"].value or 0.0)) > 0.01
    ]
    if moved:
        found.append(
            f"Samples without a verdict are left out of accuracy; counting them as wrong would move {and_list(moved)} by more than a point."
        )
    return found


def _missing_words(missing: list[str], num_left_out: int) -> str:
    beside = f" ({num_left_out} runs could not be compared)" if num_left_out else ""
    return f"{'arms are' if len(missing) > 1 else 'an arm is'} missing from the comparison, {and_list(missing)}{beside}"


def _above_zero(contrast: AnyContrast) -> bool:
    return contrast.estimate.low is not None and contrast.estimate.low > 0


def _is_cause(part: AnyContrast, gain: AnyContrast) -> bool:
    """Above 0, and not shown to be below the margin where the gain is not."""
    return _above_zero(part) and (not _is_nothing(part) or _is_nothing(gain))


def _is_nothing(contrast: AnyContrast) -> bool:
    """The arm is no better by more than the margin, with one-sided 95 % confidence."""
    return contrast.upper_95 is not None and contrast.upper_95 < MARGIN
