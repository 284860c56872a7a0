"""The formulas checked by counting: torch's FlopCounterMode over one step, phase by phase, beside what the formulas gave.

The counter costs 1.1 to 6 times the step, so it runs once a run. It sees what goes through torch's dispatcher: not vLLM's own
process, nor kernels of other packages (flash-attn).
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count


@dataclass
class FlopCount:
    """`total` is set when the counting context ends."""

    total: int = 0


@contextmanager
def counted_flops() -> Iterator[FlopCount]:
    """FLOPs of what runs inside. Contexts nest; the outer one counts the inner one's work as well."""
    count = FlopCount()
    with FlopCounterMode(display=False, custom_mapping=UNMAPPED) as counter:
        yield count
    count.total = int(counter.get_total_flops())


@dataclass
class Calibration:
    """Counted and computed FLOPs by phase.

    whole   counted over a whole update, set by its owner when that ends
    inner   counted in the phases added so far, all of them inside that update
    """

    phases: dict[str, tuple[float, float]] = field(default_factory=dict)
    whole: float = 0.0

    @property
    def inner(self) -> float:
        return sum(counted for counted, _ in self.phases.values())

    def add(self, phase: str, counted: float, computed: float) -> None:
        before = self.phases.get(phase, (0.0, 0.0))
        self.phases[phase] = before[0] + counted, before[1] + computed

    def ratios(self) -> dict[str, float | None]:
        """Computed over counted, 1.0 where the formula is right; None where nothing was counted."""
        return {phase: computed / counted if counted else None for phase, (counted, computed) in self.phases.items()}

    def to_json(self) -> str:
        """Phase to counted, computed and ratio, as kept in `run.flop_calibration`."""
        ratios = self.ratios()
        return json.dumps({p: {"counted": c, "computed": f, "ratio": ratios[p]} for p, (c, f) in self.phases.items()})


def _sdpa_cpu(query: Any, key: Any, value: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    return int(sdpa_flop_count(query, key, value))


def _sdpa_cpu_backward(grad_out: Any, query: Any, key: Any, value: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    return int(sdpa_backward_flop_count(grad_out, query, key, value))


def _grouped_product(a: Any, b: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """(tokens, in) by (experts, in, out), every token with one expert; or, for their gradient, (in, tokens) by (tokens, out)."""
    return int(2 * a[0] * a[1] * b[-1])


def _add_product(total: Any, a: Any, b: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    return int(2 * a[0] * a[1] * b[1])


UNMAPPED: dict[Any, Any] = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _sdpa_cpu,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: _sdpa_cpu_backward,
    torch.ops.aten._grouped_mm: _grouped_product,
    torch.ops.aten.addmm_: _add_product,
}
"""Operators that torch's counter leaves out: the CPU's fused attention, which computes the scores again in its backward pass like
the other fused kernels; the products of a mixture's experts; in-place products, with which TRL's fused head adds up gradients."""
