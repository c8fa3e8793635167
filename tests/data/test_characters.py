"""Long texts: mapped from disk, numbered by an alphabet, cut into parts."""

import gzip
import hashlib
import lzma
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordwave.data import prepare as preparation
from wordwave.data.characters import CHUNK, Alphabet, read_text, text_of
from wordwave.data.corpora import TextSplits, load_text, split
from wordwave.data.prepare import prepare, state
from wordwave.data.registry import catalogue, dataset_named

GERMAN = "Größe, schön ☂ 𝄞\n" * 40


def lengths(parts: TextSplits) -> list[int]:
    return [len(parts.train), len(parts.valid), len(parts.test)]


def content(text):
    return "".join(map(chr, text.symbols.tolist()))


@pytest.mark.parametrize("words", ["plain text\r\n" * 50, GERMAN])
@pytest.mark.parametrize("pack", [None, gzip, lzma])
def test_a_file_is_read_as_it_stands(tmp_path, words, pack):
    path = tmp_path / f"a.txt{ {None: '', gzip: '.gz', lzma: '.xz'}[pack] }"
    path.write_bytes(pack.compress(words.encode()) if pack else words.encode())
    text = read_text(path)
    assert content(text) == words
    assert isinstance(text.symbols, np.memmap)
    assert read_text(path, "byte").symbols.tobytes() == words.encode()


def test_pure_ascii_is_mapped_from_the_file_itself_and_never_copied(tmp_path):
    path = tmp_path / "large.txt"
    with path.open("wb") as file:  # a hole: it takes no room on disk nor in memory
        file.truncate(1 << 33)
    text = read_text(path, "byte")
    assert len(text) == 1 << 33 and text.symbols.dtype == np.uint8
    part = text.part(1 << 32, (1 << 32) + 10, "part")
    assert Alphabet("byte").ids(part.symbols).tolist() == [0] * 10


def test_characters_that_straddle_two_chunks_are_whole(tmp_path):
    path = tmp_path / "a.txt"
    words = "x" * (CHUNK - 1) + "ö☂" * 10
    path.write_text(words, encoding="utf-8")
    assert content(read_text(path)) == words


@pytest.mark.parametrize(
    ("name", "raw", "said"),
    [
        ("a.txt", b"", "must hold text, got an empty file"),
        ("a.txt.gz", gzip.compress(b"", mtime=0), "must hold text, got an empty file"),
        ("a.txt", b"abc \xff def", "must be UTF-8, got another byte near 4; use --unit byte"),
        ("a.txt", "ö".encode()[:1], "must be UTF-8"),
        ("a.txt.gz", b"nonsense", "is not a complete .gz file"),
        ("a.txt.xz", lzma.compress(b"text" * 99)[:-9], "is not a complete .xz file"),
    ],
)
def test_bad_files_are_refused(tmp_path, name, raw, said):
    path = tmp_path / name
    path.write_bytes(raw)
    with pytest.raises(ValueError, match=said) as refusal:
        read_text(path)
    assert name in str(refusal.value)


@given(st.text(min_size=1, max_size=60), st.text(max_size=20))
def test_an_alphabet_numbers_what_it_knows_and_gives_it_back(known, other):
    alphabet = Alphabet.of(text_of(known, "text"), "char")
    again = Alphabet.from_dict(alphabet.to_dict())
    ids = again.encode(known)
    assert ids.min() >= 1 and ids.max() < len(alphabet) == len(set(known)) + 1
    decode = alphabet.decoder()
    assert "".join(decode(i) for i in ids.tolist()) == known
    unknown = [i for i in alphabet.encode(other).tolist() if i == 0]
    assert len(unknown) == sum(c not in known for c in other)
    assert len(alphabet.names) == len(alphabet)


@given(st.text(max_size=30))
def test_bytes_come_back_as_the_characters_they_make(words):
    alphabet = Alphabet("byte")
    decode = alphabet.decoder()
    assert "".join(decode(i) for i in alphabet.encode(words).tolist()) == words
    assert len(alphabet) == 256 == len(alphabet.names)


def test_words_are_made_of_letters_and_digits():
    alphabet = Alphabet.of(text_of("x2 ß,-\n\u0301", "text"), "char")
    letters = [
        c for c, known in zip(alphabet.characters, alphabet.letters[1:], strict=True) if known
    ]
    assert letters == ["2", "x", "ß", "\u0301"] and alphabet.letters[0]
    of_bytes = Alphabet("byte").letters
    assert of_bytes[ord("a")] and of_bytes[0xC3] and not of_bytes[ord(" ")]
    text = text_of("in a cellar, 1 2", "text")
    found = [Alphabet("byte").letters_before(text, place, 4) for place in range(len(text) + 1)]
    assert found == [0, 1, 2, 0, 1, 0, 1, 2, 3, 4, 4, 4, 0, 0, 1, 0, 1]


