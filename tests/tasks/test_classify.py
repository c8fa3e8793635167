"""From examples to a run folder and back: what is loaded says what was trained."""

from dataclasses import replace

import pytest
import torch

from wordwave.config_io import with_settings
from wordwave.data.splits import Splits
from wordwave.data.tables import Examples
from wordwave.embedding.config import PAPER_EMBEDDINGS, EmbeddingConfig
from wordwave.models.config import ENCODERS, ModelConfig
from wordwave.tasks.classification import ClassificationJob
from wordwave.tasks.classifier import TextClassifier
from wordwave.tasks.config import ClassificationConfig, DataConfig, TextConfig
from wordwave.training.config import TrainingConfig

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
    model = {"dim": 4, "n_heads": 2, "n_filters": 4, "feed_forward_dim": 8} | model
    return ClassificationConfig(
        DataConfig(data="films.csv"),
        TextConfig(vectors=None if vectors is None else str(vectors)),
        with_settings(ModelConfig(), **model),
        TrainingConfig(epochs=2),
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
            {"training": {"random_positions": 900}, "model": {"embedding": EmbeddingConfig("pe")}},
            "at most 512, the positions of 'pe', got 900",
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
