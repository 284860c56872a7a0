"""The verdict: what the held-out comparison allows to be said, in one word, one sentence and one plain paragraph.

The questions are asked in a fixed order, each only after the one before was answered, so that each may use the 5 % level:
1. is there a gain of mentor over vanilla? 2. does mentor beat resample? 3. does mentor beat wrong? 4. does resample beat vanilla?
"Nothing there" needs evidence too: the one-sided 95 % bound below the margin. Otherwise the answer is "cannot tell".
"""

from dataclasses import dataclass, field

from mentor_audit.report.transfer import MARGIN, Contrast, Transfer, resample_arm
from mentor_audit.report.words import and_list, compute_words, percent, points_interval

MIN_SEEDS, GOOD_SEEDS = 3, 5

SENTENCES = {
    "correct_diagnoses": "The gain comes from correct diagnoses; extra sampling was not shown to add to it.",
    "extra_sampling": "The gain comes from extra sampling: beyond it the mentor adds less than {margin} points, with 95 % confidence.",
    "both": "The gain comes from both extra sampling and correct diagnoses.",
    "instruction_form": "The gain comes from being shown an instruction, right or wrong: that its diagnosis is correct adds less than "
    "{margin} points, with 95 % confidence.",
    "no_gain": "There is no gain: mentor is ahead of vanilla by less than {margin} points, with 95 % confidence.",
    "cannot_tell": "Cannot tell.",
}


@dataclass(frozen=True)
class Verdict:
    """`code` is a key of SENTENCES. `reasons` say why it can't be told; `caveats` qualify any verdict."""

    code: str
    sentence: str
    paragraph: str
    reasons: list[str] = field(default_factory=list)
    caveats: list[str] = field(default_factory=list)


def decide(transfer: Transfer, caveats: list[str]) -> Verdict:
    """The verdict on a comparison; `caveats` are those that the data brought along."""
    code, reasons = _code(transfer)
    found = [*_seed_caveats(transfer), *_budget_caveats(transfer), *caveats]
    sentence = SENTENCES[code].format(margin=f"{100 * MARGIN:.0f}")
    if reasons:
        sentence = f"{sentence.rstrip('.')}: {and_list(reasons)}."
    paragraph = " ".join(part for part in (sentence, _numbers(transfer), _split(transfer), *found) if part)
    return Verdict(code, sentence, paragraph, reasons, found)


def _code(transfer: Transfer) -> tuple[str, list[str]]:
    if transfer.refusal is not None:
        return "cannot_tell", [transfer.refusal]
    arms = [arm["arm"] for arm in transfer.arms]
    missing = [arm for arm in ("vanilla", resample_arm(arms, transfer.unit), "mentor") if arm not in arms]
    if missing:
        return "cannot_tell", [_missing_words(transfer, missing)]
    gain, beyond, sampling = (transfer.contrast(name) for name in ("gain", "beyond sampling", "sampling"))
    assert gain is not None and beyond is not None and sampling is not None
    fewest = min(c.estimate.num_seeds for c in (gain, beyond, sampling))
    if fewest < MIN_SEEDS:
        return "cannot_tell", [f"too few seeds, {fewest} in all compared arms where at least {MIN_SEEDS} are needed"]
    if not _above_zero(gain):
        if _is_nothing(gain):
            return "no_gain", []
        return "cannot_tell", [f"the interval of the gain over vanilla includes 0, {points_interval(gain.estimate)} points"]
    if _above_zero(beyond):
        return _beyond_sampling(transfer, sampling)
    if _above_zero(sampling) and _is_nothing(beyond):
        return "extra_sampling", []
    return "cannot_tell", [
        f"there is a gain, but the interval of mentor minus {beyond.minus} includes 0, {points_interval(beyond.estimate)} points, so what is "
        "left of it beyond sampling is open"
    ]


def _beyond_sampling(transfer: Transfer, sampling: Contrast) -> tuple[str, list[str]]:
    correctness = transfer.contrast("correctness")
    if correctness is None or correctness.estimate.num_seeds < MIN_SEEDS:
        return "cannot_tell", [
            "there is a gain beyond extra sampling, but without the arm `wrong` on as many seeds nobody can say whether correct diagnoses "
            "make it"
        ]
    if _above_zero(correctness):
        return ("both" if _above_zero(sampling) else "correct_diagnoses"), []
    if _is_nothing(correctness):
        return "instruction_form", []
    return "cannot_tell", [
        "there is a gain beyond extra sampling, but the interval of mentor minus wrong includes 0, "
        f"{points_interval(correctness.estimate)} points, so whether correct diagnoses make it is open"
    ]


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


def _missing_words(transfer: Transfer, missing: list[str]) -> str:
    beside = f" ({len(transfer.left_out)} runs could not be compared)" if transfer.left_out else ""
    return f"{'arms are' if len(missing) > 1 else 'an arm is'} missing from the comparison, {and_list(missing)}{beside}"


def _above_zero(contrast: Contrast) -> bool:
    return contrast.estimate.low is not None and contrast.estimate.low > 0


def _is_nothing(contrast: Contrast) -> bool:
    """The arm is no better by more than the margin, with one-sided 95 % confidence."""
    return contrast.upper_95 is not None and contrast.upper_95 < MARGIN
