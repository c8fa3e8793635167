"""Beam search over batches of source sentences."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from wordwave.errors import WordwaveError
from wordwave.limits import check_limit
from wordwave.models.encoder_decoder import BOS_ID, EOS_ID, DecoderState, EncoderDecoder
from wordwave.text.vocabulary import PADDING_ID, UNKNOWN_ID

NEVER_GENERATED = [PADDING_ID, UNKNOWN_ID, BOS_ID]
MAX_PENALTY = 10


@dataclass(frozen=True)
class Hypothesis:
    """A finished target sentence."""

    ids: list[int]
    """Its tokens, without BOS_ID and EOS_ID."""
    log_probability: float
    """Of all its tokens and EOS_ID."""
    score: float
    """What hypotheses are ranked by: log-probability / ((5 + n) / 6)^penalty for n tokens with
    EOS_ID (Wu et al., 2016)."""


@dataclass
class _Sentence:
    row: int
    max_length: int
    finished: list[Hypothesis] = field(default_factory=list)


@torch.no_grad()
def beam_search(
    model: EncoderDecoder | Recomputed,
    source: Tensor,
    *,
    max_lengths: list[int],
    beam: int = 5,
    n_best: int = 1,
    length_penalty: float = 1.0,
) -> list[list[Hypothesis]]:
    """The best hypotheses for each source, best first; a beam of 1 is greedy search.

    The result for a sentence does not depend on the rest of the batch: it leaves the batch when
    `beam` hypotheses are finished, or when no other one can still be among the `n_best`.

    Args:
        source: (B, S) ids, padded with 0.
        max_lengths: the most tokens of each translation, EOS_ID not counted.
        beam: hypotheses kept in each step.
        n_best: hypotheses returned for each source, at most `beam`.
        length_penalty: 0 favours short sentences; 1 is close to the mean log-probability a token.
    """
    check_search(beam=beam, n_best=n_best, length_penalty=length_penalty)
    if len(max_lengths) != source.shape[0]:
        raise WordwaveError(
            f"max_lengths must have a number for each of {source.shape[0]} sources, "
            f"got {len(max_lengths)}"
        )
    sentences = [_Sentence(row, max_length) for row, max_length in enumerate(max_lengths)]
    active = list(sentences)
    if not active:
        return []
    state: Any = model.encode(source)
    rows = torch.arange(len(active), device=source.device).repeat_interleave(beam)
    state = state.select(rows)
    ids = torch.full((len(active) * beam,), BOS_ID, device=source.device)
    prefixes = torch.zeros(len(ids), 0, dtype=torch.long, device=source.device)
    totals = torch.full((len(active), beam), -torch.inf, device=source.device)
    totals[:, 0] = 0.0  # all beams start with the same prefix: only one of them counts
    n = 0
    while active:
        logits, state = model.step(state, ids)
        n += 1
        scores = _allowed(_log_softmax(logits), active, n, beam)
        size = scores.shape[-1]
        totals = totals.unsqueeze(-1).to(scores.dtype) + scores.view(len(active), beam, size)
        best, where = totals.flatten(1).topk(min(2 * beam, beam * size))
        if best.isnan().any():  # no sentence would ever end
            raise WordwaveError(
                "the model must give each word a probability, got NaN: train it anew"
            )
        beams, tokens = where // size, where % size
        ends = tokens == EOS_ID
        _finish(active, prefixes, best[:, :beam], beams, ends[:, :beam], n, length_penalty)
        # The first `beam` that have not ended, in the order of their scores.
        kept = ends.to(torch.uint8).argsort(dim=1, stable=True)[:, :beam]
        totals = best.gather(1, kept).masked_fill(ends.gather(1, kept), -torch.inf)
        first = torch.arange(len(active), device=source.device).unsqueeze(1) * beam
        rows, ids = beams.gather(1, kept) + first, tokens.gather(1, kept)
        done = _done(active, totals, beam, n_best, length_penalty)
        sources = None
        if any(done):
            remaining = [i for i, is_done in enumerate(done) if not is_done]
            rows, ids, totals = rows[remaining], ids[remaining], totals[remaining]
            active = [active[i] for i in remaining]
            sources = torch.tensor(remaining, dtype=torch.long, device=source.device)
        rows, ids = rows.flatten(), ids.flatten()
        prefixes = torch.cat([prefixes[rows], ids.unsqueeze(1)], dim=1)
        if active:
            state = state.select(rows, sources)
    return [sorted(s.finished, key=lambda h: -h.score)[:n_best] for s in sentences]


def check_search(*, beam: int, n_best: int, length_penalty: float) -> None:
    """Refuse settings out of range."""
    check_limit("beam", beam, (1, 1_000))
    if not 1 <= n_best <= beam:
        raise WordwaveError(f"n_best must be at least 1 and at most beam ({beam}), got {n_best}")
    if not 0 <= length_penalty <= MAX_PENALTY:
        raise WordwaveError(f"length_penalty must be in [0, {MAX_PENALTY}], got {length_penalty}")


def _norm(n_tokens: int, length_penalty: float) -> float:
    return float(((5 + n_tokens) / 6) ** length_penalty)


def _log_softmax(logits: Tensor) -> Tensor:
    """In float32 at least."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)