@pytest.mark.parametrize(
    "told", [{}, [], {"unit": "word", "characters": "a"}, {"characters": "aa"}]
)
def test_a_broken_alphabet_is_refused(told):
    with pytest.raises(ValueError):
        Alphabet.from_dict(told)


def test_parts_follow_each_other_and_miss_nothing():
    text = text_of("".join(chr(97 + i % 26) for i in range(1003)), "text")
    parts = split(text, "char")
    assert lengths(parts) == [902, 50, 51]
    whole = (parts.train, parts.valid, parts.test)
    assert "".join(map(content, whole)) == content(text)
    with pytest.raises(ValueError, match=r"at least 40 characters, .* got 39"):
        split(text_of("x" * 39, "text"), "char")


def test_the_built_in_text_needs_no_file():
    parts = load_text("python-help")
    assert parts.unit == "char" and len(parts.train) > 200_000
    assert "statement" in content(parts.train)


def test_names_that_are_nearly_right_and_missing_corpora_say_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("WORDWAVE_DATA", str(tmp_path))
    with pytest.raises(ValueError, match="did you mean 'text8'"):
        load_text("text9")
    with pytest.raises(ValueError, match="run `wordwave data prepare text8`"):
        load_text("text8")
    with pytest.raises(ValueError, match=r"there is no text file 'novel\.txt'"):
        load_text("novel.txt")


@pytest.fixture
def small_corpus(tmp_path, monkeypatch):
    """A corpus of 2,000 bytes and a stand-in for its download."""
    words = b"abcd efgh" * 300
    whole, first = words[:2000], words[:1500]
    text8 = dataset_named("text8")
    full = replace(text8.files[0], size=2000, sha256=hashlib.sha256(whole).hexdigest())
    excerpt = replace(text8.excerpt, size=1500, sha256=hashlib.sha256(first).hexdigest())
    corpus = replace(text8, files=(full,), excerpt=excerpt)
    monkeypatch.setitem(catalogue(), "text8", corpus)
    monkeypatch.setenv("WORDWAVE_DATA", str(tmp_path))

    def fetch(source, folder, *, progress=None, content=whole):
        folder.mkdir(exist_ok=True)
        with zipfile.ZipFile(folder / source.file, "w") as archive:
            archive.writestr("text8", content)
        return folder / source.file

    monkeypatch.setattr(preparation, "fetch", fetch)
    return corpus, whole, fetch


def test_a_corpus_is_downloaded_checked_and_split(small_corpus, tmp_path):
    corpus, whole, _ = small_corpus
    assert prepare(corpus) == [tmp_path / "text8" / "text8"]
    assert prepare(corpus) == [] and state(corpus.files[0]) == "ok"
    parts = load_text("text8")
    assert lengths(parts) == [1800, 100, 100] and parts.unit == "char"
    assert content(parts.test).encode() == whole[1900:]
    (tmp_path / "text8" / "text8").write_bytes(whole[:-1] + b"!")
    assert state(corpus.files[0]) == "wrong checksum"
    (tmp_path / "text8" / "text8").write_bytes(whole[:-1])
    with pytest.raises(ValueError, match="must have 2,000 bytes, got 1,999"):
        load_text("text8")


@pytest.mark.parametrize("content", [b"x" * 2000, b"x" * 200_000, b"short"])
def test_a_wrong_download_is_not_kept(small_corpus, tmp_path, monkeypatch, content):
    corpus, _, fetch = small_corpus
    monkeypatch.setattr(preparation, "fetch", lambda *a, **k: fetch(*a, content=content, **k))
    with pytest.raises(ValueError, match=r"sha256|must not be larger than 2000 bytes"):
        prepare(corpus)
    assert not (tmp_path / "text8" / "text8").exists()
    assert state(corpus.files[0]) == "missing"
    assert not (tmp_path / "raw" / "text8.zip").exists()


def test_the_shared_beginning_of_text8_is_checked_and_has_a_split_of_its_own(
    small_corpus, tmp_path
):
    corpus, whole, _ = small_corpus
    path = tmp_path / corpus.excerpt.path
    path.parent.mkdir()
    path.write_bytes(lzma.compress(whole[:1500]))
    parts = load_text("text8")
    assert lengths(parts) == [1304, 87, 109]  # 60 : 4 : 5
    assert corpus.local_files() == (corpus.excerpt,) and state(corpus.excerpt) == "ok"
    path.write_bytes(lzma.compress(whole[1:1501]))
    with pytest.raises(ValueError, match="must have the sha256"):
        load_text("text8")
