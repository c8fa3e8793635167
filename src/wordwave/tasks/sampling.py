"""How the next character is drawn from what a language model thinks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wordwave.limits import COUNT, check_limits

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass(frozen=True)
class Sampling:
    """Narrower choices make safer and duller texts."""

    temperature: float = 0.8
    """Below 1 likely characters become likelier; 0 always takes the likeliest."""
    top_k: int = 0
    """Draw from so many of the likeliest characters; 0 for all."""
    top_p: float = 1.0
    """Draw from the fewest characters that have this probability together."""
    seed: int = 0
    """Same seed, same text."""

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise ValueError(f"temperature must be at least 0, got {self.temperature}")
        check_limits(self, {"top_k": COUNT, "seed": (0, 2**63 - 1)})
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be in (0, 1], got {self.top_p}")


def draw(logits: Tensor, sampling: Sampling, generator: torch.Generator) -> int:
    """A number drawn by logits. Shape: logits (V,)"""
    import torch

    if sampling.temperature == 0:
        return int(logits.argmax())
    order = logits.argsort(descending=True, stable=True)
    ahead = logits[order].double() - logits.max()  # none above 0, so that nothing overflows
    likely = (ahead / sampling.temperature).softmax(0)
    if sampling.top_k:
        likely = likely[: sampling.top_k]
    if sampling.top_p < 1:
        before = likely.cumsum(0) - likely
        likely = likely[before < sampling.top_p * likely.sum()]
    return int(order[torch.multinomial(likely, 1, generator=generator)])