def _allowed(scores: Tensor, active: list[_Sentence], n: int, beam: int) -> Tensor:
    """No special token but EOS_ID, and only EOS_ID for a sentence of maximum length."""
    scores[:, NEVER_GENERATED] = -torch.inf
    full = torch.tensor([n > s.max_length for s in active], device=scores.device)
    if full.any():
        others = torch.ones(scores.shape[-1], dtype=torch.bool, device=scores.device)
        others[EOS_ID] = False
        scores = scores.masked_fill(full.repeat_interleave(beam).unsqueeze(1) & others, -torch.inf)
    return scores


def _finish(
    active: list[_Sentence],
    prefixes: Tensor,
    best: Tensor,
    beams: Tensor,
    ends: Tensor,
    n: int,
    length_penalty: float,
) -> None:
    beam = best.shape[1]
    for i, k in (ends & best.isfinite()).nonzero().tolist():
        total = float(best[i, k])
        ids = prefixes[i * beam + int(beams[i, k])].tolist()
        active[i].finished.append(Hypothesis(ids, total, total / _norm(n, length_penalty)))


def _done(
    active: list[_Sentence], totals: Tensor, beam: int, n_best: int, length_penalty: float
) -> list[bool]:
    """Whether the search of a sentence is over: log-probabilities only fall, norms only grow."""
    done = []
    for sentence, highest in zip(active, totals.amax(1).tolist(), strict=True):
        ranked = sorted((h.score for h in sentence.finished), reverse=True)
        bound = highest / _norm(sentence.max_length + 1, length_penalty)
        enough = len(ranked) >= n_best and ranked[n_best - 1] >= bound
        done.append(len(ranked) >= beam or highest == -torch.inf or enough)
    return done


class Recomputed:
    """A decoder without a cache, which computes the whole target in each step: the definition that
    the cached one is tested against, and its baseline in benchmarks."""

    def __init__(self, model: EncoderDecoder) -> None:
        self.model = model

    def encode(self, source: Tensor) -> _Prefix:
        return _Prefix(self.model.encode(source), source.new_zeros(source.shape[0], 0))

    def step(self, state: _Prefix, ids: Tensor) -> tuple[Tensor, _Prefix]:
        target = torch.cat([state.target, ids.unsqueeze(1)], dim=1)
        hidden, _ = self.model.decode(target, state.encoded)
        return self.model.logits(hidden[:, -1]), _Prefix(state.encoded, target)


@dataclass(frozen=True)
class _Prefix:
    encoded: DecoderState
    target: Tensor

    def select(self, rows: Tensor, sources: Tensor | None = None) -> _Prefix:
        return _Prefix(self.encoded.select(rows, sources), self.target[rows])
