"""Language modelling, as the training loop wants it: streams of text, and what was read there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave.data.characters import Alphabet, Text
from wordwave.models.transformer_xl import TransformerXL
from wordwave.tasks.bits import bits_of
from wordwave.tensor_files import check_like
from wordwave.training.task import Positions


@dataclass(frozen=True)
class Segments(Sequence[Tensor]):
    """The batches of one epoch, made when asked for: a text may have millions.

    Batch k holds where the k-th segments of all streams begin; a stream is a part of the text that
    is read from its start to its end.
    """

    n_streams: int
    stream_length: int
    length: int
    start: int = 0

    def __len__(self) -> int:
        return self.stream_length // self.length

    @overload
    def __getitem__(self, index: int) -> Tensor: ...
    @overload
    def __getitem__(self, index: slice) -> list[Tensor]: ...
    def __getitem__(self, index: int | slice) -> Tensor | list[Tensor]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        streams = torch.arange(self.n_streams) * self.stream_length
        return streams + self.start + index * self.length


class StreamTask:
    """Predict the next character at several places of a text, and remember what was read there.

    Args:
        train: what is learnt from.
        valid: what selects the best weights, or `None`.
        alphabet: numbers the characters.
        length: characters of a segment.
        counted: what the model has counted at some places of the text, where it depends on the
            text and not only on how far was read. Shape: (B,) -> (B, 1)
    """

    def __init__(
        self,
        train: Text,
        valid: Text | None,
        alphabet: Alphabet,
        *,
        length: int,
        counted: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        self.train, self.valid, self.alphabet, self.length = train, valid, alphabet, length
        self.counted = counted
        self.segment = length
        """Characters read at once: fewer where a stream is shorter than a segment."""
        self._forget()

    def _forget(self) -> None:
        self.states: Tensor | None = None
        self.next = torch.zeros(0, dtype=torch.long)
        self.n_read = 0

    def batches(self, size: int, generator: torch.Generator) -> Sequence[Tensor]:
        stream = (len(self.train) - 1) // size
        if stream < 1:
            raise ValueError(
                f"{self.train.name} must hold more than batch_size={size} characters, "
                f"got {len(self.train)}"
            )
        self.segment = length = min(self.length, stream)
        # What does not fill a segment is left out, at another place in each epoch.
        spare = stream % length
        start = int(torch.randint(spare + 1, (), generator=generator))
        return Segments(size, stream, length, start)

    def loss(self, model: nn.Module, rows: Tensor, positions: Positions) -> tuple[Tensor, int, int]:
        device = next(model.parameters()).device
        if not torch.equal(rows, self.next):  # a new epoch, which starts elsewhere
            self._forget()
        ids = self._ids(rows, self.segment + 1).to(device)
        n_read = self.n_read if self.counted is None else self.counted(rows).to(device)
        logits, self.states = model(ids[:, :-1], self.states, n_read)
        self.next, self.n_read = rows + self.segment, self.n_read + self.segment
        total = F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten(), reduction="sum")
        n = ids[:, 1:].numel()
        return total, n, n

    def score(self, model: nn.Module) -> dict[str, float]:
        if self.valid is None:
            return {}
        assert isinstance(model, TransformerXL)
        return {"minus_bpc": -bits_of(model, self.alphabet, self.valid).per_character}

    def state(self) -> dict[str, Tensor]:
        if self.states is None:
            return {}
        return {
            "states": self.states,
            "next": self.next,
            "n_read": torch.tensor(self.n_read),
        }

    def check_state(self, state: Mapping[str, Tensor], model: nn.Module) -> None:
        if not state:
            return
        assert isinstance(model, TransformerXL)
        n, kept = state.get("next", self.next).numel(), state.get("states", model.bias)
        # How much is remembered, and in which precision, depends on what was read.
        length = min(kept.shape[-2] if kept.dim() == 4 else 0, model.config.memory_length)
        size = (model.config.n_layers, n, length, model.embedding.out_dim)
        number = torch.zeros((), dtype=torch.long)
        check_like(
            state,
            {
                "states": torch.empty(size, dtype=kept.dtype, device="meta"),
                "next": number.expand((n,)),
                "n_read": number,
            },
        )
        if not kept.is_floating_point():
            raise ValueError(f"states must be of real numbers, got {kept.dtype}")
        if not state["n_read"].is_meta and not 0 <= int(state["n_read"]) < 2**53:
            raise ValueError(f"n_read must be at least 0, got {int(state['n_read'])}")

    def load_state(self, state: dict[str, Tensor]) -> None:
        self._forget()
        if state:
            self.states, self.next = state["states"], state["next"].cpu()
            self.n_read = int(state["n_read"])

    def _ids(self, starts: Tensor, length: int) -> Tensor:
        """Shape: (B,) -> (B, length)"""
        symbols = self.train.symbols
        rows = [self.alphabet.ids(symbols[i : i + length]) for i in starts.tolist()]
        return torch.from_numpy(np.stack(rows))
