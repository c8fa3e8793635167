"""Tables of the laboratory, checked against figures computed by hand."""

import csv
import json

import pytest

from wordwave.lab.report import (
    accuracy_table,
    frequency_table,
    parameter_table,
    verdict,
    write_files,
)

# With 1000 test sentences and 2 seeds, counting 2 · 500 pairs has the variance
# (p(1 − p) + q(1 − q)) / 1000 for accuracies p and q; noise is twice its root.
VERDICTS = {
    # Noise 2·√((0.09 + 0.25) / 1000) = 0.037.
    "best, by 0.400": {"complex-order": [0.9, 0.9], "none": [0.5, 0.5]},
    # The best of the others counts: 0.9 − 0.7, noise 2·√((0.09 + 0.21) / 1000) = 0.035.
    "best, by 0.200": {"complex-order": [0.9, 0.9], "pe": [0.5, 0.5], "tpe": [0.7, 0.7]},
    # Noise 2·√((0.2475 + 0.25) / 1000) = 0.0446 is less than 0.05 ...
    "best, by 0.050": {"complex-order": [0.55, 0.55], "none": [0.5, 0.5]},
    "behind none by 0.050": {"complex-order": [0.5, 0.5], "none": [0.55, 0.55]},
    "behind tpe by 0.200": {"complex-order": [0.5, 0.5], "none": [0.6, 0.6], "tpe": [0.7, 0.7]},
}
WITHIN_NOISE = {
    # ... and more than 0.04, either way.
    "ahead by less than counting noise": {"complex-order": [0.54, 0.54], "none": [0.5, 0.5]},
    "behind by less than counting noise": {"complex-order": [0.5, 0.5], "none": [0.54, 0.54]},
    # Differences 0.4 and 0.0: mean 0.2, variance 0.08, noise 2·√(0.08 / 2) = 0.4.
    "ahead by less than the noise of seeds": {"complex-order": [1.0, 0.6], "none": [0.6, 0.6]},
    "behind by less than the noise of seeds": {"complex-order": [0.6, 0.6], "none": [1.0, 0.6]},
    "equal without any noise": {"complex-order": [1.0, 1.0], "complex-vanilla": [1.0, 1.0]},
}
NONE = {
    "one seed": {"complex-order": [1.0], "none": [0.5]},
    "complex-order is missing": {"none": [0.5, 0.5], "tpe": [0.5, 0.5]},
    "nothing to compare with": {"complex-order": [1.0, 1.0]},
    "no other embedding has as many seeds": {"complex-order": [1.0, 1.0], "none": [0.5]},
    "rope is not in the paper": {"complex-order": [1.0, 1.0], "rope": [0.5, 0.5]},
}


@pytest.mark.parametrize("said", VERDICTS)
def test_a_difference_larger_than_noise_has_its_sign_and_size(said):
    assert verdict(VERDICTS[said], 1000) == said


@pytest.mark.parametrize("case", WITHIN_NOISE)
def test_a_difference_smaller_than_noise_is_none(case):
    assert verdict(WITHIN_NOISE[case], 1000) == "within noise of the best"


@pytest.mark.parametrize("case", NONE)
def test_without_two_seeds_of_both_there_is_no_verdict(case):
    assert verdict(NONE[case], 1000) == ""


def test_rows_that_are_not_complete_or_not_in_the_paper_do_not_change_a_verdict():
    others = {"tpe": [1.0], "rope": [1.0, 1.0], "alibi": [1.0, 1.0]}
    assert verdict(VERDICTS["best, by 0.400"] | others, 1000) == "best, by 0.400"


def test_fewer_test_sentences_are_more_noise():
    same = VERDICTS["best, by 0.050"]
    assert verdict(same, 100) == "within noise of the best"  # 2·√(0.4975 / 100) = 0.141


def record(embedding, accuracy, seed, **more):
    return {
        "task": "precedence", "encoder": "fasttext", "embedding": embedding, "seed": seed,
        "recipe": "plain", "budget": {"dim": 4, "n_test": 1000}, "parameters": 1000 + seed,
        "accuracy": {"10-20": accuracy, "40-60": 0.5}, "sensitivity": None, **more,
    }  # fmt: skip


RECORDS = [
    *(record("none", accuracy, seed) for seed, accuracy in enumerate((0.4, 0.6))),
    *(record("complex-order", accuracy, seed) for seed, accuracy in enumerate((0.9, 1.0))),
    record("rope", 1.0, 0),
]


def test_the_verdict_column_follows_the_accuracies():
    markdown = accuracy_table(RECORDS, "10-20").to_markdown()
    assert "| task | encoder | none | complex-order | rope | complex-order is |" in markdown
    row = "| precedence | fasttext | 0.500 ± 0.141 | 0.950 ± 0.071 | 1.000 | best, by 0.450 |"
    assert row in markdown.splitlines()
    assert "| within noise of the best |" in accuracy_table(RECORDS, "40-60").to_markdown()


def test_the_terminals_table_has_the_best_in_bold_and_the_note_below():
    table = accuracy_table(RECORDS, "10-20", "Incomplete: 5 of 6 cells.", mark_best=True)
    (row,) = table.rows
    assert [(s.mean, s.is_best) for s in row[2:5]] == [(0.5, False), (0.95, False), (1.0, True)]
    assert "complex-order is" in table.only_in_files
    assert table.notes == ["Incomplete: 5 of 6 cells."]


def test_the_effect_on_frequencies_is_cohens_d_over_all_seeds():
    # Means 0.4 and 0.2, variances 0.02 and 0.02: d = 0.2 / √0.02 = 1.41.
    words = {"marked": [0.3, 0.5], "others": [0.1, 0.3]}
    same = {"marked": [0.3, 0.5], "others": [0.1, 0.1]}  # one frequency for all: not counted
    records = [
        record("complex-order", 1.0, seed, sensitivity=found)
        for seed, found in enumerate((words, same))
    ]
    assert frequency_table(records).rows == [
        ["precedence", "fasttext", "0.4000", "0.2000", "+1.4", 1]
    ]
    assert frequency_table(RECORDS).rows == []


def test_every_embedding_has_a_colour():
    from wordwave.embedding.config import EMBEDDING_KINDS
    from wordwave.lab.figures import EMBEDDING_COLOURS

    assert list(EMBEDDING_COLOURS) == list(EMBEDDING_KINDS)
    assert len(set(EMBEDDING_COLOURS.values())) == len(EMBEDDING_KINDS)


def test_files_hold_every_accuracy_and_the_note(tmp_path):
    paths = write_files(RECORDS, tmp_path, "Incomplete: 5 of 6 cells.")
    assert [p.name for p in paths] == ["probe.csv", "probe.json", "probe.md"]
    with paths[0].open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(json.loads(paths[1].read_text())) == 2 * len(RECORDS)
    assert rows[0] == {
        "task": "precedence", "encoder": "fasttext", "embedding": "none", "recipe": "plain",
        "seed": "0", "lengths": "10-20", "accuracy": "0.4",
    }  # fmt: skip
    text = paths[2].read_text()
    assert text.startswith("Incomplete: 5 of 6 cells.\n\n5 cells, 2 seeds, recipe plain; dim 4,")
    assert "## Frequencies" not in text and "| fasttext | rope | 1,000 | 1,000 |" in text
    assert parameter_table(RECORDS).rows[0] == ["fasttext", "none", 1000, 1000]
