"""Encoding: the remembered chunks give what tokenizer and vocabulary give, and cuts are counted."""

import copy
import pickle
import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from wordwave.compiled import SWITCH
from wordwave.text import encoder as encode
from wordwave.text.encoder import TextEncoder
from wordwave.text.tokenizers import KimTokenizer, PlainTokenizer, train_bpe
from wordwave.text.vocabulary import Vocabulary

TEXTS = ["What's the full form of .com ?", "it's a film , isn't it ?", "日本 café 👍"]
LETTERS = "abIT's.,?! \t\n\x00\x1c\u2028é字👍न\u093f"
texts = st.text(alphabet=LETTERS, max_size=60) | st.text(max_size=20) | st.sampled_from(TEXTS)
batches = st.lists(texts, max_size=8)


def encoder(tokenizer, max_length=100):
    extra = getattr(tokenizer, "words", ())
    vocabulary = Vocabulary.build(map(tokenizer, TEXTS), extra_words=extra)
    return TextEncoder(tokenizer, vocabulary, max_length=max_length)


def slowly(enc, text):
    return enc.vocabulary.ids(enc.tokenizer(text))


def rows_of(sentences):
    return [row.tolist() for row in sentences.ids.split(sentences.lengths.tolist())]


EVERY = {"plain": PlainTokenizer(), "kim": KimTokenizer(), "bpe": train_bpe(TEXTS * 2, 280)}
every_tokeniser = pytest.mark.parametrize("tokenizer", EVERY.values(), ids=EVERY)


@every_tokeniser
@given(batch=batches, max_length=st.integers(1, 12))
def test_the_fast_way_equals_the_obvious_one(tokenizer, batch, max_length):
    enc = encoder(tokenizer, max_length)
    for _ in range(2):  # the second time everything is remembered
        sentences, n_cut = enc.encode(batch)
        obvious = [slowly(enc, text) for text in batch]
        assert rows_of(sentences) == [row[:max_length] or [1] for row in obvious]
        assert n_cut == sum(len(row) > max_length for row in obvious)


ascii_texts = st.text(st.characters(max_codepoint=127), max_size=40)


@given(batch=st.lists(texts | ascii_texts, max_size=8), max_length=st.integers(1, 12))
def test_kernel_and_python_give_the_same_ids_of_unknown_words_too(batch, max_length):
    enc = encoder(PlainTokenizer(), max_length)
    enc.hashed, enc._chunks = True, encode._ChunkCache(enc.tokenizer, enc.vocabulary, True)
    fast = enc.encode(batch)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(SWITCH, "1")
        slow = enc.encode(batch)
    assert fast.n_truncated == slow.n_truncated
    assert rows_of(fast.sentences) == rows_of(slow.sentences)


@every_tokeniser
@given(batch=batches)
def test_a_batch_equals_one_by_one(tokenizer, batch):
    enc = encoder(tokenizer, 5)
    alone = [enc.encode([text]) for text in batch]
    together = encoder(tokenizer, 5).encode(batch)
    assert rows_of(together.sentences) == [row for e in alone for row in rows_of(e.sentences)]
    assert together.n_truncated == sum(e.n_truncated for e in alone)


@pytest.mark.parametrize(
    ("kind", "piece"),
    [(kind, piece) for kind in EVERY for piece in ("a", "film, isn't it? ")]
    + [(kind, piece) for kind in ("plain", "kim") for piece in ("a ", ". ", "  ", "👍", "\x00")],
)
def test_a_million_characters(kind, piece):
    enc = encoder(EVERY[kind], 50)
    text = (piece * 1_000_000)[:1_000_000]
    start = time.process_time()
    sentences, n_cut = enc.encode([text])
    assert time.process_time() - start < 20  # quadratic time would be hours
    obvious = slowly(enc, text)
    assert rows_of(sentences) == [obvious[:50] or [1]] and n_cut == (len(obvious) > 50)


def test_a_long_text_is_not_read_to_its_end():
    read = []

    class Listening(PlainTokenizer):
        def __call__(self, text):
            read.append(text)
            return super().__call__(text)

    enc = TextEncoder(Listening(), Vocabulary.build([]), max_length=10)
    assert enc.encode([" ".join(map(str, range(100_000)))]).n_truncated == 1
    assert len(read) < 200


def test_a_text_without_words_is_one_unknown_word():
    sentences, n_cut = encoder(KimTokenizer()).encode(["", "   ", "...", "日本"])
    assert rows_of(sentences) == [[1]] * 4 and n_cut == 0


def test_bpe_leaves_nothing_unknown():
    enc = encoder(train_bpe(TEXTS, 256))
    for text in ["never seen: Ω≈ç√", "\x00\x01", "👩‍👩‍👧 नमस्ते"]:
        (row,) = rows_of(enc.encode([text]).sentences)
        assert 1 not in row
        assert enc.tokenizer.decode([enc.vocabulary.words[i] for i in row]) == text


def test_memory_of_chunks_is_bounded(monkeypatch):
    monkeypatch.setattr(encode, "MAX_CACHED", 10)
    enc = encoder(PlainTokenizer())
    batch = [" ".join(f"w{i}" for i in range(35)), "x" * 1000, *TEXTS]
    assert rows_of(enc.encode(batch).sentences) == [slowly(enc, text) for text in batch]
    assert len(enc._chunks) <= 10 and max(map(len, enc._chunks)) < 100


def test_an_encoder_can_be_copied_and_sent():
    enc = encoder(PlainTokenizer())
    expected = enc.encode(TEXTS).sentences
    for again in (copy.deepcopy(enc), pickle.loads(pickle.dumps(enc))):
        got = again.encode([*TEXTS, "new chunks"]).sentences
        assert torch.equal(got.ids[: len(expected.ids)], expected.ids) and len(got) == 4


def test_no_texts():
    sentences, n_cut = encoder(PlainTokenizer()).encode([])
    assert len(sentences) == 0 and n_cut == 0


def test_mistakes_are_named():
    enc = encoder(PlainTokenizer())
    with pytest.raises(ValueError, match="list of texts, got the text 'a text'"):
        enc.encode("a text")
    for wrong in (None, 3.5, b"bytes", ["a", "list"]):
        with pytest.raises(ValueError, match=r"texts must be strings, got .* at 1"):
            enc.encode(["fine", wrong])
    with pytest.raises(ValueError, match="max_length must be at least 1, got 0"):
        TextEncoder(PlainTokenizer(), Vocabulary.build([]), max_length=0)
