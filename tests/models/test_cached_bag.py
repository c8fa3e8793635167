"""A cached bag of words gives the logits of the model."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from wordwave.config_io import with_settings
from wordwave.embedding.config import PAPER_EMBEDDINGS
from wordwave.models import cached_bag
from wordwave.models.cached_bag import CachedBag
from wordwave.models.classifier import Classifier
from wordwave.models.config import ModelConfig
from wordwave.tasks.classification import ClassificationTask, LabelledSentences
from wordwave.tasks.classifier import logits_of
from wordwave.text.batching import Sentences
from wordwave.training.config import TrainingConfig
from wordwave.training.loop import Training


def sentences(n=40, longest=30, n_words=50):
    lengths = torch.randint(1, longest + 1, (n,))
    return Sentences(torch.randint(1, n_words, (int(lengths.sum()),)), lengths)


@pytest.mark.parametrize("hidden_dim", [0, 7])
@pytest.mark.parametrize("pooling", ["sum", "mean"])
@pytest.mark.parametrize("embedding", PAPER_EMBEDDINGS)
def test_logits_are_those_of_the_model_cached_or_not(embedding, pooling, hidden_dim):
    config = with_settings(
        ModelConfig(), embedding=embedding, dim=6, pooling=pooling, hidden_dim=hidden_dim
    )
    model = Classifier(config, 50, 3)
    bag = CachedBag(model)
    for _ in range(3):
        batch = sentences()
        torch.testing.assert_close(bag.logits(batch), logits_of(model, batch))
    assert model.training


def test_the_cache_is_cleared_when_it_is_full_and_when_weights_change(monkeypatch):
    monkeypatch.setattr(cached_bag, "MAX_ROWS", 700)
    model = Classifier(ModelConfig(dim=4), 50, 2)
    bag = CachedBag(model)
    for _ in range(6):
        batch = sentences(n=30, longest=20)
        torch.testing.assert_close(bag.logits(batch), logits_of(model, batch))
        assert bag.n_rows <= 700
    with torch.no_grad():
        model.embedding.frequency.weight.mul_(2)
    torch.testing.assert_close(bag.logits(batch), logits_of(model, batch))
    model.embedding.amplitude.weight.data.mul_(-3)  # which makes no new version
    torch.testing.assert_close(bag.logits(batch), logits_of(model, batch))


def test_training_is_noticed_and_threads_get_the_same_logits():
    model = Classifier(ModelConfig(dim=4, dropout=0.0), 50, 2)
    classes = torch.randint(0, 2, (40,))
    task = ClassificationTask(LabelledSentences(sentences(), classes))
    bag = CachedBag(model)
    batch = sentences()
    before = bag.logits(batch)
    settings = TrainingConfig(epochs=3, learning_rate=0.1, row_sparse=False)
    list(Training(model, task, settings).run())
    torch.testing.assert_close(bag.logits(batch), logits_of(model, batch))
    assert not torch.allclose(bag.logits(batch), before)
    batches = [sentences() for _ in range(40)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(bag.logits, batches))
    for given, wanted in zip(found, batches, strict=True):
        torch.testing.assert_close(given, logits_of(model, wanted))


def test_models_that_are_no_plain_sum_are_refused():
    for config in (ModelConfig(encoder="cnn", dim=4), ModelConfig(readout="magnitude", dim=4)):
        with pytest.raises(ValueError, match="encoder 'fasttext'"):
            CachedBag(Classifier(config, 9, 2))
    assert not CachedBag.supports(Classifier(ModelConfig(dim=4), 9, 2).double())
    bag = CachedBag(Classifier(ModelConfig(dim=4), 9, 2))
    assert not bag.accepts(Sentences(torch.ones(200, dtype=torch.long), torch.tensor([200])))
