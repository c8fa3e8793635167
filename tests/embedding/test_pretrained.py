"""Pretrained vectors: what a reader keeps, what it refuses, and with which message."""

import gzip
import os
import pickle
import tracemalloc
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wordwave.embedding.pretrained import Vectors, read_vectors

WORDS = ["the", "cat", "naïve", "next\u0085line"]
MATRIX = np.array([[1, 2, 3], [-4, 5.5, 6], [0.125, 0, -1e-3], [7, 8, 9]], dtype=np.float32)


def text(words=WORDS, matrix=MATRIX, *, header=False, end="\n"):
    lines = [f"{len(words)} {matrix.shape[1]}"] if header else []
    lines += [" ".join([word, *map(str, row)]) for word, row in zip(words, matrix, strict=True)]
    return "".join(line + end for line in lines).encode()


def binary(words=WORDS, matrix=MATRIX, *, count=None, newline=b"\n"):
    rows = zip(words, matrix.astype("<f4"), strict=True)
    body = b"".join(word.encode() + b" " + row.tobytes() + newline for word, row in rows)
    return f"{count or len(words)} {matrix.shape[1]}\n".encode() + body


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path

    return write


@pytest.fixture
def write_npy(tmp_path, write):
    def write_npy(matrix, words=WORDS, name="v.npy"):
        np.save(tmp_path / name, matrix)
        write("v.words.txt", "".join(f"{word}\n" for word in words).encode())
        return tmp_path / name

    return write_npy


def assert_holds(vectors, words=WORDS, matrix=MATRIX):
    assert vectors.words == list(words)
    assert vectors.matrix.dtype == torch.float32
    torch.testing.assert_close(vectors.matrix, torch.tensor(matrix), rtol=0, atol=0)


FILES = {
    "glove.txt": text(),
    "glove.txt.gz": text(),
    "fasttext.vec": text(header=True),
    "trailing-space.vec": text(header=True, end=" \n"),
    "crlf.txt": text(header=True, end="\r\n"),
    "no-last-newline.txt": text().removesuffix(b"\n"),
    "word2vec.bin": binary(),
    "word2vec.bin.gz": binary(),
    "google.bin": binary(newline=b""),
}


@pytest.mark.parametrize("name", FILES)
class TestEveryFormat:
    def test_all_words_in_file_order(self, write, name):
        assert_holds(read_vectors(write(name, FILES[name])))

    def test_only_the_vocabulary(self, write, name):
        vectors = read_vectors(write(name, FILES[name]), vocabulary=["naïve", "the", "dog"])
        assert_holds(vectors, ["the", "naïve"], MATRIX[[0, 2]])

    def test_nothing_wanted_found(self, write, name):
        vectors = read_vectors(write(name, FILES[name]), vocabulary=["dog"])
        assert len(vectors) == 0
        assert vectors.dim == 3

    def test_dim_must_agree(self, write, name):
        path = write(name, FILES[name])
        assert read_vectors(path, dim=3).dim == 3
        for wrong in (2, 4):
            with pytest.raises(ValueError, match=rf"{name}', .*expected .*{wrong}.* found 3"):
                read_vectors(path, dim=wrong)


