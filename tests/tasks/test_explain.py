"""Explanations say what is so: order-blind models show none, order-aware ones where it matters."""

import json
import math

import pytest
import torch

from tolerance import approx
from wordwave.config_io import with_settings
from wordwave.lab.tasks import probe_task
from wordwave.models.classifier import Classifier
from wordwave.models.config import ModelConfig
from wordwave.tasks.classification import ClassificationTask, LabelledSentences
from wordwave.tasks.classifier import TextClassifier
from wordwave.tasks.config import ClassificationConfig
from wordwave.tasks.explain import ROUNDING, explain, moved, moves_to_try, without
from wordwave.text.batching import Sentences
from wordwave.text.encoder import TextEncoder
from wordwave.text.tokenizers import build_tokenizer, train_bpe
from wordwave.text.vocabulary import Vocabulary
from wordwave.training.config import TrainingConfig
from wordwave.training.loop import Training

WORDS = ["the", "film", "is", "not", "good", "but", "bad", "at", "all"]
TEXT = "the film is not bad but good"


def build(
    embedding="none", encoder="fasttext", *, max_length=60, tokenizer=None, n_labels=3, **options
):
    config = with_settings(
        ModelConfig(),
        embedding=embedding,
        encoder=encoder,
        dim=8,
        hidden_dim=8,
        n_heads=2,
        max_length=max_length,
        **options,
    )
    tokenizer = tokenizer or build_tokenizer("plain")
    vocabulary = Vocabulary.build([WORDS], extra_words=getattr(tokenizer, "words", ()))
    model = Classifier(config, len(vocabulary), n_labels).eval()
    encoder = TextEncoder(tokenizer, vocabulary, max_length=max_length)
    labels = ["a", "b", "c"][:n_labels]
    return TextClassifier(model, encoder, labels, ClassificationConfig(model=config))


def p_of(classifier, label, text):
    return float(classifier.probabilities([text])[0, classifier.labels.index(label)])


def log_odds_of(classifier, label, text):
    """From the logits, in the way of a textbook."""
    logits = dict(
        zip(classifier.labels, classifier.logits([text])[0].double().tolist(), strict=True)
    )
    return logits.pop(label) - math.log(sum(map(math.exp, logits.values())))


@pytest.fixture(scope="module")
def precedence():
    """A small wave model that has learnt whether A stands before B."""
    torch.manual_seed(0)
    task = probe_task("precedence")
    options = {"hidden_dim": 16, "pooling": "sum", "dropout": 0.0}
    config = with_settings(
        ModelConfig(), embedding="complex-order", encoder="fasttext", dim=16, **options
    )
    model = Classifier(config, len(task.words), 2)
    data = task.examples(1200, (8, 14), seed=0)
    labelled = LabelledSentences(Sentences.from_padded(data.ids), data.targets)
    settings = TrainingConfig(
        epochs=6,
        batch_size=64,
        learning_rate=3e-2,
        schedule="one-cycle",
        frequency_lr_scale=0.1,
        row_sparse=False,
        seed=0,
    )
    for _ in Training(model, ClassificationTask(labelled, group=2), settings).run():
        pass
    vocabulary = Vocabulary([word.lower() for word in task.words])
    encoder = TextEncoder(build_tokenizer("plain"), vocabulary, max_length=60)
    return TextClassifier(model, encoder, ["no", "yes"], ClassificationConfig(model=config))


def test_moves_are_those_of_taking_a_word_out_and_putting_it_back():
    moves = moves_to_try(5, 100)
    assert len(moves) == 5 * 4
    for (word, to), order in zip(moves.tolist(), moved(moves, 5).tolist(), strict=True):
        expected = list(range(5))
        expected.insert(to, expected.pop(word))
        assert order == expected
    assert without(torch.arange(3), 3).tolist() == [[1, 2], [0, 2], [0, 1]]


def test_a_model_of_order_shows_it_at_the_words_whose_order_counts(precedence):
    said = explain(precedence, "w01 w02 A w03 w04 w05 w06 w07 B w08 w09 w10")
    assert said.label == "yes" and said.probability > 0.9
    sensitivity = {word.word: word for word in said.words}
    for marker in "ab":
        assert sensitivity[marker].moved_max > math.log(0.9 / 0.1)  # another class
    others = [word for word in said.words if word.word not in "ab"]
    least = min(sensitivity[marker].moved_mean for marker in "ab")
    assert max(word.moved_mean for word in others) < 0.5 * least
    worst = said.worst_move
    assert worst.word in "ab" and worst.label == "no" and worst.probability < 0.1
    assert precedence.predict([worst.text]) == ["no"]
    assert 20 < said.shuffles_to_other_class < 80 and said.moves_to_other_class >= 4


def test_words_whose_place_counts_have_the_larger_frequencies(precedence):
    said = explain(precedence, "w01 A w02 B w03")
    delta = [word.frequency for word in said.words]
    assert min(delta[1], delta[3]) > max(delta[0], delta[2], delta[4])


