"""How good translations are, by sacrebleu."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from wordwave.errors import WordwaveError
from wordwave.text.tokenizers import MosesText

BOOTSTRAPS = 1000


@dataclass(frozen=True)
class Figure:
    """A figure with its 95% bootstrap interval and what makes it comparable."""

    value: float
    interval: tuple[float, float]
    signature: str


@dataclass(frozen=True)
class TranslationScores:
    """Figures of merit of translations."""

    n: int
    bleu: Figure
    """Of texts as people write them, upper and lower case apart."""
    tokenised_bleu: Figure
    """Of lower-case words and marks as Moses sets them apart: what most papers on Multi30k have."""
    chrf: Figure

    def plain(self) -> dict[str, Any]:
        plain: dict[str, Any] = asdict(self)
        return plain


def score_translations(
    said: Sequence[str],
    references: Sequence[str],
    *,
    language: str,
    tokenised: Sequence[str] | None = None,
    n_bootstrap: int = BOOTSTRAPS,
) -> TranslationScores:
    """Compare translations with references.

    Args:
        said: translations as people write them.
        references: one for each.
        language: of both, for Moses.
        tokenised: the same translations as words between spaces, if the model said so.
    """
    metrics = _sacrebleu()
    _check(said, references)
    moses = MosesText(language)
    words = tokenised or [moses.tokenised(text) for text in said]
    wanted = [moses.tokenised(text) for text in references]
    return TranslationScores(
        n=len(said),
        bleu=_figure(metrics.BLEU(), said, references, n_bootstrap),
        tokenised_bleu=_figure(
            metrics.BLEU(tokenize="none", lowercase=True, force=True), words, wanted, n_bootstrap
        ),
        chrf=_figure(metrics.CHRF(), said, references, n_bootstrap),
    )


def tokenised_bleu(said: Sequence[str], references: Sequence[str]) -> float:
    """BLEU of words between spaces, letters all taken as small ones."""
    _check(said, references)
    metric = _sacrebleu().BLEU(tokenize="none", lowercase=True, force=True)
    return float(metric.corpus_score(list(said), [list(references)]).score)


def bleu_counts(said: Sequence[str], references: Sequence[str]) -> list[list[int]]:
    """What each sentence brings to `tokenised_bleu`: lengths of both, then right and all n-grams.

    Shape: (N, 10)
    """
    _check(said, references)
    metric = _sacrebleu().BLEU(tokenize="none", lowercase=True, force=True)
    counts: list[list[int]] = metric._extract_corpus_statistics(list(said), [list(references)])
    return [list(map(int, sentence)) for sentence in counts]


def _check(said: Sequence[str], references: Sequence[str]) -> None:
    if not said:
        raise WordwaveError("there must be at least one translation to score, got none")
    if len(said) != len(references):
        raise WordwaveError(
            f"every translation must have a reference, got {len(said)} and {len(references)}"
        )


def _figure(metric: Any, said: Sequence[str], wanted: Sequence[str], n_bootstrap: int) -> Figure:
    from sacrebleu.significance import _bootstrap_resample

    texts = list(said), [list(wanted)]
    score = float(metric.corpus_score(*texts).score)
    # By sacrebleu's own draws, but not its means of them: those fail where some draws score 0.
    statistics = metric._extract_corpus_statistics(*texts)
    metric.n_bootstrap = n_bootstrap
    metric.seed, drawn = _bootstrap_resample(statistics, metric, n_bootstrap)
    values = sorted(float(one.score) for one in drawn)
    tail = n_bootstrap // 40
    return Figure(score, (values[tail], values[-1 - tail]), metric.get_signature().format())


def _sacrebleu() -> Any:
    try:
        from sacrebleu import metrics
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "BLEU needs an extra: pip install 'wordwave[cli]'", name="sacrebleu"
        ) from None
    return metrics
