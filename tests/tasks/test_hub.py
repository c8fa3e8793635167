"""A classifier to the hub and back, without a network: uploads go to a folder of the cache."""

import json
import shutil

import pytest
from huggingface_hub import HfApi, ModelCard
from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

from wordwave.data.examples import Examples
from wordwave.data.splits import Splits
from wordwave.models.config import ModelConfig
from wordwave.tasks.classification_job import ClassificationJob
from wordwave.tasks.classifier import FILES, TextClassifier
from wordwave.tasks.config import ClassificationConfig, DataConfig, TextConfig

TEXTS = ["Who wrote it?", "Where is it?", "who is he", "where are they"]
COMMIT = "0" * 40
RESULT = {
    "test": {"accuracy": 0.9125, "interval": [0.85, 0.95], "n": 80, "macro_f1": 0.9},
    "dev_accuracy": 0.93,
}


def untrained(folder, tokenizer="plain"):
    """A classifier whose data and vectors were files in some folder of this machine."""
    vectors = folder / "vectors.txt"
    vectors.write_text("who 1 2\nwhere 2 1\n")
    config = ClassificationConfig(
        data=DataConfig(data=str(folder / "questions.csv"), test="C:\\private\\test.csv"),
        text=TextConfig(tokenizer=tokenizer, bpe_size=300, vectors=str(vectors)),
        model=ModelConfig(hidden_dim=4),
    )
    examples = Examples(TEXTS, ["person", "place"] * 2)
    return ClassificationJob(config).prepare(Splits(examples, None, None)).text_model


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Where uploads arrive: the cache of downloads, laid out as the hub's client does."""
    cache = tmp_path / "cache"

    class Repository:
        repo_id = "someone/questions"

    def upload(self, *, repo_id, folder_path, **options):
        home = cache / f"models--{repo_id.replace('/', '--')}"
        shutil.copytree(folder_path, home / "snapshots" / COMMIT)
        (home / "refs").mkdir()
        (home / "refs" / "main").write_text(COMMIT)
        return f"uploaded to {repo_id}"

    monkeypatch.setattr(HfApi, "create_repo", lambda self, **options: Repository)
    monkeypatch.setattr(HfApi, "upload_folder", upload)
    return cache


def uploaded(cache):
    return cache / "models--someone--questions" / "snapshots" / COMMIT


@pytest.mark.parametrize("tokenizer", ["plain", "bpe"])
def test_a_folder_and_back(tmp_path, tokenizer):
    classifier = untrained(tmp_path, tokenizer)
    classifier.save_pretrained(tmp_path / "model")
    again = TextClassifier.from_pretrained(tmp_path / "model")
    assert (again.logits(TEXTS) == classifier.logits(TEXTS)).all()
    assert again.labels == ["person", "place"]
    again.save_pretrained(tmp_path / "model")
    assert TextClassifier.from_pretrained(str(tmp_path / "model")).config == again.config


@pytest.mark.parametrize("tokenizer", ["plain", "bpe"])
def test_the_hub_and_back(tmp_path, hub, tokenizer):
    classifier = untrained(tmp_path, tokenizer)
    assert classifier.push_to_hub("questions") == "uploaded to someone/questions"
    files = {*FILES, "README.md", "config.json"}
    if tokenizer != "bpe":
        files.remove("tokenizer.json")
    assert {file.name for file in uploaded(hub).iterdir()} == files
    again = TextClassifier.from_pretrained(
        "someone/questions", cache_dir=hub, local_files_only=True
    )
    assert (again.logits(TEXTS) == classifier.logits(TEXTS)).all()


def test_no_folder_of_this_machine_goes_to_the_hub(tmp_path, hub):
    classifier = untrained(tmp_path)
    classifier.push_to_hub("questions")
    for file in uploaded(hub).iterdir():
        told = file.read_bytes()
        assert str(tmp_path).encode() not in told and b"private" not in told
    assert classifier.config.data.data == str(tmp_path / "questions.csv")


def test_paths_from_the_hub_are_but_names(tmp_path, hub):
    untrained(tmp_path).push_to_hub("questions")
    config = uploaded(hub) / "config.yaml"
    text = config.read_text()
    for name, bad in [
        ("data: questions.csv", "/etc/secret.csv"),
        ("test: test.csv", "..\\..\\x.csv"),
    ]:
        assert name in text
        text = text.replace(name, f"{name.split()[0]} {bad}")
    config.write_text(text)
    (uploaded(hub) / "config.json").write_text(json.dumps({"labels": ["x"], "config": "y"}))
    again = TextClassifier.from_pretrained(
        "someone/questions", cache_dir=hub, local_files_only=True
    )
    assert (again.config.data.data, again.config.data.test) == ("secret.csv", "x.csv")
    assert again.config.data.dev is None and again.config.text.vectors == "vectors.txt"
    assert again.labels == ["person", "place"]


@pytest.mark.parametrize("name", ["../../nowhere", "a/b/c", "~/model", "/nowhere/model"])
def test_what_is_neither_a_folder_nor_a_name_is_refused(name, tmp_path):
    with pytest.raises(HFValidationError):
        TextClassifier.from_pretrained(name, cache_dir=tmp_path, local_files_only=True)


def test_a_model_that_is_not_there(tmp_path):
    with pytest.raises(LocalEntryNotFoundError):
        TextClassifier.from_pretrained("no/model", cache_dir=tmp_path, local_files_only=True)


def test_the_page_of_a_model(tmp_path):
    classifier = untrained(tmp_path)
    details = {"repo_id": "someone/questions", "result": RESULT}
    classifier.save_pretrained(tmp_path / "model", model_card_kwargs=details)
    card = ModelCard.load(tmp_path / "model" / "README.md")
    assert card.data.library_name == "wordwave"
    assert card.data.pipeline_tag == "text-classification"
    assert {"complex-valued", "word-order"} < set(card.data.tags)
    for part in [
        'TextClassifier.from_pretrained("someone/questions")',
        "of 2 classes a text is of: `person`, `place`.",
        "| embedding | complex-order, 2 dimensions |",
        "| trained on | questions.csv |",
        "| test accuracy | 0.9125, 95% interval 0.8500 to 0.9500, 80 examples |",
        "| validation accuracy | 0.9300 |",
    ]:
        assert part in card.text
    plain = str(classifier.generate_model_card())
    assert "accuracy" not in plain and 'from_pretrained("USER/THIS-MODEL")' in plain