@pytest.mark.parametrize("embedding", ["none", "complex-vanilla"])
def test_a_model_blind_to_order_shows_none(embedding):
    said = explain(build(embedding), TEXT)
    assert max(word.moved_max for word in said.words) < ROUNDING
    assert all(word.moved_to is None for word in said.words)
    assert said.shuffle_change < ROUNDING and said.worst_move is None
    assert said.moves_to_other_class == said.shuffles_to_other_class == 0
    assert max(abs(word.importance) for word in said.words) > 1e-4


@pytest.mark.parametrize("encoder", ["fasttext", "cnn", "lstm", "transformer"])
def test_numbers_are_those_of_predicting_the_changed_texts(encoder):
    classifier = build("complex-order", encoder)
    said = explain(classifier, TEXT)
    words = TEXT.split()

    def p(words):
        return p_of(classifier, said.label, " ".join(words))

    def odds(words):
        return log_odds_of(classifier, said.label, " ".join(words))

    def close(value):
        return pytest.approx(value, abs=1e-5)

    assert [said.label] == classifier.predict([TEXT])
    assert said.probability == close(p(words)) and sum(said.probabilities.values()) == close(1)
    assert said.log_odds == close(odds(words))
    shorter = words[:3] + words[4:]
    assert said.words[3].importance == close(said.log_odds - odds(shorter))
    assert said.words[3].p_without == close(p(shorter))
    swapped = [*words[:3], words[4], words[3], *words[5:]]
    assert said.words[3].swap == close(odds(swapped) - said.log_odds)
    to_front = [words[3], *words[:3], *words[4:]]
    assert said.after_move[3][0] == close(odds(to_front))
    row = said.after_move[3]
    changes = [abs(after - said.log_odds) for i, after in enumerate(row) if i != 3]
    assert said.words[3].moved_mean == close(sum(changes) / 6)
    assert said.words[3].moved_max == close(max(changes))
    lowest = min(after for row in said.after_move for after in row)
    worst = said.worst_move
    assert worst.log_odds == close(lowest) == close(odds(worst.text.split()))
    assert worst.probability == close(p(worst.text.split()))


def test_ngrams_count_and_only_bigrams_depend_on_the_order(with_ngrams):
    classifier, text = with_ngrams(), "the doggy bites the man , not badly"
    said, words = explain(classifier, text), text.split()

    def odds(words):
        return log_odds_of(classifier, said.label, " ".join(words))

    close = {"abs": 1e-5}
    assert said.log_odds == pytest.approx(odds(words), **close)
    for i, word in enumerate(said.words):  # also those that are known by their spelling only
        without_it = odds(words[:i] + words[i + 1 :])
        assert word.importance == pytest.approx(said.log_odds - without_it, **close)
    assert said.after_move[1][0] == pytest.approx(odds(["doggy", "the", *words[2:]]), **close)
    classifier.model.scale.zero_()
    said = explain(classifier, text)
    assert said.words[2].moved_max > ROUNDING and said.shuffle_change > ROUNDING
    assert abs(said.words[0].importance) < ROUNDING  # "the" is repeated, and counts once
    classifier.model.ngrams.bigrams.zero_()
    said = explain(classifier, text)
    assert max(word.moved_max for word in said.words) < ROUNDING and said.worst_move is None
    assert max(abs(word.importance) for word in said.words) > 0.01


def test_a_text_without_words_has_no_ngrams(with_ngrams):
    classifier = with_ngrams()
    said = explain(classifier, "")
    assert said.probability == pytest.approx(p_of(classifier, said.label, ""), abs=1e-6)


@pytest.mark.parametrize("n_labels", [2, 3])
def test_a_certain_prediction_still_tells_which_words_matter(n_labels):
    """With logits a thousand times as large p is 1 with or without any word, to the last digit."""
    classifier = build("complex-order", n_labels=n_labels)
    mild = explain(classifier, TEXT)
    last = classifier.model.head[-1]
    with torch.no_grad():
        last.weight *= 1000
        last.bias *= 1000
    certain = explain(classifier, TEXT)
    assert certain.label == mild.label and certain.probability == 1
    importance = torch.tensor([word.importance for word in certain.words])
    moved_mean = torch.tensor([word.moved_mean for word in certain.words])
    assert importance.isfinite().all() and importance.abs().max() > 1 and moved_mean.min() > 0
    assert certain.worst_move.log_odds < certain.log_odds
    if n_labels == 2:  # the difference of two logits, which grows as they do
        before = torch.tensor([word.importance for word in mild.words])
        torch.testing.assert_close(importance / 1000, before, rtol=0, atol=1e-4)