class TestNpy:
    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4"])
    def test_any_float(self, write_npy, dtype):
        assert_holds(
            read_vectors(write_npy(MATRIX.astype(dtype))),
            matrix=MATRIX.astype(dtype).astype(np.float32),
        )

    def test_only_the_vocabulary(self, write_npy):
        vectors = read_vectors(write_npy(MATRIX), vocabulary={"cat", "dog"})
        assert_holds(vectors, ["cat"], MATRIX[[1]])

    @pytest.mark.parametrize("name", ["v.npy", "v.f16.npy", "v.f32.npy"])
    @pytest.mark.parametrize("ending", [".txt", ".txt.gz"])
    def test_finds_the_words_beside_it(self, write, tmp_path, name, ending):
        np.save(tmp_path / name, MATRIX)
        write(f"v.words{ending}", "\r\n".join(WORDS).encode())
        assert_holds(read_vectors(tmp_path / name))

    def test_words_given(self, write, write_npy):
        path = write("other.txt", b"a\nb c\nd\ne")
        assert read_vectors(write_npy(MATRIX), words=path).words == ["a", "b c", "d", "e"]

    def test_words_missing(self, tmp_path):
        np.save(tmp_path / "v.f16.npy", MATRIX)
        with pytest.raises(ValueError, match=r"v\.f16\.npy', .*'v\.words\.txt\.gz'.*pass words="):
            read_vectors(tmp_path / "v.f16.npy")
        with pytest.raises(ValueError, match=r"words file '.*gone\.txt': no such file"):
            read_vectors(tmp_path / "v.f16.npy", words=tmp_path / "gone.txt")

    @pytest.mark.parametrize("words", [WORDS[:3], [*WORDS, "more"]])
    def test_one_word_a_row(self, write_npy, words):
        with pytest.raises(ValueError, match=rf"4 rows, but {len(words)} words in '.*v.words.txt'"):
            read_vectors(write_npy(MATRIX, words))

    @pytest.mark.parametrize(
        ("matrix", "found"),
        [
            (MATRIX[0], r"float32 of shape \(3,\)"),
            (MATRIX.astype(int), r"int64 of shape \(4, 3\)"),
            (MATRIX[:0], r"float32 of shape \(0, 3\)"),
            (MATRIX.astype(object), "Python objects"),
        ],
    )
    def test_must_be_a_matrix_of_floats(self, write_npy, matrix, found):
        with pytest.raises(
            ValueError, match=rf"v\.npy', header: expected .*float.* found .*{found}"
        ):
            read_vectors(write_npy(matrix))

    def test_never_unpickles(self, write, write_npy):
        path = write_npy(MATRIX)
        write("v.npy", pickle.dumps(MATRIX))
        with pytest.raises(ValueError, match=r"v\.npy', header: .*pickle"):
            read_vectors(path)

    def test_archive_is_not_a_matrix(self, write_npy):
        path = write_npy(MATRIX)
        with path.open("wb") as file:
            np.savez(file, MATRIX)
        with pytest.raises(ValueError, match=r"v\.npy', header: .*npz"):
            read_vectors(path)

    def test_truncated(self, write_npy):
        path = write_npy(MATRIX)
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(ValueError, match=r"v\.npy', header: "):
            read_vectors(path)

    def test_not_finite(self, write_npy):
        broken = MATRIX.astype(np.float64)
        broken[2, 1] = 1e300
        path = write_npy(broken)
        with pytest.raises(ValueError, match=r"v\.npy', row 2: .*'naïve', found 1e\+300"):
            read_vectors(path)
        assert len(read_vectors(path, vocabulary=["cat"])) == 1

    def test_dim_must_agree(self, write_npy):
        with pytest.raises(ValueError, match=r"v\.npy', header: .*dimension 4, found 3"):
            read_vectors(write_npy(MATRIX), dim=4)


class TestWords:
    def test_first_of_a_repeated_word_wins(self, write, write_npy):
        twice = ["cat", "the", "cat", "the"]
        for path in (
            write("a.txt", text(twice)),
            write("a.bin", binary(twice)),
            write_npy(MATRIX, twice),
        ):
            assert_holds(read_vectors(path), ["cat", "the"], MATRIX[:2])
            assert_holds(read_vectors(path, vocabulary=["the"]), ["the"], MATRIX[[1]])

    def test_may_hold_spaces(self, write):
        words = ["the", ". . .", "at name@domain.com", " "]
        path = write("glove.txt", text(words))
        assert_holds(read_vectors(path), words)
        assert_holds(read_vectors(path, vocabulary=[". . .", "at"]), [". . ."], MATRIX[[1]])

    def test_the_first_may_hold_spaces_if_dim_is_given(self, write):
        words = [". . .", "the", "cat", "sat"]
        assert_holds(read_vectors(write("glove.txt", text(words)), dim=3), words)

    def test_ending_in_a_number_must_be_asked_for(self, write):
        path = write("glove.txt", text(["the", "Route 66", "cat", "sat"]))
        with pytest.raises(ValueError, match=r"line 2: expected 3 numbers .*'Route', found 4"):
            read_vectors(path)
        assert read_vectors(path, vocabulary=["Route 66"]).words == ["Route 66"]

    def test_undecodable_bytes_are_replaced(self, write):
        assert read_vectors(write("a.txt", b"caf\xe9 1 2\n")).words == ["caf\ufffd"]
        row = np.ones(2, dtype="<f4").tobytes()
        assert read_vectors(write("a.bin", b"1 2\ncaf\xe9 " + row)).words == ["caf\ufffd"]


