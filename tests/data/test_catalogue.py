"""The catalogue: complete, consistent, and true of the prepared files where they are."""

import gzip
import re
from collections import Counter
from pathlib import Path

import pytest

from wordwave.config_io import from_dict
from wordwave.data.registry import DataSet, catalogue, data_home, dataset_named, names
from wordwave.data.tables import read_prepared

SETS = [dataset_named(name) for name in names("classification")]
FILES = [(dataset, file) for dataset in SETS for file in dataset.files]
ALL_FILES = [(dataset, file) for dataset in catalogue().values() for file in dataset.files]


def test_the_six_sets_are_there_with_licence_and_citation():
    assert names("classification") == ["mr", "subj", "cr", "mpqa", "sst2", "trec"]
    assert names("matching") == ["paws-wiki", "paws-qqp", "sts-b", "sick"]
    assert names("translation") == ["multi30k"]
    assert names("language-modelling") == ["text8", "enwik8"]
    for dataset in catalogue().values():
        assert dataset.licence and re.search(r"\(20\d\d\)", dataset.citation)
    for dataset in SETS:
        assert len(set(dataset.classes)) == len(dataset.classes) >= 2


def test_every_set_is_whole_or_has_official_parts():
    for dataset in catalogue().values():
        splits = {file.split for file in dataset.files}
        needed = {"dev"} if dataset.task == "matching" else {"train", "test"}
        assert splits == {"all"} or splits >= needed


def test_files_are_named_once_and_sums_are_sums():
    paths = [file.path for _, file in ALL_FILES]
    assert len(set(paths)) == len(paths)
    for dataset, file in ALL_FILES:
        sums = [file.sha256, *(s.sha256 for s in file.sources if s.sha256 is not None)]
        assert all(re.fullmatch(r"[0-9a-f]{64}", value) for value in sums)
        for source in file.sources:
            scheme = "http://" if dataset.task == "language-modelling" else "https://"
            assert source.url.startswith(scheme) and source.url.endswith("/" + source.file)
        assert file.form != "copy" or Path(file.path).name == file.sources[0].file


def test_an_unknown_fact_in_the_catalogue_is_refused():
    facts = {"name": "x", "files": [], "task": "classification"}
    with pytest.raises(ValueError, match="colour"):
        from_dict(DataSet, facts | {"colour": "red"})


def test_a_wrong_name_lists_all_and_suggests_the_nearest():
    with pytest.raises(ValueError, match=r"one of mr, subj.*'trek'; did you mean 'trec'\?"):
        dataset_named("trek")


def test_rows_leave_out_the_second_training_part():
    assert dataset_named("sst2").rows == 67_349 + 872 + 1_821
    assert dataset_named("multi30k").rows == 31_014


def test_the_data_home_is_the_variable_or_a_folder_of_the_users(monkeypatch):
    monkeypatch.setenv("WORDWAVE_DATA", "~/somewhere")
    assert data_home() == Path.home() / "somewhere"
    monkeypatch.setenv("WORDWAVE_DATA", "")
    assert "wordwave" in data_home().parts and data_home().is_absolute()
    monkeypatch.delenv("WORDWAVE_DATA")
    assert "wordwave" in data_home().parts


@pytest.mark.parametrize(("dataset", "file"), FILES, ids=[f.path for _, f in FILES])
def test_prepared_files_hold_the_rows_and_classes_said(dataset, file):
    path = data_home() / file.path
    if not path.exists():
        pytest.skip(f"WORDWAVE_DATA has no {file.path}")
    examples = read_prepared(path, dataset.classes)
    assert len(examples) == file.rows
    assert set(Counter(examples.labels)) == set(dataset.classes)
    with gzip.open(path) as content:
        assert b"\r" not in content.read()
