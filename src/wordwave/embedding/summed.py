"""Sums of embedded words over sentences, without padding and without a vector for each word."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from typing_extensions import Unpack

from wordwave import complex as cx
from wordwave.angle import angle
from wordwave.compiled import compiled
from wordwave.dropout import draw_seed, kept, threshold
from wordwave.embedding.positional import ComplexEmbedding, Embedding, WordEmbedding
from wordwave.embedding.wave import Table, WaveEmbedding, check_ids, has_no_values
from wordwave.text.batching import Batch

Tables = tuple[Tensor, Unpack[tuple[Tensor | None, ...]]]
"""Amplitude, frequency, phase, and what is added to the amplitude."""


class Added(NamedTuple):
    """Vectors that are added to the amplitudes of words, such as those of bigrams.

    Shape: rows (T,), table (N, D)
    """

    rows: Tensor
    """Of each id, a row of the table; 0 for none."""
    table: Table
    scale: float = 1.0


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
    tables = _tables(embedding, added)
    kernels = None if tables is None or has_no_values(batch.ids) else compiled()
    if tables is None or kernels is None:
        return summed_by_torch(embedding, batch, power, dropout, seed, added)
    rows = torch.empty(0, dtype=torch.long) if added is None else added.rows
    scale = 1.0 if added is None else added.scale
    how = (scale, embedding.padding_idx, power, dropout, seed, _is_sparse(embedding))
    return _Sum.apply(batch, rows, *tables, *how)  # type: ignore[no-untyped-call]


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
        more = added.scale * added.table(added.rows) * (added.rows != 0).unsqueeze(1)
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


def _tables(embedding: Embedding, added: Added | None) -> Tables | None:
    """The tables of an embedding that the kernels serve; a single row means a shared one."""
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
    found.append(None if added is None else added.table)
    for i, table in enumerate(found):
        if table is not None and not _is_plain(table, may_be_shared=i == 1):
            return None
    amplitude, *others = (None if t is None else t.weight for t in found)
    assert amplitude is not None
    return amplitude, *others


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


class _Sum(torch.autograd.Function):
    """Shape: B sentences, tables (V, D), a shared frequency (1, D) -> (B, D) or (B, 2·D)"""

    @staticmethod
    def forward(
        ctx: Any,
        batch: Batch,
        rows: Tensor,
        amplitude: Tensor,
        frequency: Tensor | None,
        phase: Tensor | None,
        more: Tensor | None,
        scale: float,
        padding_idx: int | None,
        power: float,
        dropout: float,
        seed: int,
        sparse: bool,
    ) -> Tensor:
        kernels = compiled()
        assert kernels is not None
        tables = (amplitude, frequency, phase, more)
        tokens = tuple(part.numpy() for part in batch[:4])
        padding = -1 if padding_idx is None else padding_idx
        randomness = (np.float32(1 / (1 - dropout)), threshold(dropout), np.uint32(seed))
        *ours, extra = _arrays(*tables)
        given = (*tokens, *ours, rows.numpy(), extra, np.float32(scale), padding, power)
        given += randomness
        out = amplitude.new_zeros(
            batch.size, (1 if frequency is None and phase is None else 2) * amplitude.shape[1]
        )
        if kernels.sum_waves(*given, out.numpy()) >= 0:
            check_ids(batch.ids, len(amplitude))
            check_ids(rows, 0 if more is None else len(more))
        ctx.given, ctx.padding, ctx.sparse = given, padding, sparse
        ctx.save_for_backward(*tables)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        kernels = compiled()
        assert kernels is not None
        tables = ctx.saved_tensors
        needed = ctx.needs_input_grad[2:6]
        rows, slots = _rows_in_use(ctx.given[0], len(tables[0]), ctx.padding, 0)
        more_rows, more_slots = rows[:0], slots
        if needed[3]:
            more_rows, more_slots = _rows_in_use(ctx.given[7], len(tables[3]), 0, 1)
        of = (rows, rows, rows, more_rows)
        values = [
            tables[0].new_zeros(
                0 if not needs else 1 if len(table) == 1 else len(used), tables[0].shape[1]
            )
            for table, needs, used in zip(tables, needed, of, strict=True)
        ]
        kernels.sum_waves_backward(
            *ctx.given,
            *(grad.float().contiguous().numpy(), slots, more_slots),
            *(v.numpy() for v in values),
        )
        to_table = _sparse if ctx.sparse else _dense
        made = (
            None if not needs else found if len(table) == 1 else to_table(found, used, table)
            for found, table, needs, used in zip(values, tables, needed, of, strict=True)
        )
        return None, None, *made, *[None] * 6


def _arrays(*tables: Tensor | None) -> list[Any]:
    width = next(t.shape[1] for t in tables if t is not None)
    return [np.empty((0, width), np.float32) if t is None else t.detach().numpy() for t in tables]


def _sparse(values: Tensor, rows: Tensor, table: Tensor) -> Tensor:
    return torch.sparse_coo_tensor(
        rows[None], values, table.shape, is_coalesced=True, check_invariants=False
    )


def _dense(values: Tensor, rows: Tensor, table: Tensor) -> Tensor:
    return torch.zeros_like(table).index_copy_(0, rows, values)


_local = threading.local()


def _rows_in_use(ids: Any, n_words: int, padding: int, which: int) -> tuple[Tensor, Any]:
    """The distinct ids but the padding, sorted, and the place of each there by id."""
    kept_arrays: dict[int, tuple[Any, Any]] = _local.__dict__.setdefault("arrays", {})
    if which not in kept_arrays or len(kept_arrays[which][1]) != n_words:
        # New ones at every step would cost more than their use.
        marks = np.zeros(n_words // 64 + 1, np.uint64)
        kept_arrays[which] = marks, np.empty(n_words, np.int32)
    marks, slots = kept_arrays[which]
    rows = np.empty(len(ids), np.int64)
    kernels = compiled()
    assert kernels is not None
    n = kernels.rows_in_use(ids, padding, marks, slots, rows)
    return torch.from_numpy(rows[:n]), slots
