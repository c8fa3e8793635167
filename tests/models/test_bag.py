"""The default classifier: a scaled sum of words and hashed bigrams."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from tolerance import rounding
from wordwave import WaveClassifier
from wordwave.compiled import SWITCH
from wordwave.config_io import with_settings
from wordwave.embedding.table import Bigrams
from wordwave.models.classifier import Classifier
from wordwave.models.config import ClassifierConfig
from wordwave.text.batching import Sentences
from wordwave.text.ngrams import repeated_bigrams
from wordwave.training.config import TrainingConfig
from wordwave.training.optim import optimizers_for

EMBEDDINGS = ("none", "pe", "tpe", "complex-vanilla", "complex-order")


def bag(embedding="complex-order", sparse=False, **settings):
    torch.manual_seed(0)
    small = {"dim": 6, "hidden_dim": 5, "n_bigrams": 50, "max_length": 64, **settings}
    config = with_settings(ClassifierConfig(), embedding=embedding, **small)
    model = Classifier(config, 20, 3, sparse=sparse)
    with torch.no_grad():
        for parameter in model.parameters():  # bigrams start at 0
            parameter.add_(0.3 * torch.randn_like(parameter))
        for table in model.embedding.modules():
            if hasattr(table, "zero_padding"):
                table.zero_padding()
    if model.bigrams is not None:
        model.bigrams.assign(torch.tensor([3 * 20 + 7, 7 * 20 + 2, 5 * 20 + 2, 9 * 20 + 9]))
    return model.eval()


def padded(*rows):
    return Sentences.from_lists(rows).padded(range(len(rows)))


@pytest.mark.parametrize("embedding", EMBEDDINGS)
def test_a_sentence_is_the_sum_of_its_words_and_bigrams_over_the_root_of_its_length(embedding):
    model = bag(embedding)
    table = model.embedding.amplitude if embedding == "complex-order" else model.embedding.words
    sentence = [3, 7, 7, 2]
    got = model.sentence_vectors(padded(sentence))[0]
    bigrams, table.bigrams = table.bigrams, None
    expected = torch.zeros_like(got)
    for position, word in enumerate(sentence, start=1):
        vector = table.weight[word].clone()
        if position in (2, 4):  # 3 7 and 7 2 have a row, 7 7 has none
            row = (sentence[position - 2] * 40_503 + word * 2_654_435_761) % 50 + 1
            vector += 0.5 * bigrams.weight[row]
        before = table.weight.detach().clone()
        with torch.no_grad():
            table.weight[word] = vector
            expected += model.embedding(torch.tensor([word]), torch.tensor([position]))[0]
            table.weight.copy_(before)
    table.bigrams = bigrams
    assert_close(got, expected / 2, **rounding(terms=40, size=4))


@pytest.mark.parametrize("embedding", EMBEDDINGS)
def test_padding_and_other_sentences_do_not_matter(embedding):
    model = bag(embedding)
    rows = [[3], [5, 2, 9, 9, 1], [4, 4]]
    together = model(padded(*rows))
    for logits, row in zip(together, rows, strict=True):
        assert_close(logits, model(padded(row))[0], **rounding(terms=60, size=4))


def pairs(*words):
    return torch.tensor([first * 100 + second for first, second in words])


def test_only_pairs_of_the_training_set_add_something():
    table = Bigrams(50, 4, n_words=100)
    table.assign(pairs((1, 2)))
    with torch.no_grad():
        table.weight[1:] = 1
    found = table(torch.tensor([[1, 2, 1, 0], [2, 1, 2, 2]]))
    is_known = torch.tensor([[0, 1, 0, 0], [0, 0, 1, 0]])
    assert found.equal(0.5 * is_known.unsqueeze(-1).expand(2, 4, 4))  # half the size of a word


def test_of_pairs_with_the_same_row_the_first_has_it():
    table = Bigrams(1, 2, n_words=100)
    for first, second in (((4, 5), (6, 7)), ((6, 7), (4, 5))):
        table.assign(pairs(first, second))
        assert table.keys.tolist() == [0, int(pairs(first))]
    table.assign(pairs()[:0].long())
    assert not table.keys.any()


def test_every_pair_has_a_row_if_there_are_enough():
    table, keys = Bigrams(100_000, 1, n_words=100), torch.arange(100, 10_000)
    table.assign(keys)
    assert len(keys) - int((table.keys > 0).sum()) < 1000  # about 5% share one
    ids = torch.stack([keys // 100, keys % 100], dim=1)
    known = table.rows(ids[:, 0], ids[:, 1]) > 0
    with torch.no_grad():
        table.weight[1:] = 2
    assert (table(ids)[:, 1, 0] == known).all()


def test_dropout_leaves_out_all_bigrams_of_a_sentence_in_training_alone():
    table = Bigrams(10, 2, n_words=100, dropout=0.5)
    table.assign(pairs((1, 1)))
    with torch.no_grad():
        table.weight[1:] = 1
    ids = torch.ones(200, 3, dtype=torch.long)
    torch.manual_seed(0)
    shares = table.train()(ids)[:, 1:, 0]
    assert set(shares.sum(1).tolist()) == {0.0, 1.0}
    assert 50 < int((shares.sum(1) > 0).sum()) < 150
    assert (table.eval()(ids)[:, 1:] == 0.5).all()


def test_bigrams_that_repeat_are_found_inside_sentences():
    sentences = Sentences.from_lists([[1, 2, 3], [3, 1, 2, 3], [1, 2], [9], [9]])
    assert repeated_bigrams(sentences, 100).tolist() == pairs((1, 2), (2, 3)).tolist()
    assert len(repeated_bigrams(Sentences.from_lists([[4]]), 100)) == 0


def test_word_vectors_learn_faster_than_other_weights():
    model = bag()
    groups = [g for o in optimizers_for(model, TrainingConfig()) for g in o.param_groups]
    rate = {id(p): group["peak"] for group in groups for p in group["params"]}
    amplitude = model.embedding.amplitude
    assert rate[id(amplitude.weight)] == rate[id(amplitude.bigrams.weight)] == pytest.approx(2e-2)
    assert rate[id(model.head[1].weight)] == pytest.approx(2e-3)


def test_bigrams_have_row_sparse_gradients_where_words_have():
    torch.manual_seed(0)
    settings = with_settings(ClassifierConfig(), dim=4, hidden_dim=0, n_bigrams=30)
    for sparse in (True, False):
        model = Classifier(settings, 20, 2, sparse=sparse)
        model(padded([3, 4, 5])).sum().backward()
        assert model.embedding.amplitude.bigrams.weight.grad.is_sparse is sparse


@pytest.mark.parametrize("embedding", EMBEDDINGS)
@pytest.mark.parametrize("sparse", [True, False])
def test_kernels_agree_with_padded_sentences(embedding, sparse, monkeypatch):
    """Values and gradients, also where bigrams of some sentences are dropped."""
    sentences = Sentences.from_lists([[3, 7, 2], [5, 2], [9, 9, 9, 3, 7], [1]])
    rows = torch.arange(4)
    found = []
    for without in ("", "1"):
        monkeypatch.setenv(SWITCH, without)
        model = bag(embedding, sparse=sparse).train()
        model.head.eval()  # whose dropout draws from another stream
        model.bigrams.train()
        torch.manual_seed(1)
        kept = torch.rand(4, 1) >= 0.5
        monkeypatch.setattr(Bigrams, "draw_kept", lambda self, *shape, k=kept: k.reshape(*shape))
        logits = model(sentences.batch(rows))
        logits.square().sum().backward()
        grads = {n: p.grad.to_dense() for n, p in model.named_parameters() if p.grad is not None}
        found.append((logits.detach(), grads))
    (fast, fast_grads), (slow, slow_grads) = found
    assert_close(fast, slow, **rounding(terms=60, size=8))
    assert fast_grads.keys() == slow_grads.keys()
    for name, grad in slow_grads.items():
        assert_close(fast_grads[name], grad, **rounding(terms=400, size=20))


def test_torch_func_sees_the_same_model():
    model, batch = bag(), Sentences.from_lists([[3, 7, 2], [5, 2]]).batch([0, 1])
    weights = {name: p.detach() for name, p in model.named_parameters()}
    buffers = dict(model.named_buffers())

    def total(weights):
        return torch.func.functional_call(model, (weights, buffers), (batch,)).sum()

    _, value = torch.func.grad_and_value(total)(weights)
    assert_close(value, model(batch).sum(), **rounding(terms=60, size=8))


def test_the_weight_of_a_word_has_no_bigram():
    model = bag()
    with_pairs = model.embedding.weight
    model.embedding.amplitude.bigrams = None
    assert with_pairs.equal(model.embedding.weight)


def test_shared_amplitudes_have_no_bigrams():
    assert bag(share_amplitude="word").bigrams is None


@pytest.mark.parametrize("key", [2**62, -5, 1, 19, 3 * 20 + 8])
def test_keys_that_no_training_sets_are_refused(key):
    table = bag().bigrams
    table.check_keys()
    table.keys[7] = key
    with pytest.raises(ValueError, match="keys must be pairs of words"):
        table.check_keys()


def test_a_bag_with_context_negates_words_that_it_never_saw_negated():
    moods, words = ("good", "bad"), [f"w{i}" for i in range(40)]
    rows = [(word, moods[i % 2]) for i, word in enumerate(words)]
    negated = [(f"not {word}", moods[1 - i % 2]) for i, word in enumerate(words)]
    texts, labels = zip(*(rows + negated[:28]) * 3, strict=True)
    options = {"n_bigrams": 0, "epochs": 40, "dim": 32, "hidden_dim": 0, "random_state": 0}
    options |= {"views": ("start", "context"), "share_frequency": "word"}
    model = WaveClassifier(**options).fit(list(texts), list(labels))
    new, expected = zip(*negated[28:], strict=True)
    assert (model.predict(list(new)) == np.array(expected)).mean() > 0.8