class TestMalformedText:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "the file is empty"),
            (b"a 1 2\ncat 1\n", "line 2: expected 2 numbers after the word 'cat', found 1"),
            (b"a 1 2\ncat\n", "line 2: expected 2 numbers after the word 'cat', found 0"),
            (b"a 1 2\ncat 1 2 3\n", "line 2: expected 2 numbers after the word 'cat', found 3"),
            (b"a 1 2\ncat  1 2\n", "line 2: expected 2 numbers after the word 'cat ', found 2"),
            (b"a 1 2\n\nb 1 2\n", "line 2: expected 2 numbers after the word '', found 0"),
            (b"a 1 2\ncat 1 x\n", "line 2: expected 2 numbers after the word 'cat', found 'x'"),
            (b"a 1 2\ncat 1 nan\n", "line 2: expected finite numbers for 'cat', found nan"),
            (b"a 1 2\ncat -inf 1\n", "line 2: expected finite numbers for 'cat', found -inf"),
            (b"a 1 2\ncat 1 1e39\n", r"line 2: expected finite numbers for 'cat', found 1e\+39"),
            (b"a\t1\t2\n", r"line 1: expected a word and its numbers, found 'a\\t1\\t2'"),
            (b"3 2\na 1 2\nb 1 2\n", "line 3: the header announces 3 words, found 2"),
            (b"1 2\na 1 2\nb 1 2\n", "line 3: the header announces 1 words, found 2"),
            (b"3 2\n", "line 1: the header announces 3 words, found 0"),
            (b"0 300\n", "line 1: expected a count and a dim above 0, found 0 300"),
            (b"3 0\n", "line 1: expected a count and a dim above 0, found 3 0"),
            (b"x" * (1 << 21), "line 1: longer than 1048576 bytes"),
            (
                b"word" + b" 1" * 500_000,
                "line 1: expected at most 10000 numbers a word, found 500000",
            ),
            (b"1 500000\nword 1\n", "line 1: expected at most 10000 numbers a word, found 500000"),
            (b"PK\x03\x04 \x00\x01 1 2\n", "line 1: expected a word .*; is this text"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_is_reported_with_its_line(self, write, content, message):
        with pytest.raises(ValueError, match=rf"^vectors file '.*glove\.txt', .*{message}"):
            read_vectors(write("glove.txt", content))

    def test_message_in_full(self, write, tmp_path, monkeypatch):
        write("glove.txt", b"the 0.1 0.2\ncat 0.1\n")
        monkeypatch.chdir(tmp_path)
        with pytest.raises(ValueError) as caught:
            read_vectors("glove.txt")
        assert str(caught.value) == (
            "vectors file 'glove.txt', line 2: expected 2 numbers after the word 'cat', found 1"
        )

    @pytest.mark.parametrize("wrong", [b"cat 1\n", b"cat 1 2 3\n", b"cat 1 x\n", b"cat\n"])
    def test_matters_only_where_wanted(self, write, wrong):
        path = write("glove.txt", b"a 1 2\n" + wrong + b"b 1 2\n")
        assert read_vectors(path, vocabulary=["b"]).words == ["b"]
        with pytest.raises(ValueError, match="line 2: expected 2 numbers after the word 'cat'"):
            read_vectors(path, vocabulary=["b", "cat"])

    def test_truncation_is_noticed_whatever_is_wanted(self, write):
        with pytest.raises(ValueError, match="line 2: the header announces 3 words, found 1"):
            read_vectors(write("a.vec", b"3 2\na 1 2\n"), vocabulary=["a"])

    @pytest.mark.parametrize("vocabulary", [None, ["dog"]])
    def test_binary_read_as_text(self, write, vocabulary):
        path = write("a.bin", binary())
        with pytest.raises(ValueError, match=r"a\.bin', line 2: expected 3 numbers"):
            read_vectors(path, format="text", vocabulary=vocabulary)

    def test_zip_archive(self, tmp_path):
        with zipfile.ZipFile(tmp_path / "glove.zip", "w") as archive:
            archive.writestr("glove.txt", text())
        with pytest.raises(ValueError, match=r"glove\.zip', line 1: .*is this text"):
            read_vectors(tmp_path / "glove.zip")


class TestMalformedBinary:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "byte 0: the file is empty"),
            (b"hello world\n", r"byte 0: expected a header 'count dim', found 'hello world\\n'"),
            (b"3 x\n", "byte 0: expected a header"),
            (b"0 3\n", "byte 0: expected a count and a dim above 0, found 0 3"),
            (binary(count=5), "byte 82: the file ends in word 5 of 5, ''"),
            (binary()[:30], "byte 30: the file ends in word 2 of 4, 'cat'"),
            (binary()[:22], "byte 22: the file ends in word 2 of 4, 'c'"),
            (binary(count=3), "byte 57: the header announces 3 words, found more"),
            (b"2 1\n" + b"x" * 5000, "byte 4: expected word 1 of 2 to end in a space, found 'xxx"),
            (b"1 1\ncat " + np.float32("nan").tobytes(), "byte 8: .* for 'cat', found nan"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_is_reported_with_its_byte(self, write, content, message):
        with pytest.raises(ValueError, match=rf"^vectors file '.*a\.bin', {message}"):
            read_vectors(write("a.bin", content))

    def test_truncation_is_noticed_whatever_is_wanted(self, write):
        with pytest.raises(ValueError, match="the file ends in word 4 of 4"):
            read_vectors(write("a.bin", binary()[:-2]), vocabulary=["the"])


class TestMalformedFile:
    @pytest.mark.parametrize("name", ["a.txt", "a.bin", "a.bin.gz", "a.npy"])
    def test_missing(self, tmp_path, name):
        with pytest.raises(ValueError, match=rf"{name}': no such file; check the path"):
            read_vectors(tmp_path / name)

    def test_directory(self, tmp_path):
        with pytest.raises(ValueError, match="no such file"):
            read_vectors(tmp_path)

    @pytest.mark.parametrize(("name", "content"), [("a.txt.gz", text()), ("a.bin.gz", binary())])
    def test_damaged_gzip(self, write, name, content):
        path = write(name, content * 100)
        packed = path.read_bytes()
        for damaged in (
            content,
            packed[:-20],
            packed[:12] + b"\xff" * 20 + packed[32:],
            packed[:-8] + bytes(8),
            b"",
        ):
            path.write_bytes(damaged)
            with pytest.raises(ValueError, match=rf"{name}', byte \d+: .*fetch it again"):
                read_vectors(path, vocabulary=["the"])

    def test_damaged_words_file(self, tmp_path):
        np.save(tmp_path / "v.npy", MATRIX)
        (tmp_path / "v.words.txt.gz").write_bytes(gzip.compress(b"a\nb\nc\nd\n")[:-9])
        with pytest.raises(
            ValueError, match=r"v\.npy', words file '.*gz', byte \d+: cannot be read"
        ):
            read_vectors(tmp_path / "v.npy")

    @settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        junk=st.binary(max_size=80),
        start=st.sampled_from([b"", b"2 2\n", b"\x93NUMPY\x01\x00", b"a 1 2\n"]),
        name=st.sampled_from(["a.txt", "a.bin", "a.npy"]),
        vocabulary=st.sampled_from([None, ["a"]]),
    )
    def test_junk_is_a_value_error_or_vectors(self, tmp_path, junk, start, name, vocabulary):
        (tmp_path / name).write_bytes(start + junk)
        (tmp_path / "a.words.txt").write_bytes(b"a\n")
        with suppress(ValueError):
            assert read_vectors(tmp_path / name, vocabulary=vocabulary).matrix.isfinite().all()


