"""The catalogue: complete, consistent, and true of the prepared files where they are."""

import gzip
import re
from collections import Counter
from pathlib import Path

import pytest

from wordwave.data.registry import CATALOGUE, data_home, dataset_named
from wordwave.data.tables import read_headerless

PARTS = [(s, p) for s in CATALOGUE.values() for p in s.parts]


def test_the_six_sets_are_there_with_licence_and_citation():
    assert list(CATALOGUE) == ["mr", "subj", "cr", "mpqa", "sst2", "trec"]
    for dataset in CATALOGUE.values():
        assert dataset.licence and re.search(r"\(20\d\d\)", dataset.citation)
        assert len(set(dataset.classes)) == len(dataset.classes) >= 2


def test_every_set_is_whole_or_has_official_parts():
    for dataset in CATALOGUE.values():
        roles = {part.role for part in dataset.parts}
        assert roles == {"all"} or roles >= {"train", "test"}


def test_files_are_named_once_and_sums_are_sums():
    files = [part.file for _, part in PARTS]
    assert len(set(files)) == len(files)
    for _, part in PARTS:
        sums = [part.sha256, *(s.sha256 for s in part.sources if s.sha256 is not None)]
        assert all(re.fullmatch(r"[0-9a-f]{64}", value) for value in sums)
        for source in part.sources:
            assert source.url.startswith("https://") and source.url.endswith("/" + source.file)


def test_a_wrong_name_lists_all_and_suggests_the_nearest():
    with pytest.raises(ValueError, match=r"one of mr, subj.*'trek'; did you mean 'trec'\?"):
        dataset_named("trek")


def test_rows_leave_out_the_second_training_part():
    assert CATALOGUE["sst2"].rows == 67_349 + 872 + 1_821


def test_the_data_home_is_the_variable_or_a_folder_of_the_users(monkeypatch):
    monkeypatch.setenv("WORDWAVE_DATA", "~/somewhere")
    assert data_home() == Path.home() / "somewhere"
    monkeypatch.setenv("WORDWAVE_DATA", "")
    assert "wordwave" in data_home().parts and data_home().is_absolute()
    monkeypatch.delenv("WORDWAVE_DATA")
    assert "wordwave" in data_home().parts


@pytest.mark.parametrize(("dataset", "part"), PARTS, ids=[p.file for _, p in PARTS])
def test_prepared_files_hold_the_rows_and_classes_said(dataset, part):
    path = data_home() / part.file
    if not path.exists():
        pytest.skip(f"WORDWAVE_DATA has no {part.file}")
    examples = read_headerless(path, dataset.classes)
    assert len(examples) == part.rows
    assert set(Counter(examples.labels)) == set(dataset.classes)
    with gzip.open(path) as file:
        assert b"\r" not in file.read()
