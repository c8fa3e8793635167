"""Table 1 of the paper: the data sets, ours beside the paper's."""

from __future__ import annotations

from statistics import fmean

from experiments import paper
from experiments.cells import CROSS_VALIDATED, DATASETS
from experiments.protocol import load_cell_splits
from wordwave.tables import Content, ResultTable

COLUMNS = ("data set", "train", "validation", "test", "vocabulary", "mean length", "classes")


def table1() -> ResultTable:
    """Counts of examples, words as Kim (2014) cleans them, and classes."""
    rows = [_counted(dataset) for dataset in DATASETS]
    columns = [*COLUMNS, "paper's train", "paper's test", "paper's vocabulary"]
    notes = [
        "Train, validation and test: of fold 0 where there are ten folds, whose texts are as many "
        "as all three together. Vocabulary: different words of all texts, in lower case, with the "
        "cleaning of Kim (2014). The paper's sizes are as printed; CV: ten-fold cross-validation.",
        "The paper has 11.9k texts of MR, which has 10,662, and 2.2k test sentences of SST-2, "
        "whose official test set has 1,821.",
    ]
    return ResultTable("table1", "Table 1. Data sets", columns, rows, notes)


def _counted(dataset: str) -> list[Content]:
    from wordwave.text.tokenizers import KimTokenizer

    parts = load_cell_splits(dataset)
    assert parts.dev is not None
    assert parts.test is not None
    words_of, three = KimTokenizer(), (parts.train, parts.dev, parts.test)
    texts = [words_of(text) for part in three for text in part.texts]
    printed = paper.datasets()[dataset]
    own: list[Content] = [
        f"{dataset} (CV)" if dataset in CROSS_VALIDATED else dataset,
        *map(len, three),
        len({word for words in texts for word in words}),
        f"{fmean(map(len, texts)):.1f}",
        len(set(parts.train.labels)),
    ]
    return [*own, *(printed[name] for name in ("train", "test", "vocabulary"))]
