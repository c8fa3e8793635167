"""From examples to a run folder and back: what is loaded says what was trained."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score

from wordwave.config_io import with_settings
from wordwave.data.examples import Examples
from wordwave.data.splits import Splits
from wordwave.embedding.config import PAPER_EMBEDDINGS, EmbeddingConfig
from wordwave.models.config import ENCODERS, ClassifierConfig
from wordwave.progress import listening
from wordwave.tasks.classification_job import FOLDS, ClassificationJob
from wordwave.tasks.classifier import TextClassifier, logits_of
from wordwave.tasks.config import (
    ClassificationConfig,
    ClassificationTrainingConfig,
    DataConfig,
    TextConfig,
)

TEXTS = ["a fine film", "a dull film", "fine plot and fine words", "how very dull", "fine"] * 6
LABELS = ["good", "bad", "good", "bad", "good"] * 6


def parts(n=30):
    examples = Examples(TEXTS[:n], LABELS[:n], "films")
    return Splits(examples, examples, examples)


def prepared(settings):
    return ClassificationJob(settings).prepare(parts())


@pytest.fixture
def vectors(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("fine 3 1 -2 4\ndull -2 3 1 5\nfilm 1 1 4 -3\nzebra 9 9 9 9\n")
    return path


def config(vectors=None, **model):
    model = {
        "encoder": "fasttext",
        "dim": 4,
        "n_heads": 2,
        "n_filters": 4,
        "feed_forward_dim": 8,
    } | model
    return ClassificationConfig(
        DataConfig(data="films.csv"),
        TextConfig(vectors=None if vectors is None else str(vectors)),
        with_settings(ClassifierConfig(), **model),
        ClassificationTrainingConfig(epochs=2),
    )


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("embedding", PAPER_EMBEDDINGS)
def test_a_loaded_run_says_what_the_trained_one_says(tmp_path, vectors, encoder, embedding):
    settings = config(vectors, encoder=encoder, embedding=embedding)
    job = ClassificationJob(settings).prepare(parts())
    result = job.train(tmp_path / "run")
    loaded = TextClassifier.load(tmp_path / "run")
    texts = [*TEXTS[:5], "an unknown word", "zebra fine"]
    torch.testing.assert_close(loaded.logits(texts), job.text_model.logits(texts))
    assert result["test"]["accuracy"] == pytest.approx(
        sum(a == b for a, b in zip(loaded.predict(TEXTS), LABELS, strict=True)) / 30
    )


def test_words_with_a_pretrained_vector_are_known_though_training_lacks_them(vectors):
    vocabulary = prepared(config(vectors)).text_model.encoder.vocabulary
    assert "zebra" in vocabulary
    few = replace(config(vectors), text=TextConfig(vectors=str(vectors), extra_words=0))
    assert "zebra" not in prepared(few).text_model.encoder.vocabulary


def test_the_model_depends_on_config_and_data_alone():
    torch.manual_seed(1)
    first = prepared(config()).text_model.model.state_dict()
    torch.manual_seed(2)
    again = prepared(config()).text_model.model.state_dict()
    assert all(torch.equal(first[k], again[k]) for k in first)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"training": {"random_positions": 3}}, "at least 5, the words of the longest text, got 3"),
        (
            {"training": {"random_positions": 9000}, "model": {"embedding": EmbeddingConfig("pe")}},
            "at most 2048, the positions of 'pe', got 9000",
        ),
        (
            {
                "training": {"amplitude_penalty": 1.0, "row_sparse": False},
                "text": {"freeze_vectors": True, "vectors": "not-read.txt"},
            },
            "freeze_vectors keeps",
        ),
    ],
)
def test_settings_that_would_fail_in_mid_training_are_refused_before(changes, message):
    settings = config()
    for part, values in changes.items():
        settings = replace(settings, **{part: replace(getattr(settings, part), **values)})
    with pytest.raises(ValueError, match=message):
        prepared(settings)


def test_macro_f1_is_that_of_scikit_learn_and_likelihood_that_of_torch():
    job = prepared(config())
    dev = job.task.dev
    logits = logits_of(job.text_model.model, dev.sentences).double()
    true, predicted = dev.targets.numpy(), logits.argmax(-1).numpy()
    weights = torch.rand(len(true), generator=torch.Generator().manual_seed(0))
    likelihoods = logits.log_softmax(-1)[range(len(true)), true].numpy()
    for given in (None, weights):
        task = replace(job.task, select="macro-f1", dev=replace(dev, weights=given))
        found = task.score(job.text_model.model)
        assert list(found) == ["macro_f1", "accuracy", "likelihood"]
        expected = f1_score(true, predicted, average="macro", zero_division=0, sample_weight=given)
        assert found["macro_f1"] == pytest.approx(expected)
        assert found["accuracy"] == pytest.approx(np.average(true == predicted, weights=given))
        assert found["likelihood"] == pytest.approx(np.average(likelihoods, weights=given))


def test_the_accuracy_of_the_best_epoch_is_told_whatever_selects_it(tmp_path):
    settings = with_settings(config(), select="likelihood", class_weight="balanced")
    result = prepared(settings).train(tmp_path)
    metrics = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    best = max(metrics, key=lambda epoch: epoch["dev_likelihood"])
    names = ("dev_accuracy", "dev_likelihood")
    assert [result[name] for name in names] == [best[name] for name in names]
    assert result["best_epoch"] == best["epoch"]


def test_other_examples_do_not_go_on_with_a_run_and_leave_it_as_it_was(tmp_path):
    from wordwave.training.run import TrainingStopped

    settings = config()

    def stop(report):
        raise TrainingStopped

    folder = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        prepared(settings).train(folder, save_every=0, watch=_after(3, stop))
    words = (folder / "vocab.json").read_text()
    with pytest.raises(ValueError, match="it was trained on other examples"):
        ClassificationJob(settings).prepare(parts(25)).train(folder)
    assert (folder / "vocab.json").read_text() == words
    assert prepared(settings).train(folder)["epochs"] == 2


def _after(n, act):
    seen = []

    def watch(report):
        seen.append(report)
        if len(seen) == n:
            act(report)

    return watch


def test_the_training_that_weights_ngrams_without_a_validation_set_is_reported():
    settings = with_settings(ClassificationConfig(), dim=4, hidden_dim=4, epochs=2)
    job = ClassificationJob(settings).prepare(replace(parts(), dev=None))
    stages = []
    with listening(SimpleNamespace(stage=lambda what, share: stages.append((what, share)))):
        for _ in job.run(job.training()):
            pass
    shares = [share for what, share in stages if what == FOLDS]
    assert shares == sorted(shares) and shares[-1] == 1  # one estimate for all parts
    assert job.more_trainings == 4


def test_the_coefficients_of_ngrams_count_among_the_parameters_that_are_reported(tmp_path):
    settings = with_settings(ClassificationConfig(), dim=4, hidden_dim=4, epochs=1)
    job = prepared(settings)
    result = job.train(tmp_path)
    model = job.text_model.model
    n_trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    n_fitted = result["parameters"] - n_trained
    assert n_fitted == model.ngrams.n_coefficients
    # TEXTS have 9 words, 10 bigrams and 69 n-grams, some of which are hashed to the same row.
    assert 2 * (9 + 69 // 2) < n_fitted <= 2 * (9 + 10 + 69) + 2
    assert f"{result['parameters']:,} parameters" in job.summary(result)[-1]
    card = str(job.text_model.generate_model_card())
    assert f"{result['parameters']:,}" in card
