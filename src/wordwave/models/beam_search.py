"""Beam search: the likeliest sentences that a model can write, in batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from wordwave.errors import WordwaveError
from wordwave.limits import check_limit
from wordwave.models.encoder_decoder import END, PADDING, START, UNKNOWN, log_probabilities
from wordwave.models.lstm_decoder import Decoder, State, TranslationModel

NEVER_WRITTEN = [PADDING, UNKNOWN, START]
MOST_PENALTY = 10


@dataclass(frozen=True)
class Hypothesis:
    """A sentence that was written to its end."""

    ids: list[int]
    """Its words, without START and END."""
    log_probability: float
    """Of all its words and the END."""
    score: float
    """What sentences are ranked by: log-probability / ((5 + n) / 6)^penalty for n words with END
    (Wu et al., 2016)."""


@dataclass
class _Sentence:
    """One of the sentences to be written."""

    row: int
    longest: int
    done: list[Hypothesis] = field(default_factory=list)


@torch.no_grad()
def beam_search(
    model: Decoder,
    source: Tensor,
    *,
    longest: list[int],
    beam: int = 5,
    n_best: int = 1,
    length_penalty: float = 1.0,
) -> list[list[Hypothesis]]:
    """The best hypotheses for each source, the best one first; with a beam of 1 it is greedy.

    What else is in the batch changes nothing: a sentence leaves it when `beam` hypotheses are
    done, or when no other one could still be among the `n_best`.

    Args:
        source: (B, S) ids, padded with 0.
        longest: most words of each translation, END not counted.
        beam: hypotheses kept in each step.
        n_best: how many are wanted, at most `beam`.
        length_penalty: 0 prefers short sentences; with 1 nearly the mean of a word counts.
    """
    check_search(beam=beam, n_best=n_best, length_penalty=length_penalty)
    if len(longest) != source.shape[0]:
        raise WordwaveError(
            f"longest must have a number for each of {source.shape[0]} sources, got {len(longest)}"
        )
    sentences = [_Sentence(row, most) for row, most in enumerate(longest)]
    waiting = list(sentences)
    if not waiting:
        return []
    state: State = model.begin(source)
    rows = torch.arange(len(waiting), device=source.device).repeat_interleave(beam)
    state = state.pick(rows)
    words = torch.full((len(waiting) * beam,), START, device=source.device)
    written = torch.zeros(len(words), 0, dtype=torch.long, device=source.device)
    totals = torch.full((len(waiting), beam), -torch.inf, device=source.device)
    totals[:, 0] = 0.0  # all beams begin alike: only one of them counts
    n = 0
    while waiting:
        logits, state = model.step(state, words)
        n += 1
        scores = _allowed(log_probabilities(logits), waiting, n, beam)
        size = scores.shape[-1]
        totals = totals.unsqueeze(-1).to(scores.dtype) + scores.view(len(waiting), beam, size)
        best, where = totals.flatten(1).topk(min(2 * beam, beam * size))
        if best.isnan().any():  # no sentence would ever end
            raise WordwaveError(
                "the model must give each word a probability, got NaN: train it anew"
            )
        beams, chosen = where // size, where % size
        ends = chosen == END
        _finish(waiting, written, best[:, :beam], beams, ends[:, :beam], n, length_penalty)
        # The first `beam` that go on, in the order of their scores.
        going = ends.to(torch.uint8).argsort(dim=1, stable=True)[:, :beam]
        totals = best.gather(1, going).masked_fill(ends.gather(1, going), -torch.inf)
        over = _over(waiting, totals, beam, n_best, length_penalty)
        kept = [i for i, is_over in enumerate(over) if not is_over]
        first = torch.arange(len(waiting), device=source.device).unsqueeze(1) * beam
        rows, words = beams.gather(1, going) + first, chosen.gather(1, going)
        sources = None
        if len(kept) < len(waiting):
            rows, words, totals = rows[kept], words[kept], totals[kept]
            waiting = [waiting[i] for i in kept]
            sources = torch.tensor(kept, dtype=torch.long, device=source.device)
        rows, words = rows.flatten(), words.flatten()
        written = torch.cat([written[rows], words.unsqueeze(1)], dim=1)
        if waiting:
            state = state.pick(rows, sources)
    return [sorted(s.done, key=lambda h: -h.score)[:n_best] for s in sentences]


def check_search(*, beam: int, n_best: int, length_penalty: float) -> None:
    """Refuse settings that make no search."""
    check_limit("beam", beam, (1, 1_000))
    if not 1 <= n_best <= beam:
        raise WordwaveError(f"n_best must be at least 1 and at most beam ({beam}), got {n_best}")
    if not 0 <= length_penalty <= MOST_PENALTY:
        raise WordwaveError(f"length_penalty must be in [0, {MOST_PENALTY}], got {length_penalty}")


def _norm(n_words: int, length_penalty: float) -> float:
    return float(((5 + n_words) / 6) ** length_penalty)


def _allowed(scores: Tensor, waiting: list[_Sentence], n: int, beam: int) -> Tensor:
    """No special word but END, and END alone where a sentence is as long as it may be."""
    scores[:, NEVER_WRITTEN] = -torch.inf
    full = torch.tensor([n > s.longest for s in waiting], device=scores.device)
    if full.any():
        others = torch.ones(scores.shape[-1], dtype=torch.bool, device=scores.device)
        others[END] = False
        scores = scores.masked_fill(full.repeat_interleave(beam).unsqueeze(1) & others, -torch.inf)
    return scores


def _finish(
    waiting: list[_Sentence],
    written: Tensor,
    best: Tensor,
    beams: Tensor,
    ends: Tensor,
    n: int,
    length_penalty: float,
) -> None:
    beam = best.shape[1]
    for i, k in (ends & best.isfinite()).nonzero().tolist():
        total = float(best[i, k])
        ids = written[i * beam + int(beams[i, k])].tolist()
        waiting[i].done.append(Hypothesis(ids, total, total / _norm(n, length_penalty)))


def _over(
    waiting: list[_Sentence], totals: Tensor, beam: int, n_best: int, length_penalty: float
) -> list[bool]:
    """Whether a sentence is done: its log-probability can only fall, and its norm only grow."""
    over = []
    for sentence, highest in zip(waiting, totals.amax(1).tolist(), strict=True):
        ranked = sorted((h.score for h in sentence.done), reverse=True)
        hope = highest / _norm(sentence.longest + 1, length_penalty)
        enough = len(ranked) >= n_best and ranked[n_best - 1] >= hope
        over.append(len(ranked) >= beam or highest == -torch.inf or enough)
    return over


class Recomputed:
    """A decoder that keeps nothing and reads all words again in each step: the definition that the
    cached one is tested against, and timed."""

    def __init__(self, model: TranslationModel) -> None:
        self.model = model

    def begin(self, source: Tensor) -> _Prefix:
        return _Prefix(self.model.begin(source), source.new_zeros(source.shape[0], 0))

    def step(self, written: _Prefix, words: Tensor) -> tuple[Tensor, _Prefix]:
        target = torch.cat([written.target, words.unsqueeze(1)], dim=1)
        states, _ = self.model._write(target, written.begun, None)
        return self.model.words(states[:, -1]), _Prefix(written.begun, target)


@dataclass(frozen=True)
class _Prefix:
    begun: Any
    target: Tensor

    def pick(self, rows: Tensor, sources: Tensor | None = None) -> _Prefix:
        return _Prefix(self.begun.pick(rows, sources), self.target[rows])
