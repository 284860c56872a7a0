"""The tables of docs/validity.md, from the records of validity.py. Shares are of stores."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from naive import ANALYSES

Record = dict[str, Any]
OUTCOMES = {
    "transfer": "transfer",
    "rescue": "rescue: any response correct",
    "success": "success of one response",
    "randomised": "rescue in randomised training",
}


def tables(records: Sequence[Record]) -> str:
    """Markdown: verdicts and coverage by outcome, then the naive analyses beside the report."""
    by_world: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        by_world[record["world"]].append(record)
    outcomes = [outcome for outcome in OUTCOMES if any(outcome in record["parts"] for record in records)]
    parts = []
    for outcome in outcomes:
        having = {world: kept for world, found in by_world.items() if (kept := [r for r in found if outcome in r["parts"]])}
        if outcome in ("transfer", "rescue"):
            parts += [f"### Verdicts on {outcome}", verdicts(having, outcome)]
        parts += [f"### Intervals of {OUTCOMES[outcome]}", coverage(having, outcome)]
    return "\n\n".join([*parts, "### What is often done instead", beside(by_world)])


def verdicts(by_world: dict[str, list[Record]], outcome: str) -> str:
    lines = [["world", "stores", "false", "right", "can't tell", "given"]]
    for world, records in by_world.items():
        parts = [record["parts"][outcome] for record in records]
        codes = Counter(part["code"] for part in parts)
        given = ", ".join(f"{code} {_share(n / len(parts))}" for code, n in codes.most_common())
        shares = [_share(_mean(flags)) for flags in ([p["false"] for p in parts], [p["right"] for p in parts])]
        lines.append([world, str(len(parts)), *shares, _share(codes["cannot_tell"] / len(parts)), given])
    return _markdown(lines)


def coverage(by_world: dict[str, list[Record]], outcome: str) -> str:
    """Of the 95 % intervals of every contrast: the mean over contrasts, the lowest and the highest, and all of a decomposition at once."""
    lines = [["world", "contrasts", "mean", "lowest", "highest", "all steps of the decomposition"]]
    for world, records in by_world.items():
        covers = covering(record["parts"][outcome]["contrasts"] for record in records)
        if not covers:
            lines.append([world, "0", "-", "-", "-", "-"])
            continue
        shares = {pair: _mean(flags) for pair, flags in covers.items()}
        low, high = min(shares, key=lambda pair: shares[pair]), max(shares, key=lambda pair: shares[pair])
        joint = [joint for record in records if (joint := record["parts"][outcome].get("joint")) is not None]
        ends = [f"{_share(shares[pair])} ({pair})" for pair in (low, high)]
        mean = _share(_mean(list(shares.values())))
        lines.append([world, str(len(shares)), mean, *ends, _share(_mean(joint)) if joint else "-"])
    return _markdown(lines)


def covering(parts: Iterable[dict[str, dict[str, float | None]]]) -> dict[str, list[bool]]:
    """Contrast -> by store, does its interval hold the truth? Stores in which it has none are left out."""
    found: dict[str, list[bool]] = defaultdict(list)
    for contrasts in parts:
        for pair, c in contrasts.items():
            if c["low"] is not None and c["high"] is not None:
                found[pair].append(c["low"] - 1e-9 <= (c["true"] or 0.0) <= c["high"] + 1e-9)
    return found


def beside(by_world: dict[str, list[Record]]) -> str:
    """Bias is the mean error in points; a claim is false when the true contrast is 0 and p < 0.05, or the report's interval leaves 0 out."""
    lines = [["analysis", "world", "contrast", "bias", "the report's", "false claims", "the report's"]]
    for analysis in ANALYSES:
        for world in analysis.worlds:
            records = by_world.get(world, [])
            if not records:
                continue
            theirs = [record["naive"][analysis.name] for record in records]
            false = [each["false"] for each in theirs if each["false"] is not None]
            outcome, _, pair = analysis.estimates.partition("/")
            ours = [part["contrasts"][pair] for r in records if (part := r["parts"].get(outcome)) and pair in part["contrasts"]]
            known = [c for c in ours if c["low"] is not None]
            lines.append(
                [
                    analysis.name,
                    world,
                    f"{pair} ({outcome})",
                    _points(_mean([each["error"] for each in theirs])),
                    _points(_mean([c["value"] - c["true"] for c in known])) if known else "-",
                    _share(_mean(false)) if false else "-",
                    _share(_mean([c["low"] > 0 or c["high"] < 0 for c in known])) if false and known else "-",
                ]
            )
    return _markdown(lines)


def _mean(values: Sequence[float | bool]) -> float:
    return float(np.mean(values))


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"


def _points(value: float) -> str:
    return f"{100 * value:+.1f}"


def _markdown(lines: list[list[str]]) -> str:
    head, *rows = [f"| {' | '.join(cells)} |" for cells in lines]
    return "\n".join([head, "|" + "---|" * len(lines[0]), *rows])
