"""Cost rows: one owner's share of a model call, or one optimizer phase."""

from collections.abc import Mapping, Sequence
from typing import Any

from mentor_audit.protocols import Usage
from mentor_audit.records import Cost, Payer, Phase


def cost_row(
    unit_columns: Mapping[str, Any],
    owner: tuple[str, str],
    phase: Phase,
    payer: Payer,
    usages: Sequence[Usage],
    used: bool,
    error: str | None = None,
) -> Cost:
    """The sum of one owner's sequences in one call. `owner` is (table, id).

    A column is None when it is unknown for any of the sequences: a sum that leaves something out would look like a total.
    """
    table, owner_id = owner
    models = {u.model for u in usages}
    return Cost(
        **unit_columns,
        cost_id=f"{owner_id}.{phase}",
        call_id=usages[0].call_id if usages else f"{owner_id}.{phase}",
        owner_table=table,  # type: ignore[arg-type]
        owner_id=owner_id,
        phase=phase,
        payer=payer,
        model=models.pop() if len(models) == 1 else None,
        sequences=sum(u.sequences for u in usages),
        prompt_tokens=_total([u.prompt_tokens for u in usages]),
        cached_tokens=_total([u.cached_tokens for u in usages]),
        output_tokens=_total([u.output_tokens for u in usages]),
        padded_tokens=_total([u.padded_tokens for u in usages]),
        flops=_total([u.flops for u in usages]),
        flops_prefix_cached=_total([u.flops_prefix_cached for u in usages]),
        wall_seconds=sum(u.wall_seconds for u in usages),
        disposition="used" if used else "discarded",
        error=error,
    )


def _total(values: Sequence[Any]) -> Any:
    return None if any(v is None for v in values) else sum(values)
