"""Files of one's own: whatever is in them, right texts or one line that says what is wrong."""

import csv
import gzip
import io
import json
import os
import types
from threading import Thread

import pytest

from wordwave.data.examples import Examples
from wordwave.data.formats import tsv_cell
from wordwave.data.tables import read_examples, read_prepared, read_texts

CSV = 'text,label\n"good, ""very""",pos\n"two\nlines",neg\n'
TSV = 'text\tlabel\n"good, very\tpos\nbad\tneg\n'
JSONL = '{"text": "good", "label": "pos", "n": 1}\n\n{"label": 0, "text": "b\\u00e4d"}\n'


def written(tmp_path, name, content):
    path = tmp_path / name
    content = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize(
    ("name", "content", "texts", "labels"),
    [
        ("a.csv", CSV, ['good, "very"', "two\nlines"], ["pos", "neg"]),
        ("a.CSV", CSV.replace("\n", "\r\n"), ['good, "very"', "two\r\nlines"], ["pos", "neg"]),
        ("a.csv", "\ufeff" + CSV, ['good, "very"', "two\nlines"], ["pos", "neg"]),
        ("a.tsv", TSV, ['"good, very', "bad"], ["pos", "neg"]),
        ("a.jsonl", JSONL, ["good", "bäd"], ["pos", "0"]),
        ("a.csv", "label,text\n\n1, \n0,a\x85b\u2028c", [" ", "a\x85b\u2028c"], ["1", "0"]),
        ("a.jsonl", '{"text": "", "label": true}\n'.replace('""', '" "'), [" "], ["true"]),
    ],
)
def test_texts_and_labels_come_as_written(tmp_path, name, ending, content, texts, labels):
    path = written(tmp_path, name + ending, content)
    examples = read_examples(path)
    assert (examples.texts, examples.labels) == (texts, labels)
    assert examples.name == str(path) and len(examples) == len(texts)
    assert list(read_texts(path)) == texts


def test_columns_are_chosen_by_name(tmp_path):
    path = written(tmp_path, "a.csv", "id,review,stars\n1,good,5\n2,bad,1\n")
    examples = read_examples(str(path), text="review", label="stars")
    assert (examples.texts, examples.labels) == (["good", "bad"], ["5", "1"])


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.csv.gz"])
def test_a_text_of_a_million_characters_is_read_and_no_limit_is_left_behind(tmp_path, name):
    long = "a word " * 200_000
    content = {"csv": f"text,label\n{long},x\n", "tsv": f"text\tlabel\n{long}\tx\n"}
    content["jsonl"] = json.dumps({"text": long, "label": "x"})
    path = written(tmp_path, name, content[name.split(".")[1]])
    before = csv.field_size_limit()
    assert read_examples(path).texts == [long]
    texts = read_texts(path)
    assert next(texts) == long and csv.field_size_limit() == before


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", "", "must start with a line of column names, got an empty file"),
        ("a.jsonl", "", "must hold at least one example"),
        ("a.csv", "text,label\n", "must hold at least one example"),
        ("a.csv", "txt,label\na,b\n", "no column 'text', only 'txt', 'label'; did you mean 'txt'?"),
        ("a.tsv", "text,label\na,b\n", "no column 'text', only 'text,label'"),
        ("a.csv", "text,text,label\na,b,c\n", "column 'text' must occur once, got it 2 times"),
        ("a.csv", "text,label\na,b\nc\n", "line 3 must have 2 cells like the first line, got 1"),
        ("a.csv", 'text,label\n"a\nb",c\nd,e,f\n', "line 4 must have 2 cells"),
        ("a.csv", 'text,label\na,b\n"never closed,c\n', "line 3 is not csv"),
        ("a.csv", "text,label\na,\n", "line 2: 'label' must hold a label, got nothing"),
        ("a.csv", "text,label\na,NaN\n", "line 2: 'label' must hold a label, got 'NaN'"),
        ("a.csv", "text,label\n,b\n", "line 2: 'text' must hold a text, got nothing"),
        ("a.jsonl", '{"text": null, "label": 1}', "line 1: 'text' must hold a text, got nothing"),
        ("a.jsonl", '{"text": NaN, "label": 1}', "line 1: 'text' must hold a text, got nan"),
        ("a.jsonl", '{"text": 7, "label": 1}', "line 1: 'text' must be a text, got 7"),
        ("a.jsonl", '{"text": "a", "label": NaN}', "'label' must hold a label, got nan"),
        ("a.jsonl", '{"text": "a", "label": null}', "'label' must hold a label, got nothing"),
        ("a.jsonl", '{"text": "a", "label": [1]}', "'label' must hold a label, got [1]"),
        (
            "a.jsonl",
            JSONL + '{"text": "a"}',
            "line 4: there is no column 'label', only 'text'; name it with label=…",
        ),
        ("a.jsonl", JSONL + "{'text'}", "line 4 must be JSON, got"),
        ("a.jsonl", "[" * 100_000, "line 1 must be JSON, got"),
        ("a.jsonl", '["a", "b"]', "line 1 must be a JSON object, got ['a', 'b']"),
        ("a.jsonl", '{"text": "\\ud800", "label": 1}', "line 1: 'text' holds half a surrogate"),
        ("a.csv", b"text,label\nok,1\n\xff\xfe,b\n", "line 3 must be UTF-8, but is not at byte 16"),
        ("a.csv", CSV.encode("utf-16"), "a.csv': line 1 "),
        ("a.csv", b"text,label\na\0b,1\n", "line 2 holds a NUL byte"),
        ("a.xlsx", "PK", "must end in one of .csv, .tsv, .jsonl"),
        ("a.txt", "a\n", "must end in one of .csv, .tsv, .jsonl"),
    ],
)
def test_what_is_wrong_is_one_short_line_that_names_the_file(tmp_path, name, content, said):
    path = written(tmp_path, name, content)
    with pytest.raises(ValueError) as caught:
        read_examples(path)
    message = str(caught.value)
    assert said in message and f"'{path}'" in message
    assert "\n" not in message and len(message) < 200 + len(str(path))


