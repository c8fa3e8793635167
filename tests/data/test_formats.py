"""Delimiters, encodings and rows that cannot be used, as spreadsheets and databases export them."""

import gc
import io

import pytest

from wordwave.data.formats import TableFormat, parse_rows
from wordwave.data.pairs import read_pairs
from wordwave.data.tables import read_examples, read_texts
from wordwave.errors import WordwaveError

ROWS = 'text,label\n"schön, ""sehr""",gut\nübel – „böse“,schlecht\n'


@pytest.fixture
def written(tmp_path):
    def write(content, name="a.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
        return path

    return write


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
@pytest.mark.parametrize(("delimiter", "mark"), [(";", ";"), ("tab", "\t"), ("|", "|")])
def test_cells_are_separated_by_the_delimiter_whatever_the_ending(written, name, delimiter, mark):
    path = written(f'text{mark}label\n"a{mark * (name == "a.csv")}b"{mark}x\nc,d{mark}y\n', name)
    examples = read_examples(path, table=TableFormat(delimiter=delimiter))
    assert examples.texts == [f"a{mark}b" if name == "a.csv" else "ab", "c,d"]
    assert examples.labels == ["x", "y"]


@pytest.mark.parametrize(
    ("name", "content", "given", "said"),
    [
        ("a.csv", "text;label\na;x\n", None, 'semicolons separate the cells, --delimiter ";"'),
        ("a.csv", "text,label\na,x\n", ";", 'commas separate the cells, --delimiter ","'),
        ("a.tsv", "text,label\na,x\n", None, 'commas separate the cells, --delimiter ","'),
        ("a.csv", "text\tlabel\na\tx\n", None, 'tabs separate the cells, --delimiter "tab"'),
        ("a.tsv", "text|label\na|x\n", None, 'bars separate the cells, --delimiter "|"'),
        ("a.csv", "label\nx\n", ";", "no column 'text', only 'label'; name it with --text"),
    ],
)
def test_a_file_with_another_delimiter_is_told_the_flag(written, name, content, given, said):
    with pytest.raises(WordwaveError, match="there is no column 'text', only") as caught:
        read_examples(written(content, name), table=TableFormat(delimiter=given))
    assert said in str(caught.value)
    assert ("--text" in said) != ("--delimiter" in str(caught.value))
    assert ("--text" in said) == ("--text" in str(caught.value))


def test_a_delimiter_is_named_as_it_is_given_in_python(written):
    with pytest.raises(WordwaveError, match=r'table=TableFormat\(delimiter="tab"\)$'):
        read_examples(written("text\tlabel\na\tx\n", "a.csv"))


@pytest.mark.parametrize("delimiter", ["", "ab", '"', "\n", "é"])
def test_a_delimiter_that_cannot_be_one_is_refused(delimiter):
    with pytest.raises(
        WordwaveError, match="delimiter must be one ASCII character or the word tab"
    ):
        TableFormat(delimiter=delimiter)


@pytest.mark.parametrize(
    ("encoding", "saved_as"),
    [
        ("utf-8", "utf-8-sig"),
        ("utf-8-sig", "utf-8"),
        ("cp1252", "cp1252"),
        ("utf-16", "utf-16"),
        ("UTF-16", "utf-16-be"),
        ("utf-16-le", "utf-16-le"),
        ("utf-32", "utf-32"),
        ("gb18030", "gb18030"),
    ],
)
def test_texts_are_the_same_in_every_encoding(written, encoding, saved_as):
    # U+0A00 and U+010A have the byte of a line end in UTF-16, but end no line.
    rows = ROWS if encoding in ("cp1252",) else ROWS + "\u0a00\u010a\u0a0a,x\n" * 3
    mark = "\ufeff" if saved_as == "utf-16-be" else ""
    examples = read_examples(
        written(mark + rows, encoding=saved_as), table=TableFormat(encoding=encoding)
    )
    assert examples.texts[:2] == ['schön, "sehr"', "übel – „böse“"]
    assert set(examples.texts[2:]) <= {"\u0a00\u010a\u0a0a"}
    lines = written(mark + "öfter\n\nja", "a.txt", saved_as)
    texts = read_texts(lines, table=TableFormat(encoding=encoding))
    assert list(texts) == ["öfter", "", "ja"]


def test_long_files_of_two_bytes_per_character_are_read_in_pieces(written):
    rows = [f"text {i} \u0a00" + "ü" * (i % 97) for i in range(5000)]
    path = written("text,label\n" + "".join(f"{r},x\n" for r in rows), encoding="utf-16")
    assert read_examples(path, table=TableFormat(encoding="utf-16")).texts == rows


@pytest.mark.parametrize("encoding", ["no-such", "rot13", "hex", "cp037", "undefined", ""])
def test_an_encoding_that_is_none_of_text_is_refused(encoding):
    with pytest.raises(WordwaveError, match="encoding must be a known one, such as utf-8"):
        TableFormat(encoding=encoding)


def test_a_wrong_encoding_names_the_byte_the_line_and_the_flags(written):
    path = written("text,label\nok,1\n\x93quoted\x94,2\n".encode("latin-1"))
    with pytest.raises(WordwaveError) as caught:
        read_examples(path, table=TableFormat())
    said = str(caught.value)
    assert f"'{path}': line 3 must be UTF-8, but is not at byte 16 (0x93)" in said
    assert "--encoding" in said and "--skip-bad-rows" in said and "\n" not in said
    with pytest.raises(WordwaveError, match=r"line 3 must be cp1252, but is not at byte 16 \(0x81"):
        read_examples(written(b"text,label\nok,1\n\x81,2\n"), table=TableFormat(encoding="cp1252"))
    utf16 = written("text,label\na,1\n", encoding="utf-16")
    with pytest.raises(WordwaveError, match=r"line 1 holds a NUL byte.*--encoding utf-16"):
        read_examples(utf16, table=TableFormat())


BAD = (
    b"text,label,note\n"
    b"good,1,\n"  # line 2
    b"too,many,cells,here\n"
    b"\xff\xfe,1,\n"
    b"unlabelled,,\n"
    b",1,no text\n"
    b"fine,0,\xff in another column\n"
    b'"two\nlines",0,\n'  # lines 8 and 9
    b'"a "broken" quote",1,\n'
    b"last but one,0,\n"
    b'"never closed,1,\n'
    b"last,1,\n"
)


def test_bad_rows_are_left_out_counted_and_the_first_ones_listed(written):
    path = written(BAD)
    with pytest.warns(UserWarning, match="left out") as warned:
        examples = read_examples(path, table=TableFormat(skip_bad_rows=True))
    assert examples.texts == ["good", "two\nlines", "last but one", "last"]
    assert examples.labels == ["1", "0", "0", "1"]
    (said,) = (str(warning.message) for warning in warned)
    assert f"file '{path}': 7 of 11 rows were left out: line 3 must have 3 cells" in said
    assert "line 4: 'text' holds bytes that are not utf-8" in said
    assert "line 5: 'label' must hold a label, got nothing" in said
    assert "line 6: 'text' must hold a text, got nothing" in said
    assert "line 7: 'note' holds bytes" in said and said.endswith("; …") and "\n" not in said


@pytest.mark.parametrize(
    ("n_lines", "said"),
    [
        (3, "line 3 must have 3 cells like the first line, got 4; --skip-bad-rows"),
        (5, "line 3 must have 3 cells"),
    ],
)
def test_without_the_flag_the_first_bad_row_is_an_error_that_names_it(written, n_lines, said):
    path = written(b"\n".join(BAD.split(b"\n")[:n_lines]))
    with pytest.raises(WordwaveError, match=said):
        read_examples(path, table=TableFormat())


def test_bad_lines_of_jsonl_and_of_pairs_are_left_out_too(written):
    lines = (
        b'{"text": "a", "label": 1}\nnot json\n[1]\n{"text": "b"}\n{"text": "c\0", "label": 2}\n'
    )
    lines += b'{"text": "\\ud800", "label": 1}\n{"text": "d", "label": 2}\n'
    with pytest.warns(UserWarning, match="5 of 7 rows were left out: line 2 must be JSON"):
        examples = read_examples(written(lines, "a.jsonl"), table=TableFormat(skip_bad_rows=True))
    assert examples.texts == ["a", "d"]
    path = written("text_a;text_b;label\na;b;1\na;b\nc;d;0\n")
    table = TableFormat(delimiter=";", skip_bad_rows=True)
    with pytest.warns(UserWarning, match="1 of 3 rows was left out: line 3 must have 3 cells"):
        pairs = read_pairs(path, text_a="text_a", text_b="text_b", label="label", table=table)
    assert (pairs.first, pairs.second, pairs.labels) == (["a", "c"], ["b", "d"], ["1", "0"])


def test_a_quote_that_is_never_closed_costs_one_row_of_a_long_file(written):
    rows = [f"row {i},{i % 2}\n" for i in range(12_000)]
    path = written("text,label\n" + '"open,1\n' + "".join(rows))
    with pytest.warns(
        UserWarning, match="1 of 12,001 rows was left out: line 2 is not csv: a quote"
    ):
        examples = read_examples(path, table=TableFormat(skip_bad_rows=True))
    assert len(examples) == 12_000 and examples.texts[0] == "row 0"


def test_bad_rows_leave_nothing_behind_however_many_there_are():
    file = io.BytesIO(b"text,label\n" + b'"bad"x text,b\n' * 50_000 + b"good,a\n")
    alive = []
    for line, row in parse_rows(file, "csv", ["text"], TableFormat(skip_bad_rows=True)):
        assert isinstance(row, WordwaveError) == (line < 50_002)
        if line in (1000, 50_002):
            gc.collect()
            alive.append(len(gc.get_objects()))
    assert line == 50_002 and row == {"text": "good", "label": "a"}
    assert alive[1] - alive[0] < 1000  # nothing that every later row has to pass through


def test_lines_of_a_malformed_record_are_parsed_again_each_on_its_own():
    lines = '"a', "b", '"c"x,1', 'd,"2"', '"e\nf",3', '"g,"h",4', "i,5", '"j', "k,6"
    file = io.BytesIO("\n".join(("text,label", *lines)).encode())
    found = list(parse_rows(file, "csv", ["text"], TableFormat(skip_bad_rows=True)))
    cells = [(n, tuple(row.values())) for n, row in found if isinstance(row, dict)]
    assert cells == [(5, ("d", "2")), (6, ("e\nf", "3")), (9, ("i", "5")), (11, ("k", "6"))]
    assert [n for n, row in found if not isinstance(row, dict)] == [2, 3, 4, 8, 10]


def test_a_file_of_bad_rows_only_is_refused(written):
    table = TableFormat(skip_bad_rows=True)
    path = written("text,label\na\nb\n")
    with pytest.warns(UserWarning, match="2 of 2"), pytest.raises(WordwaveError, match="got none"):
        read_examples(path, table=table)
