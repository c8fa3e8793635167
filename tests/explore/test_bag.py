"""The description of a bag that a page computes: as PyTorch does, small, or refused."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tolerance import rounding
from wordwave.errors import WordwaveError
from wordwave.explore import Session
from wordwave.explore.bag import LONGEST, Bag
from wordwave.explore.quantization import MOST_ANGLE, by_columns, by_rows, by_table
from wordwave.tasks.classifier import logits_of
from wordwave.text.batching import Sentences
from wordwave.text.encoder import TextEncoder
from wordwave.text.tokenizers import train_bpe
from wordwave.text.vocabulary import SPECIALS

MODELS = {
    "default": {},
    "sum": {"pooling": "sum"},
    "max": {"pooling": "max"},
    "magnitude": {"readout": "magnitude"},
    "no hidden layer": {"hidden_dim": 0},
    "phase": {"phase": True},
    "damping": {"damping": True, "pooling": "sum"},
    "frequency of a dimension": {"share_frequency": "word"},
    "frequency of a word": {"share_frequency": "dim", "phase": True, "share_phase": "word"},
    "amplitude of a word": {"share_amplitude": "dim", "frequency_init": "uniform"},
    "views": {"views": ("start", "end", "relative"), "phase": True, "pooling": "sum"},
    "context": {"views": ("start", "context", "end"), "share_frequency": "word", "phase": True},
    "context, summed": {"views": ("relative", "context"), "pooling": "sum"},
    "tpe": {"embedding": "tpe"},
    "pe": {"embedding": "pe"},
    "none": {"embedding": "none"},
    "complex-vanilla": {"embedding": "complex-vanilla"},
}


def in_torch(classifier, rows):
    return logits_of(classifier.model, Sentences.from_lists(rows)).double().softmax(-1).numpy()


@pytest.mark.parametrize("precision", ["int8", "float16", "float32"])
@pytest.mark.parametrize("settings", MODELS.values(), ids=MODELS)
def test_it_computes_what_pytorch_computes_with_the_same_weights(make, settings, precision):
    classifier = make(**settings)
    bag = Bag.describe(classifier, precision)
    rng = np.random.default_rng(1)
    rows = [rng.integers(1, bag.n_rows, n).tolist() for n in (1, 2, 3, 8, 40)]
    found = np.stack([bag.probabilities(row) for row in rows])
    close = rounding(terms=2000)  # a sum of 40 words, then of 12 to 36 units, twice
    rounded = bag.rounded(classifier)
    np.testing.assert_allclose(found, in_torch(rounded, rows), **close)
    if precision == "float32":
        np.testing.assert_allclose(found, in_torch(classifier, rows), **close)
    difference, loss = bag.check(classifier)
    assert difference < 1e-4
    assert loss < {"int8": 0.1, "float16": 0.01, "float32": 1e-4}[precision]


@pytest.mark.parametrize("embedding", ["complex-order", "tpe"])
@pytest.mark.parametrize("precision", ["int8", "float32"])
def test_bigrams_and_scaled_sums(with_bigrams, embedding, precision):
    classifier = with_bigrams(embedding=embedding)
    bag = Bag.describe(classifier, precision)
    rows = [[3, 4, 5, 3], [4, 3, 2, 2, 2], [7], [1, 9, 7, 3, 4]]
    found = np.stack([bag.probabilities(row) for row in rows])
    np.testing.assert_allclose(
        found, in_torch(bag.rounded(classifier), rows), **rounding(terms=500)
    )
    assert bag.check(classifier)[0] < 1e-4
    assert bag.tables["pairs"].values.tolist() == [[2, 2], [3, 4], [4, 5], [5, 3], [7, 3]]


@pytest.mark.parametrize("settings", [{}, {"n_bigrams": 0}, {"embedding": "tpe"}], ids=str)
@pytest.mark.parametrize("precision", ["int8", "float32"])
def test_ngrams(with_ngrams, settings, precision):
    classifier = with_ngrams(**settings)
    bag = Bag.describe(classifier, precision)
    rows = [[2, 3, 4, 2, 5], [6, 7, 10, 8, 9], [6, 7, 6, 7, 6, 7], [1, 1], [1, 3]]
    found = np.stack([bag.probabilities(row) for row in rows])
    close = rounding(terms=500)
    np.testing.assert_allclose(found, in_torch(bag.rounded(classifier), rows), **close)
    difference, loss = bag.check(classifier)
    assert difference < 1e-4
    if precision == "float32":
        np.testing.assert_allclose(found, in_torch(classifier, rows), **close)
        return
    assert loss < 0.01
    assert bag.tables["ngrams.words"].values.dtype == np.float16
    # Without the n-grams the page is another one.
    classifier.model.ngrams.words.zero_()
    assert np.abs(found - in_torch(classifier, rows)).max() > 0.02


def test_ngrams_of_other_pairs_are_not_stored(with_ngrams):
    bag = Bag.describe(with_ngrams())
    n_pairs = len(bag.tables["pairs"].values)
    assert 0 < n_pairs < 40 and len(bag.tables["ngrams.bigrams"].values) == n_pairs


def test_vectors_of_many_pairs_are_stored_in_few_levels(with_ngrams, monkeypatch):
    classifier = with_ngrams()
    name = Bag.describe(classifier).layers[0]["bigrams"]["vectors"]
    monkeypatch.setattr("wordwave.explore.bag.MANY_PAIRS", 10)
    bag = Bag.describe(classifier)
    assert np.abs(bag.tables[name].values).max() == 7
    difference, loss = bag.check(classifier)
    assert difference < 1e-4 and loss < 0.05


def test_ngrams_of_very_long_words_keep_their_squares(with_ngrams):
    classifier = with_ngrams()
    classifier.model.ngrams.words[3, -1] = 1e6
    bag = Bag.describe(classifier)
    assert bag.tables["ngrams.words"].values.dtype == np.float32
    assert bag.check(classifier)[0] < 1e-4


def test_ngrams_that_are_not_numbers_are_refused(with_ngrams):
    classifier = with_ngrams()
    classifier.model.ngrams.words[3, 1] = torch.nan
    with pytest.raises(WordwaveError, match="finite"):
        Bag.describe(classifier)


def test_a_session_counts_the_ngrams_of_unknown_words(with_ngrams):
    classifier = with_ngrams()
    session, text = Session(classifier, name="x"), "bitten dogs bad bitten"
    still = {"id": 1, "amplitude": 1.0, "frequency": 1.0, "phase": 0.0, "damping": 0.0}
    unspelled = in_torch(classifier, [classifier.encoder.encode([text]).sentences.ids.tolist()])
    for order in ([0, 1, 2, 3], [3, 0, 2, 1]):
        given = " ".join(text.split()[i] for i in order)
        expected = classifier.probabilities([given])[0].tolist()
        for edits in ([], [still | {"dimension": None}]):
            found = session.predict(text, order, edits)["probabilities"]
            assert found == pytest.approx(expected, abs=1e-5)
    assert np.abs(unspelled[0] - classifier.probabilities([text])[0].numpy()).max() > 0.01


@given(st.integers(0, 10_000), st.floats(1e-6, 1e3), st.integers(1, 6))
def test_rounded_rows_are_within_half_a_step(seed, size, width):
    table = np.random.default_rng(seed).normal(0, size, (5, width)).astype(np.float32)
    table[0] = 0
    stored = by_rows(table)
    most = np.abs(table).max(axis=1, keepdims=True)
    assert (np.abs(stored.restored() - table) <= most * (0.51 / 127)).all()
    assert not stored.restored()[0].any()


@pytest.mark.parametrize("levels", [7, 127])
def test_a_table_of_one_step_is_within_half_of_it(levels):
    table = np.random.default_rng(0).normal(0, 3, (50, 4)).astype(np.float32)
    stored = by_table(table, levels)
    assert np.abs(stored.values).max() == levels
    assert np.abs(stored.restored() - table).max() <= np.abs(table).max() * 0.51 / levels


@given(st.integers(0, 10_000), st.floats(1e-6, 10), st.integers(1, 512))
def test_rounded_frequencies_turn_no_wave_by_much(seed, size, longest):
    table = np.random.default_rng(seed).normal(0.3, size, (9, 4)).astype(np.float32)
    stored = by_columns(table, longest)
    difference = stored.restored()[1:] - table[1:]  # without padding
    assert np.abs(difference).max() * longest <= 1.01 * MOST_ANGLE + longest * 4e-6 * size
    assert stored.values.dtype in (np.int8, np.int16, np.float32)


def test_equal_columns_are_exact():
    table = np.repeat(np.float32([[0.1, -3.7, 0.0]]), 4, axis=0)
    np.testing.assert_array_equal(by_columns(table, 512).restored(), table)


def test_trained_frequencies_take_two_bytes_and_shared_ones_a_row(make):
    classifier = make(frequency_init="uniform", max_length=LONGEST)
    assert Bag.describe(classifier).tables["embedding.frequency.weight"].values.dtype == np.int16
    shared = Bag.describe(make(share_frequency="word"))
    assert shared.tables["embedding.frequency.weight"].values.shape == (1, 6)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"encoder": "cnn"}, "sums of words only, got encoder 'cnn'"),
        ({"encoder": "transformer", "n_heads": 2}, "got encoder 'transformer'"),
    ],
)
def test_what_a_page_cannot_compute_is_refused_in_one_line(make, settings, said):
    with pytest.raises(WordwaveError, match="without --html the explorer computes it") as raised:
        Bag.describe(make(**settings))
    assert said in str(raised.value) and "\n" not in str(raised.value)


def test_subwords_are_refused_in_one_line_and_served(make):
    tokenizer = train_bpe(["dog bites man"] * 3, 300)
    classifier = make(words=[word for word in tokenizer.words if word not in SPECIALS])
    classifier.encoder = TextEncoder(tokenizer, classifier.encoder.vocabulary, max_length=40)
    with pytest.raises(WordwaveError, match="without --html the explorer computes it") as raised:
        Bag.describe(classifier)
    assert "plain and kim, got 'bpe'" in str(raised.value) and "\n" not in str(raised.value)
    session = Session(classifier, name="x")
    assert [word["text"] for word in session.tokens("man bites dog")["words"]] == [
        *("man", "bites", "dog")
    ]
    found = session.predict("dog bites man", [2, 1, 0], [])["probabilities"]
    expected = classifier.probabilities(["man bites dog"])[0].tolist()
    assert found == pytest.approx(expected, abs=1e-5)


def test_a_layer_that_a_page_does_not_have_is_refused(make):
    classifier = make()
    classifier.model.head[2] = torch.nn.GELU()
    with pytest.raises(WordwaveError, match="the layer GELU"):
        Bag.describe(classifier)


def test_a_model_that_computes_something_else_is_refused(make):
    classifier = make()

    class Louder(torch.nn.ReLU):
        def forward(self, x):
            return 3 * super().forward(x)

    bag = Bag.describe(classifier)
    classifier.model.head[2] = Louder()
    with pytest.raises(WordwaveError, match="does not reproduce this model"):
        bag.check(classifier)


def test_weights_that_are_not_numbers_are_refused(make):
    classifier = make()
    with torch.no_grad():
        classifier.model.embedding.amplitude.weight[3, 1] = torch.inf
    with pytest.raises(WordwaveError, match="finite"):
        Bag.describe(classifier)


def test_words_that_are_numbered_in_another_way_are_refused(make, monkeypatch):
    classifier = make()
    encode = classifier.encoder.encode
    monkeypatch.setattr(classifier.encoder, "encode", lambda texts: encode([*texts * 2]))
    with pytest.raises(WordwaveError, match="cannot compute the ids"):
        Bag.describe(classifier)
