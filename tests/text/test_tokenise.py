"""Tokenisers: their rules, and the law that chunks can be cut one by one."""

import pickle
import re
import sys
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordwave.text.tokenizers import (
    TOKENIZERS,
    BPETokenizer,
    KimTokenizer,
    PlainTokenizer,
    build_tokenizer,
    train_bpe,
)

TEXTS = ["the cat sat on the mat", "the dog sat on the cat", "Café ☕, naïve!"] * 3
BPE = train_bpe(TEXTS, 300)
ALL = [PlainTokenizer(), KimTokenizer(), BPE]

LETTERS = (
    "abEnst've’`.,!?() \t\n\x00\x1c\u0085\u00a0\u2000éİΣσ字カ\u0301\u0323\u200d\ufe0f👍🏽हिمकि가"
)
texts = st.text(alphabet=LETTERS, max_size=40) | st.text(max_size=20)
pieces = st.sampled_from(
    [
        "don't",
        "it's",
        "we've",
        "they're",
        "he'd",
        "I'll",
        "'",
        "n't",
        "a",
        "A",
        ",",
        "(b)",
        " ",
        "é",
    ]
)
english = st.lists(pieces, max_size=12).map("".join)


@pytest.mark.parametrize("tokenizer", ALL, ids=TOKENIZERS)
@given(text=texts)
def test_a_text_has_the_tokens_of_its_chunks(tokenizer, text):
    chunks = text.split(tokenizer.separator)
    assert tokenizer(text) == [token for chunk in chunks for token in tokenizer(chunk)]


@pytest.mark.parametrize("tokenizer", ALL, ids=TOKENIZERS)
def test_tokenisers_travel_to_other_processes(tokenizer):
    again = pickle.loads(pickle.dumps(tokenizer))
    assert again.kind == tokenizer.kind and again(TEXTS[2]) == tokenizer(TEXTS[2])


@pytest.mark.parametrize("tokenizer", ALL[:2], ids=TOKENIZERS[:2])
@pytest.mark.parametrize("piece", ["a", "!", "字", "a\u0301", "\u0301\u0323", "n't ", "\x00", "Σ:"])
def test_a_million_characters_take_linear_time(tokenizer, piece):
    text = (piece * 1_000_000)[:1_000_000]
    start = time.process_time()
    tokenizer(text)
    assert time.process_time() - start < 20  # quadratic time would be hours


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", []),
        (" \t\n\u00a0", []),
        ("What's THIS?!", ["what", "'", "s", "this", "?", "!"]),
        ("a\x00b", ["a", "\x00", "b"]),
        ("so good👍🏽❤️!", ["so", "good", "👍", "🏽", "❤️", "!"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("می‌خواهم", ["می‌خواهم"]),
        ("私はTokyoが", ["私", "は", "tokyo", "が"]),
        ("ΟΔΟΣ Ünï-cödé", ["οδος", "ünï", "-", "cödé"]),
        ("cafe\u0301 CAFÉ", ["café", "café"]),
        ("한국어 \u1112\u1161\u11ab", ["한국어", "한"]),
    ],
)
def test_plain_words_and_marks(text, tokens):
    assert PlainTokenizer()(text) == tokens


@given(text=texts)
def test_plain_drops_white_space_only(text):
    kept = "".join(PlainTokenizer()(text))
    normal = [unicodedata.normalize("NFC", t) for t in (kept, "".join(text.lower().split()))]
    assert normal[0] == normal[1]


def test_plain_knows_every_combining_mark():
    marks = [chr(c) for c in range(sys.maxunicode + 1) if unicodedata.category(chr(c))[0] == "M"]
    assert all(len(PlainTokenizer()(f"a{mark}b")) == 1 for mark in marks)


def kim_step_by_step(text):
    """The cleaning as it is told: one replacement after the other."""
    text = "".join(c if re.fullmatch("[A-Za-z0-9(),!?'`]", c) else " " for c in text)
    for ending in ("'s", "'ve", "n't", "'re", "'d", "'ll"):
        text = text.replace(ending, f" {ending}")
    for mark in ",!()?":
        text = text.replace(mark, f" {mark} ")
    return text.lower().split()


@given(text=english | texts)
def test_kim_in_one_pass_is_kim_step_by_step(text):
    assert KimTokenizer()(text) == kim_step_by_step(text)


def test_kim_on_a_sentence():
    text = "It's the (rare) film you didn't know you'd love -- [really], isn`t it?"
    expected = "it 's the ( rare ) film you did n't know you 'd love really , isn`t it ?"
    assert KimTokenizer()(text) == expected.split()


@given(text=texts)
def test_bpe_decodes_to_the_text_and_knows_every_token(text):
    tokens = BPE(text)
    assert BPE.decode(tokens) == text
    assert set(tokens) <= set(BPE.words)


def test_bpe_learns_frequent_words_and_says_the_same_twice():
    assert BPE("cat the cat") == ["Ġcat", "Ġthe", "Ġcat"]
    assert train_bpe(TEXTS, 300).words == BPE.words
    assert len(train_bpe(["no pair twice"], 256).words) == 256


def test_bpe_reads_half_a_surrogate_pair_as_a_question_mark():
    assert BPE("a\ud800") == BPE("a?")


def test_bpe_is_saved_and_loaded(tmp_path):
    file = tmp_path / "tokenizer.json"
    BPE.save(file)
    again = build_tokenizer("bpe", file=file)
    assert isinstance(again, BPETokenizer) and again.words == BPE.words
    assert again(TEXTS[2]) == BPE(TEXTS[2])


@pytest.mark.parametrize(
    "content", ["", "{}", '{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}', None]
)
def test_a_file_that_is_no_tokeniser_is_refused(tmp_path, content):
    file = tmp_path / "tokenizer.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ValueError, match=r"tokenizer file '.*tokenizer\.json'"):
        BPETokenizer.load(file)


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="got 'plane'; did you mean 'plain'"):
        build_tokenizer("plane")
    with pytest.raises(ValueError, match="needs the file"):
        build_tokenizer("bpe")
    with pytest.raises(ValueError, match="goes with kind 'bpe'"):
        build_tokenizer("kim", file="tokenizer.json")
    with pytest.raises(ValueError, match=r"vocab_size must be at least 256.*got 100"):
        train_bpe(TEXTS, 100)


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'wordwave\[train\]'"):
        train_bpe(TEXTS, 300)
    assert build_tokenizer("plain")("No need") == ["no", "need"]
