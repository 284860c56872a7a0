"""Per-token weights for follow-ups whose log-probs are taken on the original prompt.

The follow-up was sampled with the instruction; the loss sees it without. A weight w multiplies its advantage token by token.
Axes: B rows, T completion tokens.
"""

import torch

from mentor_audit.config import MentoringSection


def token_weights(
    logprobs_original_B_T: torch.Tensor, logprobs_instructed_B_T: torch.Tensor | None, knobs: MentoringSection
) -> torch.Tensor:
    """(B, T) weights, no gradient.

    shaped      g p / (p + g)^2, p the token's probability on the original prompt: the gradient of p / (p + g), divided by that
                of log p (policy shaping as in LUFFY, arXiv 2504.14945, eq. 6, whose gamma is our g)
    truncated   min(p / q, cap), q the probability on the instructed prompt: truncated importance sampling
    recomputed  p / q, not truncated
    none        1
    """
    if knobs.correction == "none":
        return torch.ones_like(logprobs_original_B_T)
    if knobs.correction == "shaped":
        p, g = logprobs_original_B_T.exp(), knobs.shaping_gamma
        return g * p / (p + g) ** 2
    if logprobs_instructed_B_T is None:
        raise ValueError(f"correction {knobs.correction} needs log-probs under the instructed prompt")
    ratio = (logprobs_original_B_T - logprobs_instructed_B_T).exp()
    return ratio.clamp(max=knobs.ratio_cap) if knobs.correction == "truncated" else ratio
