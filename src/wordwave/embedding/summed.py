"""Sums of embedded words over sentences, without padding and without a vector for each word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from wordwave import complex as cx
from wordwave.angle import angle
from wordwave.compiled import compiled
from wordwave.dropout import draw_seed, kept, threshold
from wordwave.embedding.positional import ComplexEmbedding, Embedding, WordEmbedding
from wordwave.embedding.table import BIGRAM_SCALE, Bigrams, Table
from wordwave.embedding.wave import (
    WaveEmbedding,
    check_ids,
    has_no_values,
)
from wordwave.errors import WordwaveError
from wordwave.text.batching import Batch

Tables = tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]
"""Amplitude, frequency, phase, and what is added to the amplitude."""


class Added(NamedTuple):
    """Vectors that are added to the amplitudes of words, such as those of bigrams.

    Shape: rows (T,), table (N, D)
    """

    rows: Tensor
    """Of each id, a row of the table; 0 for none."""
    table: Table
    scale: float = 1.0


def bigrams_of(table: Bigrams, batch: Batch) -> Added:
    """The bigrams of sentences, in training those of some sentences left out."""
    kept = table.draw_kept(batch.size)
    if (kernels := compiled()) is not None and not has_no_values(batch.ids):
        check_batch(batch)
        rows = torch.empty_like(batch.ids)
        keeps = torch.ones(batch.size, dtype=torch.bool) if kept is None else kept
        given = (part.numpy() for part in (batch.ids, batch.starts, keeps, table.keys))
        kernels.pair_rows(*given, table.n_words, rows.numpy())
        return Added(rows, table, BIGRAM_SCALE)
    before = batch.ids.roll(1).index_fill(0, batch.starts[:-1][batch.lengths > 0], 0)
    rows = table.rows(before, batch.ids)
    if kept is not None:
        rows = rows * kept.to(rows.device)[batch.owners]
    return Added(rows, table, BIGRAM_SCALE)


def summed(
    embedding: Embedding,
    batch: Batch,
    *,
    power: float = 0.0,
    dropout: float = 0.0,
    added: Added | None = None,
) -> Tensor:
    """Σ_t w_t·embedding(id_t, position_t) / (Σ_t w_t)^power over the ids of each sentence.

    Args:
        embedding: any but one whose positions depend on the sentence, `WaveViews`.
        power: 0 for the sum, 1 for the mean.
        dropout: share of components dropped, both parts of a complex number together; the rest is
            scaled by 1/(1 − dropout).
        added: added to the words' vectors or amplitudes.

    Shape: (B, out_dim)
    """
    seed = draw_seed() if dropout else 0
    tables = kernel_tables(embedding, None if added is None else added.table)
    kernels = None if tables is None or has_no_values(batch.ids) else compiled()
    if tables is None or kernels is None:
        return summed_by_torch(embedding, batch, power, dropout, seed, added)
    given = Arguments(batch, tables, embedding.padding_idx, power, dropout, seed, added)
    return _Sum.apply(given, _is_sparse(embedding), *tables)  # type: ignore[no-untyped-call]


def summed_by_torch(
    embedding: Embedding,
    batch: Batch,
    power: float = 0.0,
    dropout: float = 0.0,
    seed: int = 0,
    added: Added | None = None,
) -> Tensor:
    """What `summed` is tested against, and computes where the kernels do not apply."""
    vectors = embedding(batch.ids, batch.positions)
    if added is not None:
        # An embedding is linear in its amplitudes: r + b at the same phase.
        more = F.embedding(added.rows, added.table.weight, 0, sparse=added.table.sparse)
        more = added.scale * more * (added.rows != 0).unsqueeze(1)
        more = more.repeat(1, embedding.out_dim // embedding.dim)
        if embedding.padding_idx is not None:
            more = more * (batch.ids != embedding.padding_idx).unsqueeze(1)
        vectors = vectors + _phasors(embedding, batch) * more
    if dropout:
        parts = vectors.unflatten(-1, (-1, embedding.dim))
        factors = kept(dropout, seed, len(batch.ids), 1, embedding.dim).to(vectors)
        vectors = (parts * factors).flatten(1)
    vectors = vectors * batch.shares(power).unsqueeze(1).to(vectors.dtype)
    return vectors.new_zeros(batch.size, vectors.shape[1]).index_add(0, batch.owners, vectors)


def _phasors(embedding: Embedding, batch: Batch) -> Tensor | float:
    """e^{i(ω·pos + θ)}, or 1 of real embeddings. Shape: (T, 2·D)"""
    if isinstance(embedding, WaveEmbedding):
        angles = angle(embedding.frequency(batch.ids), batch.positions.unsqueeze(-1))
        if embedding.phase is not None:
            angles = angles + embedding.phase(batch.ids)
        angles = angles.expand(len(batch.ids), embedding.dim)
    elif isinstance(embedding, ComplexEmbedding):
        angles = embedding.phase(batch.ids)
    else:
        return 1.0
    return cx.phasor(angles)


def has_kernels(embedding: Embedding, added: Table | None = None) -> bool:
    """Whether the kernels serve an embedding, and vectors that are added to its words."""
    return compiled() is not None and kernel_tables(embedding, added) is not None


def kernel_tables(embedding: Embedding, added: Table | None) -> Tables | None:
    """The tables of an embedding that the kernels serve, and that of what is added to its words; a
    single row means a shared one."""
    if embedding.vocab_size < 2:
        return None
    if type(embedding) is WordEmbedding:
        found: list[Table | None] = [embedding.words, None, None]
    elif type(embedding) is ComplexEmbedding:
        found = [embedding.words, None, embedding.phase]
    elif type(embedding) is WaveEmbedding and embedding.damping is None:
        found = [embedding.amplitude, embedding.frequency, embedding.phase]
    else:
        return None
    found.append(added)
    for i, table in enumerate(found):
        if table is not None and not _is_plain(table, may_be_shared=i == 1):
            return None
    amplitude, frequency, phase, more = (None if t is None else t.weight for t in found)
    assert amplitude is not None
    return amplitude, frequency, phase, more


def _is_plain(table: Table, *, may_be_shared: bool) -> bool:
    weight = table.weight
    return (
        (table.share is None or (may_be_shared and table.share == "word"))
        and weight.dtype == torch.float32
        and weight.device.type == "cpu"
        and weight.is_contiguous()
    )


def _is_sparse(embedding: Embedding) -> bool:
    return embedding.words.sparse if isinstance(embedding, WordEmbedding) else embedding.sparse


def check_batch(batch: Batch, rows: Tensor | None = None) -> None:
    """Refuse what the kernels would read or write out of bounds.

    Args:
        rows: of each id, one of a table of bigrams.
    """
    ids, _, positions, weights = (part.shape for part in batch[:4])
    ends = (int(batch.starts[0]), int(batch.starts[-1])) if len(batch.starts) else None
    if not ids == positions == weights or ends != (0, len(batch.ids)):
        raise WordwaveError(
            "a batch must have a position and a weight for each id, and starts from 0 to their "
            f"number, got {tuple(ids)}, {tuple(positions)}, {tuple(weights)} and starts {ends}"
        )
    if bool((batch.lengths < 0).any()):
        raise WordwaveError("the starts of a batch must not fall")
    if rows is not None and rows.shape != ids:
        given = f"got {tuple(rows.shape)} for ids {tuple(ids)}"
        raise WordwaveError(f"rows must have the shape of ids, {given}")


class Arguments:
    """The arrays and numbers that both kernels take."""

    def __init__(
        self,
        batch: Batch,
        tables: Tables,
        padding_idx: int | None,
        power: float,
        dropout: float,
        seed: int,
        added: Added | None,
    ) -> None:
        check_batch(batch, None if added is None else added.rows)
        self.tables, self.size = tables, batch.size
        self.padding = -1 if padding_idx is None else padding_idx
        self.added = _NONE if added is None else added.rows.numpy()
        self.ids = batch.ids.numpy()
        empty = np.empty((0, tables[0].shape[1]), np.float32)
        *ours, more = (empty if t is None else t.detach().numpy() for t in tables)
        scale = np.float32(1.0 if added is None else added.scale)
        randomness = (np.float32(1 / (1 - dropout)), threshold(dropout), np.uint32(seed))
        tokens = (self.ids, *(part.numpy() for part in batch[1:4]))
        self.all = (*tokens, *ours, self.added, more, scale, self.padding, power, *randomness)

    @property
    def width(self) -> int:
        amplitude, frequency, phase, _ = self.tables
        return (1 if frequency is None and phase is None else 2) * amplitude.shape[1]

    def run_forward(self, out: Any) -> None:
        """Shape: out (B, width), zeros"""
        kernels = compiled()
        assert kernels is not None
        if kernels.sum_waves(*self.all, out) >= 0:
            amplitude, *_, more = self.tables
            check_ids(torch.from_numpy(self.ids), len(amplitude))
            check_ids(torch.from_numpy(self.added), 0 if more is None else len(more))


Gradients = Sequence[tuple[Tensor, Any, Any]]
"""Tables, rows in use (`None` for a table that is shared by all words), and their gradients."""


def gradients(given: Arguments, upstream: Any) -> Gradients:
    """The gradients of the tables that need one. Shape: upstream (B, width)"""
    kernels = compiled()
    assert kernels is not None
    amplitude, *_, more = given.tables
    width = amplitude.shape[1]
    rows, slots = kernels.rows_in_use(given.ids, len(amplitude), given.padding)
    used, more_slots = [rows] * 4, slots
    if more is not None:
        used[3], more_slots = kernels.rows_in_use(given.added, len(more), 0)
    needed = [table is not None and table.requires_grad for table in given.tables]
    values = []
    for table, needs, mine in zip(given.tables, needed, used, strict=True):
        n = 0 if table is None or not needs else 1 if len(table) == 1 else len(mine)
        values.append(np.zeros((n, width), np.float32))
    kernels.sum_waves_backward(*given.all, upstream, slots, more_slots, *values)
    return [
        (table, None if len(table) == 1 else mine, value)
        for table, needs, mine, value in zip(given.tables, needed, used, values, strict=True)
        if table is not None and needs
    ]


class _Sum(torch.autograd.Function):
    """Shape: B sentences, tables (V, D), a shared frequency (1, D) -> (B, D) or (B, 2·D)"""

    @staticmethod
    def forward(ctx: Any, given: Arguments, sparse: bool, *tables: Tensor | None) -> Tensor:
        out = torch.zeros(given.size, given.width)
        given.run_forward(out.numpy())
        ctx.given, ctx.sparse = given, sparse
        ctx.save_for_backward(*tables)  # so that changes in between are noticed
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        of_tables = ctx.saved_tensors
        found = {}
        for table, rows, value in gradients(ctx.given, grad.float().contiguous().numpy()):
            values = torch.from_numpy(value)
            if rows is not None:
                to_table = _sparse if ctx.sparse else _dense
                values = to_table(values, torch.from_numpy(rows), table)
            found[id(table)] = values
        mine = (None if t is None else found.get(id(t)) for t in ctx.given.tables)
        assert len(of_tables) == 4
        return None, None, *mine


def _sparse(values: Tensor, rows: Tensor, table: Tensor) -> Tensor:
    if not len(rows):  # torch resizes it to add another gradient, and cannot resize memory of numpy
        values, rows = values.clone(), rows.clone()
    return torch.sparse_coo_tensor(
        rows[None], values, table.shape, is_coalesced=True, check_invariants=False
    )


def _dense(values: Tensor, rows: Tensor, table: Tensor) -> Tensor:
    return torch.zeros_like(table).index_copy_(0, rows, values)


_NONE = np.empty(0, np.int64)
