"""Translation quality by sacrebleu: BLEU and chrF with confidence intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

from wordwave.errors import WordwaveError
from wordwave.text.tokenizers import MosesText, import_extra

N_BOOTSTRAP = 1000


class Score(TypedDict):
    """A score with its 95% bootstrap interval and sacrebleu's signature."""

    value: float
    interval: tuple[float, float]
    signature: str


class TranslationScores(TypedDict):
    """The scores of translations against their references."""

    n: int
    bleu: Score
    """Of detokenised text, case-sensitive."""
    tokenised_bleu: Score
    """Of lower-cased Moses tokens, as in most papers on Multi30k."""
    chrf: Score


def score_translations(
    translations: Sequence[str],
    references: Sequence[str],
    *,
    language: str,
    tokenised: Sequence[str] | None = None,
    n_bootstrap: int = N_BOOTSTRAP,
) -> TranslationScores:
    """Score translations against one reference each.

    Args:
        translations: detokenised text.
        references: one for each translation.
        language: of both, for Moses.
        tokenised: the same translations as tokens separated by spaces; by default by Moses.
    """
    _check(translations, references)
    metrics, moses = import_extra("sacrebleu.metrics"), MosesText(language)
    tokens = tokenised or [moses.tokenised(text) for text in translations]
    reference_tokens = [moses.tokenised(text) for text in references]
    return TranslationScores(
        n=len(translations),
        bleu=_score(metrics.BLEU(), translations, references, n_bootstrap),
        tokenised_bleu=_score(tokenised_metric(), tokens, reference_tokens, n_bootstrap),
        chrf=_score(metrics.CHRF(), translations, references, n_bootstrap),
    )


def tokenised_bleu(translations: Sequence[str], references: Sequence[str]) -> float:
    """Case-insensitive BLEU of tokens separated by spaces."""
    _check(translations, references)
    score = tokenised_metric().corpus_score(list(translations), [list(references)])
    return float(score.score)


def _check(translations: Sequence[str], references: Sequence[str]) -> None:
    if not translations:
        raise WordwaveError("there must be at least one translation to score, got none")
    if len(translations) != len(references):
        raise WordwaveError(
            "every translation must have a reference, "
            f"got {len(translations)} and {len(references)}"
        )


def _score(
    metric: Any, translations: Sequence[str], references: Sequence[str], n_bootstrap: int
) -> Score:
    from sacrebleu.significance import _bootstrap_resample

    texts = list(translations), [list(references)]
    value = float(metric.corpus_score(*texts).score)
    # sacrebleu's own resampling without its summary, which fails where some samples score 0.
    statistics = metric._extract_corpus_statistics(*texts)
    metric.n_bootstrap = n_bootstrap
    metric.seed, samples = _bootstrap_resample(statistics, metric, n_bootstrap)
    values = sorted(float(sample.score) for sample in samples)
    tail = n_bootstrap // 40
    interval = values[tail], values[-1 - tail]
    return Score(value=value, interval=interval, signature=metric.get_signature().format())


def tokenised_metric() -> Any:
    """BLEU of lower-cased tokens separated by spaces."""
    metrics = import_extra("sacrebleu.metrics")
    return metrics.BLEU(tokenize="none", lowercase=True, force=True)