def test_words_are_told_with_their_numbers():
    waves = build("complex-order")
    said = explain(waves, "The film is zzz")
    assert [w.word for w in said.words] == ["the", "film", "is", "zzz"]
    assert [w.known for w in said.words] == [True, True, True, False]
    film = waves.encoder.vocabulary.ids(["film"])[0]
    amplitude = waves.model.embedding.amplitude.weight[film].detach().abs().mean()
    assert said.amplitude_is == "mean |amplitude|"
    assert said.words[1].amplitude == approx(float(amplitude), terms=8)
    delta = waves.model.embedding.sensitivity()[film]
    assert said.words[1].frequency == approx(float(delta), terms=8)
    vectors = build("tpe")
    said = explain(vectors, "film")
    assert said.amplitude_is == "vector norm" and said.words[0].frequency is None
    norm = vectors.model.embedding.words.weight[film].detach().norm()
    assert said.words[0].amplitude == approx(float(norm), terms=8)


@pytest.mark.parametrize("share", ["word", "dim"])
def test_shared_tables_are_read_too(share):
    said = explain(build("complex-order", share_amplitude=share, share_frequency=share), TEXT)
    assert all(word.amplitude > 0 and word.frequency >= 0 for word in said.words)


@pytest.mark.parametrize("text", ["", "film", "zzz"])
def test_a_text_of_one_word_or_none_has_no_order(text):
    said = explain(build("complex-order"), text)
    assert len(said.words) == 1 and said.n_moves == said.n_shuffles == 0
    assert said.words[0].swap is said.words[0].moved_to is said.worst_move is None
    assert said.words[0].moved_mean == said.words[0].moved_max == 0


def test_long_texts_are_moved_to_some_places_and_that_is_said():
    classifier = build("complex-order")
    text = " ".join(WORDS * 5)
    every, some = explain(classifier, text), explain(classifier, text, most_moves=400)
    assert every.all_moves and every.n_moves == 45 * 44
    assert not some.all_moves and some.n_moves < 500
    tried = [[j for j, q in enumerate(row) if q is not None] for row in some.after_move]
    assert all({0, 44, i} <= set(row) for i, row in enumerate(tried))
    swaps = [[word.swap for word in said.words[:-1]] for said in (some, every)]
    assert swaps[0] == approx(swaps[1], terms=45)
    assert some == explain(classifier, text, most_moves=400)


def test_texts_beyond_the_greatest_length_are_cut_and_that_is_said():
    said = explain(build(max_length=5), TEXT)
    assert said.n_cut == 2 and len(said.words) == 5


def test_a_seed_gives_the_same_shuffles():
    classifier = build("complex-order", "lstm")
    first, again, other = (explain(classifier, TEXT, seed=s).shuffle_change for s in (1, 1, 2))
    assert first == again != other


def test_explanations_are_json():
    said = explain(build("complex-order"), " ".join(WORDS * 2), most_moves=50)
    told = json.loads(json.dumps(said.to_dict(), allow_nan=False))
    assert told["label"] == said.label and told["words"][0]["word"] == "the"
    assert told["after_move"] == said.after_move


def test_pieces_of_words_are_spelled_as_people_write():
    tokenizer = train_bpe(["the film is naïve"] * 3, 300)
    said = explain(build("complex-order", tokenizer=tokenizer), "the film is naïve")
    assert [word.word for word in said.words] == ["the", "film", "is", "naïve"]
    assert sorted(said.worst_move.text.split()) == ["film", "is", "naïve", "the"]


@pytest.mark.parametrize("name", ["n_shuffles", "most_moves"])
def test_negative_numbers_are_refused(name):
    with pytest.raises(ValueError, match=f"{name} must be at least 0, got -1"):
        explain(build(), TEXT, **{name: -1})


def test_the_model_is_left_as_it_was():
    classifier = build()
    classifier.model.train()
    before = [p.clone() for p in classifier.model.parameters()]
    explain(classifier, TEXT)
    assert classifier.model.training
    assert all(
        torch.equal(a, b) for a, b in zip(before, classifier.model.parameters(), strict=True)
    )


def test_the_nearest_words_have_the_most_similar_amplitudes():
    classifier = build("complex-order")
    table = classifier.model.embedding.vectors
    with torch.no_grad():
        table[3] = 2 * table[2]
        table[4] = -table[2]
    words = classifier.encoder.vocabulary.words
    found = classifier.nearest_words(words[2].upper(), n=3)
    assert len(found) == 3 and found[0] == (words[3], pytest.approx(1, abs=1e-6))
    everything = classifier.nearest_words(words[2], n=1000)
    assert {word for word, _ in everything} == {*words[3:]}
    assert everything[-1] == (words[4], pytest.approx(-1, abs=1e-6))
    cosines = [cosine for _, cosine in everything]
    assert cosines == sorted(cosines, reverse=True)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("two words", "'two words' must be one word of the vocabulary, got 2 tokens"),
        ("", "'' must be one word of the vocabulary, got 0 tokens"),
        ("zebr", "'zebr' must be one word of the vocabulary"),
    ],
)
def test_a_word_to_compare_with_is_one_of_the_vocabulary(word, message):
    with pytest.raises(ValueError, match=message):
        build().nearest_words(word)
    with pytest.raises(ValueError, match="n must be at least 1, got 0"):
        build().nearest_words("the", 0)