class TestArguments:
    def test_format_overrules_the_ending(self, write):
        assert_holds(read_vectors(write("vectors", binary()), format="word2vec-binary"))
        assert_holds(read_vectors(write("text.bin", text()), format="text"))

    def test_unknown_format(self, write):
        with pytest.raises(ValueError, match=r"format must be one of .*'npy'.*, got 'csv'"):
            read_vectors(write("a.txt", text()), format="csv")

    def test_dim_is_positive(self, write):
        with pytest.raises(ValueError, match="dim must be at least 1, got 0"):
            read_vectors(write("a.txt", text()), dim=0)

    def test_words_without_a_matrix(self, write):
        with pytest.raises(ValueError, match=r"words= goes with an \.npy matrix"):
            read_vectors(write("a.txt", text()), words="words.txt")


@pytest.mark.parametrize("name", ["big.txt", "big.bin"])
def test_a_big_file_needs_little_memory(tmp_path, name):
    dim, count = 300, 25_000 if name == "big.bin" else 10_000
    row = np.linspace(-1, 1, dim, dtype="<f4")
    tail = row.tobytes() if name == "big.bin" else (" ".join(f"{x:+.7f}" for x in row)).encode()
    with (tmp_path / name).open("wb") as file:
        file.write(b"%d %d\n" % (count, dim))
        file.writelines(b"word%d %s\n" % (i, tail) for i in range(count))
    assert (tmp_path / name).stat().st_size > 29e6
    wanted = ["word0", "word5000", f"word{count - 1}"]
    tracemalloc.start()
    try:
        vectors = read_vectors(tmp_path / name, vocabulary=wanted)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert vectors.words == wanted
    torch.testing.assert_close(vectors.matrix, torch.tensor(row).expand(3, dim))
    assert peak < 3e6


