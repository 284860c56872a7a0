"""How far two auditors agree, and what the rate that one of them saw comes to when its known errors are taken out.

Pure functions of verdict rows. The unit is the problem: diagnoses of one problem resemble each other, so intervals come from a
bootstrap over problems, of the whole statistic.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

Rows = Iterable[Mapping[str, Any]]
"""One a diagnosis, auditor and aspect, with problem_id, diagnosis_id, auditor, aspect and verdict (None: could not tell)."""

NUM_RESAMPLES = 2000
COUNTS_AT_ONCE = 4_000_000
"""Problems times resamples in memory: some 30 MB."""
CONFIDENCE = 0.95
DEFINED = 1 - (1 - CONFIDENCE) / 2
"""Share of the resamples that a statistic must exist in: where fewer have it, an end of the interval would be made up."""
PRIOR = 0.5
"""Weight of an outcome that a resample may add to the judge's errors: one that was not seen is still possible (Jeffreys' prior)."""
_Z = 1.959964


class Interval(NamedTuple):
    low: float
    high: float


@dataclass(frozen=True)
class Rate:
    """`value` 0 to 1; None: of nothing. `interval` None: it can't be told from so little."""

    value: float | None
    interval: Interval | None
    number: int


@dataclass(frozen=True)
class Agreement:
    """Of two auditors, on the diagnoses that both gave a verdict on.

    both_right, only_reference, only_other, both_wrong    the confusion matrix: diagnoses by who found them right
    raw         share of equal verdicts; None: no diagnosis was judged by both
    reference_prevalence, other_prevalence    share that each found right, of these
    kappa       Cohen's (1960), agreement beyond chance; None: undefined, and `why` says why
    interval    of kappa, 95 %; None: can't be told, and `why` says why
    """

    reference: str
    other: str
    aspect: str
    both_right: int
    only_reference: int
    only_other: int
    both_wrong: int
    num_problems: int
    raw: float | None
    reference_prevalence: float | None
    other_prevalence: float | None
    kappa: float | None
    interval: Interval | None
    why: str | None


@dataclass(frozen=True)
class CorrectedRate:
    """The share of right diagnoses behind what `judge` saw, by its errors against `reference`.

    apparent       share that the judge found right, of all that it gave a verdict on
    sensitivity    of what the reference found right, the share that the judge did; specificity: the same of what was wrong
    corrected      Rogan and Gladen's; None: can't be told, and `why` says why. Its interval carries the uncertainty of all three
    """

    judge: str
    reference: str
    aspect: str
    apparent: Rate
    sensitivity: Rate
    specificity: Rate
    corrected: Rate
    why: str | None


def agreement(rows: Rows, reference: str, other: str, aspect: str, seed: int = 0) -> Agreement:
    """The interval is the percentile interval of a bootstrap over problems. Where every verdict is equal it has no spread; then its
    lower end comes from Wilson's lower bound on the raw agreement, with the number of problems as sample size.
    """
    counts_P_4 = _pairs(rows, reference, other, aspect)
    total_4 = counts_P_4.sum(axis=0)
    number, problems = int(total_4.sum()), len(counts_P_4)
    kappa = _kappa(total_4)
    interval, why = None, None
    if not number:
        why = "no diagnosis was judged by both"
    elif math.isnan(kappa):
        why = "both gave all of them the same verdict: agreement beyond chance is not defined"
    elif problems < 2:
        why = "an interval takes two problems"
    elif not total_4[1] and not total_4[2]:
        chance = _chance(total_4)
        interval = Interval((_wilson_low(problems) - chance) / (1 - chance), 1.0)
    else:
        interval = _interval(_kappa(_resampled(counts_P_4, np.random.default_rng(seed))))
        why = None if interval else "in too many resamples of the problems one auditor gave one verdict only"
    return Agreement(
        reference=reference,
        other=other,
        aspect=aspect,
        both_right=int(total_4[0]),
        only_reference=int(total_4[1]),
        only_other=int(total_4[2]),
        both_wrong=int(total_4[3]),
        num_problems=problems,
        raw=float((total_4[0] + total_4[3]) / number) if number else None,
        reference_prevalence=float((total_4[0] + total_4[1]) / number) if number else None,
        other_prevalence=float((total_4[0] + total_4[2]) / number) if number else None,
        kappa=None if math.isnan(kappa) else float(kappa),
        interval=interval,
        why=why,
    )


