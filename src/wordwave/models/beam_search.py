"""Beam search over batches of source sentences."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from wordwave.errors import WordwaveError
from wordwave.limits import check_limit
from wordwave.models.encoder_decoder import BOS_ID, EOS_ID, EncoderDecoder
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


@torch.no_grad()
def beam_search(
    model: EncoderDecoder,
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
    if not max_lengths:
        return []
    finished: list[list[Hypothesis]] = [[] for _ in max_lengths]

    def score(log_probability: float, n_tokens: int) -> float:
        return float(log_probability / ((5 + n_tokens) / 6) ** length_penalty)

    def is_done(sentence: int, highest: float) -> bool:
        """Whether its search is over: log-probabilities only fall, and norms only grow."""
        ranked = sorted((h.score for h in finished[sentence]), reverse=True)
        bound = score(highest, max_lengths[sentence] + 1)
        enough = len(ranked) >= n_best and ranked[n_best - 1] >= bound
        return len(ranked) >= beam or highest == -torch.inf or enough

    active = torch.arange(len(max_lengths), device=source.device)
    longest = torch.tensor(max_lengths, device=source.device)
    state = model.encode(source).select(active.repeat_interleave(beam))
    ids = torch.full((len(active) * beam,), BOS_ID, device=source.device)
    prefixes = ids.new_zeros(len(ids), 0)
    totals = torch.full((len(active), beam), -torch.inf, device=source.device)
    totals[:, 0] = 0.0  # all beams start with the same prefix: only one of them counts
    for n in range(1, max(max_lengths) + 2):
        logits, state = model.step(state, ids)
        scores = _allowed_scores(logits.unflatten(0, (-1, beam)), n > longest[active])
        size = scores.shape[-1]
        candidates = (totals.unsqueeze(-1).to(scores.dtype) + scores).flatten(1)
        best, where = candidates.topk(min(2 * beam, beam * size))
        if best.isnan().any():  # no sentence would ever end
            raise WordwaveError(
                "the model must give each word a probability, got NaN: train it anew"
            )
        first = torch.arange(len(active), device=source.device).unsqueeze(1) * beam
        rows, tokens = first + where // size, where % size
        ends = tokens == EOS_ID
        for i, k in (ends & best.isfinite())[:, :beam].nonzero().tolist():
            total = float(best[i, k])
            words = prefixes[rows[i, k]].tolist()
            finished[int(active[i])].append(Hypothesis(words, total, score(total, n)))
        # The first `beam` that have not ended, in the order of their scores.
        kept = ends.to(torch.uint8).argsort(dim=1, stable=True)[:, :beam]
        totals = best.gather(1, kept).masked_fill(ends.gather(1, kept), -torch.inf)
        rows, ids = rows.gather(1, kept), tokens.gather(1, kept)
        highest = zip(active.tolist(), totals.amax(1).tolist(), strict=True)
        remaining = torch.tensor([not is_done(*each) for each in highest], device=source.device)
        if not remaining.any():
            break
        sources = None
        if not remaining.all():
            rows, ids, totals, active = (t[remaining] for t in (rows, ids, totals, active))
            sources = remaining.nonzero().squeeze(1)
        rows, ids = rows.flatten(), ids.flatten()
        prefixes = torch.cat([prefixes[rows], ids.unsqueeze(1)], dim=1)
        state = state.select(rows, sources)
    return [sorted(found, key=lambda h: -h.score)[:n_best] for found in finished]


def check_search(*, beam: int, n_best: int, length_penalty: float) -> None:
    """Refuse settings out of range."""
    check_limit("beam", beam, (1, 1_000))
    if not 1 <= n_best <= beam:
        raise WordwaveError(f"n_best must be at least 1 and at most beam ({beam}), got {n_best}")
    if not 0 <= length_penalty <= MAX_PENALTY:
        raise WordwaveError(f"length_penalty must be in [0, {MAX_PENALTY}], got {length_penalty}")


def _allowed_scores(logits: Tensor, full: Tensor) -> Tensor:
    """Log-probabilities of tokens: of no special one but EOS_ID, and of it alone for a sentence of
    maximum length.

    Shape: logits (B, beam, V), full (B,) -> (B, beam, V), in float32 at least
    """
    scores = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
    scores[..., NEVER_GENERATED] = -torch.inf
    if full.any():
        others = torch.arange(scores.shape[-1], device=scores.device) != EOS_ID
        scores = scores.masked_fill(full.view(-1, 1, 1) & others, -torch.inf)
    return scores
