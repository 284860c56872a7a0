"""A power plan as plain text, for a terminal."""

from collections.abc import Sequence

from mentor_audit.report.power import PowerPlan
from mentor_audit.report.power_design import ContrastPlan, Design
from mentor_audit.report.words import UNKNOWN, count, percent, scientific


def describe(plan: PowerPlan) -> str:
    """Every contrast with its pilot, its spread and a table of studies, cheapest first; then what can't be planned, and why."""
    head = (
        f"Suite {plan.suite}: what it takes to find a difference of {100 * plan.effect:g} points with {percent(plan.power)} power, two-sided at "
        f"{percent(plan.alpha)}. Prices are the pilot's."
    )
    blocks = [head, *(_contrast(contrast) for contrast in (*plan.rescue, *plan.transfer))]
    if plan.missing:
        blocks.append("\n".join(f"Cannot plan: {why}." for why in plan.missing))
    return "\n\n".join(blocks) + "\n"


def _contrast(contrast: ContrastPlan) -> str:
    sizes = ", ".join(f"{name} {f'{number:.1f}'.removesuffix('.0')}" for name, number in contrast.pilot.items())
    spread = ", ".join(f"{name} {UNKNOWN if d is None else f'{100 * d:.1f}'}" for name, d in contrast.components.items())
    rows = [_row(design) for design in contrast.designs]
    heads = list(dict.fromkeys(name for row in rows for name in row))
    heads = [name for name in heads if name not in ("power", "tokens", "FLOPs")] + ["power", "tokens", "FLOPs"]
    return "\n".join(
        [
            f"{contrast.name}: {contrast.outcome}",
            f"  pilot: {sizes}; a study of its size has {percent(contrast.pilot_power)} power",
            f"  spread, standard deviations in points: {spread}",
            *_table([heads, *([row.get(head, "none is enough") for head in heads] for row in rows)]),
            *(f"  Note: {caution}." for caution in contrast.cautions),
        ]
    )


def _row(design: Design) -> dict[str, str]:
    """Without its first size where no number of it is enough."""
    sizes = {name: count(number) for name, number in design.sizes.items()}
    if design.power is None:
        return {**sizes, "power": "-", "tokens": "-", "FLOPs": "-"}
    return {**sizes, "power": percent(design.power), "tokens": count(design.tokens), "FLOPs": scientific(design.flops)}


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