def corrected_rate(rows: Rows, judge: str, reference: str, aspect: str, seed: int = 0) -> CorrectedRate:
    """Rogan and Gladen (1978): (apparent + specificity - 1) / (sensitivity + specificity - 1), kept in 0 to 1.

    It takes the judge to err on the diagnoses that the reference did not see as it does on those that it saw: let the reference
    judge a random part. The interval is of one bootstrap over problems in which rate and errors are drawn together; each resample
    adds a draw of four outcomes of weight PRIOR to the errors: a judge without a seen error is not taken to be without error.
    """
    kept = list(rows)
    judged_P_2, pairs_P_4 = _judged_and_pairs(kept, judge, reference, aspect)
    rng = np.random.default_rng(seed)
    judged_B_2, pairs_B_4 = np.split(_resampled(np.hstack([judged_P_2, pairs_P_4]), rng), [2], axis=1)
    prior_B_4 = PRIOR * rng.multinomial(4, [0.25] * 4, size=NUM_RESAMPLES)
    right, n = judged_P_2.sum(axis=0)
    total_4 = pairs_P_4.sum(axis=0)
    positive, negative = int(total_4[0] + total_4[1]), int(total_4[2] + total_4[3])
    apparent_B = _divided(judged_B_2[:, 0], judged_B_2[:, 1])
    sensitivity_B, specificity_B = _errors(pairs_B_4 + prior_B_4)
    sensitivity, specificity = (float(part) for part in _errors(total_4))
    value = float(rogan_gladen(_divided(right, n), sensitivity, specificity))
    interval = None if math.isnan(value) else _interval(rogan_gladen(apparent_B, sensitivity_B, specificity_B))
    few = len(judged_P_2) < 2
    return CorrectedRate(
        judge=judge,
        reference=reference,
        aspect=aspect,
        apparent=_rate(float(_divided(right, n)), apparent_B, int(n), few),
        sensitivity=_rate(sensitivity, sensitivity_B, positive, few),
        specificity=_rate(specificity, specificity_B, negative, few),
        corrected=Rate(None if math.isnan(value) else value, None if few else interval, int(n)),
        why=_why_not(value, interval, few, positive, negative),
    )


def rogan_gladen(apparent: Any, sensitivity: Any, specificity: Any) -> Any:
    """Numbers, or arrays of one shape. NaN where sensitivity + specificity <= 1: such a judge tells nothing."""
    informed = np.asarray(sensitivity) + np.asarray(specificity) - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(informed > 0, np.clip((np.asarray(apparent) + specificity - 1) / informed, 0.0, 1.0), np.nan)


def _why_not(value: float, interval: Interval | None, few: bool, positive: int, negative: int) -> str | None:
    if not positive or not negative:
        missing = "right" if not positive else "wrong"
        return f"the reference found none {missing} of those that the judge gave a verdict on: its error there is not known"
    if math.isnan(value):
        return "the judge's verdicts tell no more of the reference's than chance: sensitivity and specificity come to 1 or less"
    if few:
        return "an interval takes two problems"
    if interval is None:
        return "the judge's error is too uncertain for an interval: let the reference judge more diagnoses"
    return None


def _pairs(rows: Rows, reference: str, other: str, aspect: str) -> np.ndarray:
    """(problems, 4): both right, only the reference, only the other, both wrong; of problems with a diagnosis that both judged."""
    counts_P_4 = _judged_and_pairs(rows, other, reference, aspect)[1][:, [0, 1, 3, 2]]
    found: np.ndarray = counts_P_4[counts_P_4.sum(axis=1) > 0]
    return found