def test_missing_files_folders_and_broken_gzip(tmp_path):
    whole = written(tmp_path, "a.csv.gz", CSV).read_bytes()
    for read in (read_examples, read_prepared, read_texts):
        with pytest.raises(FileNotFoundError, match=r"nowhere\.csv' does not exist"):
            read(tmp_path / "nowhere.csv")
        with pytest.raises(ValueError, match="must be a file, got a folder"):
            read(tmp_path)
    for content in (whole[:-4], b"not gzip", whole[:-8] + bytes(8)):
        (tmp_path / "a.csv.gz").write_bytes(content)
        with pytest.raises(ValueError, match=r"a\.csv\.gz' is not a complete gzip file"):
            read_examples(tmp_path / "a.csv.gz")


def test_the_catalogues_form_has_no_header_and_may_have_empty_texts(tmp_path):
    path = written(tmp_path, "a.tsv.gz", '0\ta "b\x85c\n1\t\n1\td\te\n')
    examples = read_prepared(path)
    assert (examples.texts, examples.labels) == (['a "b\x85c', "", "d\te"], ["0", "1", "1"])
    assert read_prepared(path, ("no", "yes")).labels == ["no", "yes", "yes"]
    with pytest.raises(ValueError, match=r"line 2: label must be 0 … 0, got '1'"):
        read_prepared(path, ("no",))


@pytest.mark.parametrize(
    ("content", "said"),
    [("", "at least one example"), ("0\ta\nno tab\n", "line 2 must be label<TAB>text")],
)
def test_the_catalogues_form_is_checked(tmp_path, content, said):
    with pytest.raises(ValueError, match=said):
        read_prepared(written(tmp_path, "a.tsv", content))


def test_plain_text_has_a_text_a_line_from_a_file_or_a_stream(tmp_path):
    content = "one\r\n\ntwo\x85 and\tthree"
    texts = ["one", "", "two\x85 and\tthree"]
    path = written(tmp_path, "a.txt", content)
    assert list(read_texts(path)) == texts
    assert list(read_texts(io.BytesIO(content.encode()))) == texts
    assert list(read_texts(io.TextIOWrapper(io.BytesIO(content.encode())))) == texts
    with path.open("rb") as stream:
        assert list(read_texts(stream)) == texts and not stream.closed


def test_a_stream_may_have_another_form_and_another_column():
    stream = io.BytesIO(b'{"body": "a"}\n{"body": "b"}\n')
    assert list(read_texts(stream, text="body", form="jsonl")) == ["a", "b"]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.txt", "a.csv.gz"])
def test_a_named_pipe_is_read_like_a_file(tmp_path, name):
    texts = [f"text {i}" for i in range(3000)]  # progress is reported after each 1,024
    content = "\n".join(["text", *texts] if "sv" in name else texts).encode()
    if name == "a.jsonl":
        content = "\n".join(json.dumps({"text": text}) for text in texts).encode()
    os.mkfifo(tmp_path / name)
    content = gzip.compress(content) if name.endswith(".gz") else content
    Thread(target=(tmp_path / name).write_bytes, args=(content,), daemon=True).start()
    assert list(read_texts(tmp_path / name)) == texts


def test_texts_are_streamed():
    def endless():
        while True:
            yield b"again\n"

    lines = endless()
    texts = read_texts(types.SimpleNamespace(readline=lambda _: next(lines)))
    assert [next(texts) for _ in range(1000)] == ["again"] * 1000


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the input: must hold at least one text, got none"),
        (b"ok\n\x80\n", "the input: line 2 must be UTF-8, but is not at byte 3"),
        (b"a\0b", "the input: line 1 holds a NUL byte"),
    ],
)
def test_a_wrong_stream_is_named_the_input(content, said):
    with pytest.raises(ValueError, match=said):
        list(read_texts(io.BytesIO(content)))


def test_every_text_has_a_label_and_a_subset_keeps_them_together():
    with pytest.raises(ValueError, match="mine: every text must have a label, got 2 texts, 1"):
        Examples(["a", "b"], ["x"], "mine")
    part = Examples(["a", "b", "c"], ["x", "y", "z"], "mine").subset([2, 0], "some")
    assert (part.texts, part.labels, part.name) == (["c", "a"], ["z", "x"], "some")


@pytest.mark.parametrize(
    "text", ["plain", 'a "b" c', '"all of it"', '"', '""', '"a" and "b"', 'say ""x""', "'"]
)
def test_a_cell_of_a_tsv_is_read_as_it_was_written(tmp_path, text):
    path = written(tmp_path, "a.tsv", f"text\tlabel\n{tsv_cell(text)}\tx\n")
    assert read_examples(path).texts == [text]


def test_cells_that_spreadsheets_quote_are_read_without_quotes_and_others_as_they_are(tmp_path):
    rows = ['"a ""fine"" film"\tx', '"Yes", he said\tx', 'the "end"\tx', '"un"even"\tx']
    path = written(tmp_path, "a.tsv", "\n".join(["text\tlabel", *rows]) + "\n")
    assert read_examples(path).texts == [
        'a "fine" film',
        '"Yes", he said',
        'the "end"',
        '"un"even"',
    ]
    assert tsv_cell("a\tb\nc\r\nd") == "a b c d"
