"""Data sets of the hub's library, here from a local folder."""

import pytest

from wordwave.data.splits import load_examples
from wordwave.tasks.classification_job import ClassificationJob
from wordwave.tasks.config import ClassificationConfig, DataConfig

pytest.importorskip("datasets", reason="needs the extra 'datasets'")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    data = tmp_path / "films"
    data.mkdir()
    rows = "".join(f"a {'fine' if n % 2 else 'dull'} film {n},{n % 2}\n" for n in range(40))
    (data / "train.csv").write_text("text,label\n" + rows)
    (data / "test.csv").write_text("text,label\nfine,1\n")
    return data


def test_a_folder_gives_its_splits_and_a_part_is_held_out_if_asked_for(folder):
    parts = load_examples(DataConfig(data=f"hf:{folder}"))
    assert (len(parts.train), parts.dev, len(parts.test)) == (40, None, 1)
    parts = load_examples(DataConfig(data=f"hf:{folder}", dev_share=0.1))
    assert (len(parts.train), len(parts.dev), len(parts.test)) == (36, 4, 1)
    assert parts.test.texts == ["fine"] and parts.test.labels == ["1"]


def test_a_validation_split_is_used_and_not_said_to_be_cut(folder):
    (folder / "validation.csv").write_text("text,label\nfine,1\ndull,0\n")
    config = ClassificationConfig(data=DataConfig(data=f"hf:{folder}"))
    job = ClassificationJob(config)
    parts = job.load_data()
    assert (len(parts.train), len(parts.dev), len(parts.test)) == (40, 2, 1)
    assert not any("held out" in note for note in job.prepare(parts).notes)
    with pytest.raises(ValueError, match=r"has a validation set, got dev_share 0\.1"):
        load_examples(DataConfig(data=f"hf:{folder}", dev_share=0.1))


def test_what_is_missing_is_named(folder):
    with pytest.raises(ValueError, match="there is no column 'body', only text, label"):
        load_examples(DataConfig(data=f"hf:{folder}", text="body"))
    with pytest.raises(ValueError, match="cannot be loaded"):
        load_examples(DataConfig(data=f"hf:{folder}/nowhere"))
    with pytest.raises(ValueError, match="do not go with 'hf:"):
        load_examples(DataConfig(data=f"hf:{folder}", fold=1))