def _judged_and_pairs(rows: Rows, judge: str, reference: str, aspect: str) -> tuple[np.ndarray, np.ndarray]:
    """(problems, 2): found right by the judge, judged; and (problems, 4): by the reference right and found so, right and missed,
    wrong and found so, wrong and missed. Of problems that the judge gave a verdict on.
    """
    verdicts: dict[tuple[str, str], dict[str, bool]] = {}
    for row in rows:
        if row["aspect"] == aspect and row["auditor"] in (judge, reference) and row["verdict"] is not None:
            verdicts.setdefault((row["problem_id"], row["diagnosis_id"]), {})[row["auditor"]] = bool(row["verdict"])
    places: dict[str, int] = {}
    judged, pairs = [], []
    for (problem, _), given in sorted(verdicts.items()):
        if judge not in given:
            continue
        place = places.setdefault(problem, len(places))
        judged.append((place, not given[judge]))
        if reference in given:
            outcome = (0 if given[judge] else 1) if given[reference] else (3 if given[judge] else 2)
            pairs.append((place, outcome))
    judged_P_2, pairs_P_4 = np.zeros((len(places), 2)), np.zeros((len(places), 4))
    for place, is_wrong in judged:
        judged_P_2[place] += (not is_wrong, 1)
    for place, outcome in pairs:
        pairs_P_4[place, outcome] += 1
    return judged_P_2, pairs_P_4


def _errors(pairs_4: np.ndarray) -> tuple[Any, Any]:
    """(sensitivity, specificity); NaN where there is nothing to tell from."""
    true_found, true_missed, false_found, false_missed = np.moveaxis(pairs_4, -1, 0)
    return _divided(true_found, true_found + true_missed), _divided(false_found, false_found + false_missed)


def _chance(counts_4: np.ndarray) -> Any:
    """Agreement that the two prevalences would make by chance."""
    both, first, second, _ = np.moveaxis(counts_4, -1, 0)
    n = counts_4.sum(axis=-1)
    a, b = _divided(both + first, n), _divided(both + second, n)
    return a * b + (1 - a) * (1 - b)


def _kappa(counts_4: np.ndarray) -> Any:
    """NaN where both gave one and the same verdict throughout."""
    raw = _divided(counts_4[..., 0] + counts_4[..., 3], counts_4.sum(axis=-1))
    chance = _chance(counts_4)
    return _divided(raw - chance, np.where(1 - chance > 1e-12, 1 - chance, 0.0))


def _resampled(counts_P_K: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(resamples, K): the sums over as many problems, drawn with replacement."""
    num_problems = len(counts_P_K)
    sums_B_K = np.zeros((NUM_RESAMPLES, counts_P_K.shape[1]))
    at_once = max(1, COUNTS_AT_ONCE // max(1, num_problems))
    for start in range(0, NUM_RESAMPLES if num_problems else 0, at_once):
        part = sums_B_K[start : start + at_once]
        part[:] = rng.multinomial(num_problems, np.full(num_problems, 1 / num_problems), size=len(part)) @ counts_P_K
    return sums_B_K


def _interval(values_B: np.ndarray) -> Interval | None:
    """Percentiles; None where too few resamples have a value."""
    known = values_B[np.isfinite(values_B)]
    if len(known) < DEFINED * len(values_B):
        return None
    low, high = np.quantile(known, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Interval(float(low), float(high))


def _rate(value: float, values_B: np.ndarray, number: int, few: bool) -> Rate:
    if math.isnan(value):
        return Rate(None, None, number)
    return Rate(value, None if few else _interval(values_B), number)


def _wilson_low(number: int) -> float:
    """Wilson's lower bound of a share of 1 among `number`."""
    return 1 / (1 + _Z**2 / number)


def _divided(top: Any, bottom: Any) -> Any:
    """NaN where `bottom` is 0."""
    top, bottom = np.asarray(top, dtype=float), np.asarray(bottom, dtype=float)
    return np.divide(top, bottom, out=np.full(np.broadcast(top, bottom).shape, np.nan), where=bottom != 0)