class TestVectors:
    def test_size_and_membership(self):
        vectors = Vectors(WORDS, torch.tensor(MATRIX))
        assert (len(vectors), vectors.dim) == (4, 3)
        assert "cat" in vectors
        assert "dog" not in vectors

    @pytest.mark.parametrize("shape", [(3, 3), (4,)])
    def test_has_one_row_a_word(self, shape):
        with pytest.raises(ValueError, match=r"matrix must be \(4, dim\)"):
            Vectors(WORDS, torch.zeros(shape))


class TestAlignedTo:
    def test_rows_follow_the_words(self):
        matrix, found = Vectors(WORDS, torch.tensor(MATRIX)).aligned_to(
            ["cat", "dog", "the", "cat"], scale=2.0
        )
        assert found.tolist() == [True, False, True, True]
        torch.testing.assert_close(matrix[found], 2 * torch.tensor(MATRIX[[1, 0, 1]]))

    def test_missing_words_are_as_spread_as_the_found_in_each_component(self):
        known = [f"known{i}" for i in range(5000)]
        spread = torch.tensor([0.1, 1.0, 5.0])
        random = torch.Generator().manual_seed(0)
        vectors = Vectors(known, torch.randn(5000, 3, generator=random) * spread)
        words = known + [f"missing{i}" for i in range(5000)]
        matrix, found = vectors.aligned_to(words, scale=3.0, generator=random)
        torch.testing.assert_close(matrix[~found].std(dim=0), 3 * spread, rtol=0.05, atol=0)
        torch.testing.assert_close(
            matrix[~found].mean(dim=0) / spread, torch.zeros(3), rtol=0, atol=0.2
        )

    @pytest.mark.parametrize("found_words", [[], ["the"]])
    def test_without_a_spread_to_copy(self, found_words):
        words = found_words + [f"missing{i}" for i in range(5000)]
        random = torch.Generator().manual_seed(0)
        matrix, found = Vectors(["the"], torch.ones(1, 4)).aligned_to(
            words, scale=3.0, generator=random
        )
        assert int(found.sum()) == len(found_words)
        assert matrix[~found].std().item() == pytest.approx(3 / 4**0.5, rel=0.05)

    def test_same_generator_same_noise(self):
        vectors = Vectors(WORDS, torch.tensor(MATRIX))
        first, second = (
            vectors.aligned_to(["cat", "dog"], generator=torch.Generator().manual_seed(7))[0]
            for _ in range(2)
        )
        assert torch.equal(first, second)

    def test_leaves_the_vectors_alone(self):
        vectors = Vectors(WORDS, torch.tensor(MATRIX))
        vectors.aligned_to(["cat"], scale=5.0)[0].zero_()
        assert_holds(vectors)

    def test_no_words(self):
        matrix, found = Vectors(WORDS, torch.tensor(MATRIX)).aligned_to([])
        assert (matrix.shape, found.shape, found.dtype) == ((0, 3), (0,), torch.bool)


def test_real_google_news_vectors():
    path = Path(os.environ.get("WORDWAVE_DATA", "")) / "vectors" / "googlenews300.f16.npy"
    if "WORDWAVE_DATA" not in os.environ or not path.is_file():
        pytest.skip("WORDWAVE_DATA is not set or holds no vectors/googlenews300.f16.npy")
    vectors = read_vectors(path, vocabulary=["good", "great", "table", "no-such-word"], dim=300)
    assert set(vectors.words) == {"good", "great", "table"}
    good, great, table = vectors.aligned_to(["good", "great", "table"])[0]
    assert torch.cosine_similarity(good, great, dim=0) > 0.5
    assert torch.cosine_similarity(good, table, dim=0) < 0.3
