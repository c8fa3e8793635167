"""Every number in a config has limits, and a refusal names the setting, its limit and the value."""

from dataclasses import fields
from typing import get_type_hints

import pytest

from wordwave.limits import check_limit
from wordwave.models.config import (
    ModelConfig,
    PairModelConfig,
    TransformerXLConfig,
    TranslationModelConfig,
)
from wordwave.tasks.config import (
    LanguageModelDataConfig,
    LanguageModelTrainingConfig,
    MatchingConfig,
    MatchingTrainingConfig,
    Sampling,
    SentenceTextConfig,
    SentenceTrainingConfig,
    SubwordConfig,
    TextConfig,
    TranslationTrainingConfig,
)
from wordwave.training.config import TrainingConfig

CONFIGS = (
    ModelConfig,
    TransformerXLConfig,
    TranslationModelConfig,
    TextConfig,
    SubwordConfig,
    LanguageModelDataConfig,
    TrainingConfig,
    LanguageModelTrainingConfig,
    MatchingTrainingConfig,
    SentenceTextConfig,
    SentenceTrainingConfig,
    TranslationTrainingConfig,
    Sampling,
)
MEANS_NONE = {"max_grad_norm"}  # a gradient norm may be as large as it likes


def numbers_of(kind):
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)]
    whole = [name for name in names if hints[name] in (int, int | None)]
    real = [name for name in names if hints[name] is float]
    assert whole or real
    return whole, real


ALL = [(kind, *numbers_of(kind)) for kind in CONFIGS]
WHOLE = [(kind, name) for kind, whole, _ in ALL for name in whole]
REAL = [(kind, name) for kind, _, real in ALL for name in real]


@pytest.mark.parametrize(("kind", "name"), WHOLE)
def test_no_count_is_too_large_or_small_to_be_refused_by_name(kind, name):
    with pytest.raises(ValueError, match=f"^{name} must be at most .*, got {10**30}$"):
        kind(**{name: 10**30})
    with pytest.raises(ValueError, match=f"^{name} must be at least .*, got {-(10**30)}$"):
        kind(**{name: -(10**30)})


@pytest.mark.parametrize(("kind", "name"), REAL)
def test_no_number_may_be_infinite_or_none_at_all(kind, name):
    with pytest.raises(ValueError, match=f"^{name} must be .*, got nan$"):
        kind(**{name: float("nan")})
    if name not in MEANS_NONE:
        with pytest.raises(ValueError, match=f"^{name} must be .*, got inf$"):
            kind(**{name: float("inf")})


def test_both_ends_of_a_limit_are_allowed():
    for value in (1, 5):
        check_limit("n", value, (1, 5))
    for value, rule in ((0, "at least 1"), (6, "at most 5")):
        with pytest.raises(ValueError, match=f"^n must be {rule}, got {value}$"):
            check_limit("n", value, (1, 5))


def test_each_width_of_a_filter_counts():
    with pytest.raises(ValueError, match=r"^widths must be at most 1000, got 100000$"):
        ModelConfig(widths=(3, 100_000))
    with pytest.raises(ValueError, match=r"^widths must be one or more numbers, at most 100"):
        ModelConfig(widths=(3,) * 101)


def test_the_limit_of_a_large_integer_is_shown_in_full():
    with pytest.raises(ValueError, match=r"^seed must be at most 9223372036854775807, got 1000000"):
        Sampling(seed=10**30)


def test_the_limit_of_a_width_counts_all_views():
    MatchingConfig(model=PairModelConfig(dim=25_000))
    with pytest.raises(ValueError, match=r"^dim must be at most 25000 with 4 views, got 100000$"):
        MatchingConfig(model=PairModelConfig(dim=100_000))
