"""A mistake is answered by a `WordwaveError` that names the argument, the rule and the value."""

import builtins
import math
import re
import signal
import threading

import pytest
import torch

import wordwave
from wordwave import WaveEmbedding, WordwaveError, build_embedding
from wordwave import complex as cx
from wordwave.cli import run_guarded
from wordwave.layers import (
    LSTM,
    RNN,
    BatchNorm,
    Conv1d,
    Dropout,
    FeedForward,
    LayerNorm,
    Linear,
    MultiHeadAttention,
)

KINDS = ("none", "pe", "tpe", "complex-vanilla", "complex-order")
IDS = torch.tensor([[1, 2, 3], [4, 0, 0]])
ids = lambda *values: torch.tensor([values])  # noqa: E731
x = torch.zeros
attention = MultiHeadAttention(4, 2)
wave = WaveEmbedding(5, 4)
lstm, rnn = LSTM(4, 3), RNN(4, 3)


def mistakes(*cases):
    """Each case: what is done wrongly, and the words its message must have, in this order."""
    names = [" ".join(words)[:60] for _, *words in cases]
    params = [(action, words) for action, *words in cases]
    return pytest.mark.parametrize(("action", "words"), params, ids=names)


def check(action, words):
    with pytest.raises(WordwaveError, match=".*".join(re.escape(word) for word in words)):
        action()


@pytest.mark.parametrize("kind", KINDS)
@mistakes(
    (lambda emb: emb(ids(1, -2, 3)), "ids", "[0, 5)", "got -2 at index (0, 1)"),
    (lambda emb: emb(ids(1, 2, 5)), "ids", "[0, 5)", "got 5 at index (0, 2)"),
    (lambda emb: emb(ids(1, 2).float()), "ids", "int64 or int32", "got torch.float32"),
    (lambda emb: emb(ids(1, 2) > 1), "ids", "int64 or int32", "got torch.bool"),
    (lambda emb: emb(torch.tensor(3)), "ids", "at least one dimension", "got a scalar"),
    (
        lambda emb: emb(IDS, positions=torch.arange(4)),
        "positions must broadcast to the shape of ids (2, 3)",
        "got shape (4,)",
    ),
    (lambda emb: emb(IDS, positions=x(1, 2, 3)), "positions", "(2, 3)", "got shape (1, 2, 3)"),
    (lambda emb: emb(IDS, positions=x(3, 1)), "positions", "(2, 3)", "got shape (3, 1)"),
    (lambda emb: emb(IDS, positions=torch.ones(3) > 0), "positions", "numbers", "torch.bool"),
    (lambda emb: emb(IDS, positions=x(3) * 1j), "positions", "real numbers", "torch.complex64"),
)
def test_every_embedding_refuses(kind, action, words):
    emb = build_embedding(kind, 5, 4)
    check(lambda: action(emb), words)


@pytest.mark.parametrize("kind", KINDS)
@mistakes(
    (lambda build: build(0, 4), "vocab_size must be at least 1", "got 0"),
    (lambda build: build(5, 0), "dim must be at least 1", "got 0"),
    (lambda build: build(5, -2), "dim must be at least 1", "got -2"),
    (lambda build: build(5, 4, padding_idx=5), "padding_idx", "[0, 5)", "got 5"),
    (lambda build: build(5, 4, padding_idx=-1), "padding_idx", "[0, 5)", "got -1"),
    (lambda build: build(5, 4, vectors=x(5, 3)), "vectors", "(5, 4)", "got (5, 3)"),
    (lambda build: build(5, 4, vectors=x(4, 4)), "vectors", "(5, 4)", "got (4, 4)"),
)
def test_no_embedding_is_built_with(kind, action, words):
    check(lambda: action(lambda *sizes, **o: build_embedding(kind, *sizes, **o)), words)


@mistakes(
    (
        lambda: build_embedding("tep", 5, 4),
        "kind",
        "complex-order",
        "got 'tep'; did you mean 'tpe'?",
    ),
    (lambda: build_embedding("complex", 5, 4), "got 'complex'; did you mean 'complex-"),
    (lambda: build_embedding("zzz", 5, 4), "kind must be one of none, pe, tpe", "got 'zzz'"),
    (lambda: build_embedding("tpe", 5, 3), "dim must be even", "got 3"),
    (lambda: build_embedding("pe", 5, 4, max_length=2)(IDS), "[0, max_length=2]", "got 3"),
    (lambda: build_embedding("pe", 5, 4)(IDS, positions=-1), "positions", "got -1"),
    (lambda: build_embedding("pe", 5, 4)(IDS, positions=1.5), "positions", "integers", "float"),
    (lambda: build_embedding("pe", 5, 4, max_length=0), "max_length", "got 0"),
    (lambda: build_embedding("pe", 5, 4, max_length=-3), "max_length", "got -3"),
    (lambda: WaveEmbedding(5, 4, share_frequency="words"), "share_frequency", "got 'words'"),
    (lambda: WaveEmbedding(5, 4, share_amplitude="dims"), "share_amplitude", "got 'dims'"),
    (lambda: WaveEmbedding(5, 4, share_phase=True), "share_phase", "'word', 'dim'", "got True"),
    (
        lambda: WaveEmbedding(5, 4, share_amplitude="word", vectors=x(5, 4)),
        "vectors",
        "(1, 4)",
        "got (5, 4)",
    ),
    (lambda: WaveEmbedding(5, 4, frequency_init="sin"), "frequency_init", "'sinusoidal'", "'sin'"),
    (lambda: WaveEmbedding(5, 4, frequency_init=x(3)), "frequency_init", "(5, 4)", "got (3,)"),
    (lambda: wave.shift(IDS, x(2, 3, 4), 1), "z must", "8", "(2, 3, 8)", "got (2, 3, 4)"),
    (lambda: wave.shift(ids(9), x(1, 1, 8), 1), "ids", "got 9"),
    (lambda: wave.shift(IDS, x(2, 3, 8), torch.arange(4)), "n must broadcast", "got shape (4,)"),
)
def test_embeddings_refuse(action, words):
    check(action, words)


@pytest.mark.parametrize("init", ["uniform", "log-uniform", "log-spaced"])
@pytest.mark.parametrize(
    "limits", [(1.0, 0.5), (0.5, 0.5), (math.nan, 1.0), (0.1, math.inf), (0.1, 0.2, 0.3), (0.1,)]
)
def test_a_range_of_frequencies_is_low_then_high(init, limits):
    with pytest.raises(ValueError, match=r"frequency_range.*low < high.*got") as error:
        WaveEmbedding(5, 4, frequency_init=init, frequency_range=limits)
    assert str(limits) in str(error.value)


@pytest.mark.parametrize("init", ["log-uniform", "log-spaced"])
def test_a_logarithmic_range_of_frequencies_is_positive(init):
    with pytest.raises(ValueError, match=r"frequency_range must have 0 < low.*got \(-1, 1\)"):
        WaveEmbedding(5, 4, frequency_init=init, frequency_range=(-1, 1))


@pytest.mark.parametrize("init", ["sinusoidal", torch.ones(4)], ids=["sinusoidal", "tensor"])
def test_a_range_goes_only_with_a_start_that_uses_it(init):
    with pytest.raises(ValueError, match="frequency_range does not go with frequency_init"):
        WaveEmbedding(5, 4, frequency_init=init, frequency_range=(0.1, 1.0))


@mistakes(
    (lambda: Linear(4, 3)(x(2, 7)), "x must have a last dimension of 8", "got shape (2, 7)"),
    (lambda: Linear(4, 3)(x(())), "x must have a last dimension of 8", "got shape ()"),
    (lambda: Linear(4, 3, field="real")(x(2, 8)), "last dimension of 4", "got shape (2, 8)"),
    (lambda: FeedForward(4, 3)(x(2, 4)), "last dimension of 8", "got shape (2, 4)"),
    (lambda: Conv1d(4, 3, 2)(x(2, 5, 4)), "last dimension of 8", "got shape (2, 5, 4)"),
    (lambda: Conv1d(4, 3, 2)(x(5, 8)), "(B, L, width)", "got shape (5, 8)"),
    (lambda: Conv1d(4, 3, 6)(x(2, 5, 8)), "kernel_size=6", "got shape (2, 5, 8) and padding=0"),
    (lambda: LayerNorm(4)(x(2, 5, 7)), "last dimension of 8", "got shape (2, 5, 7)"),
    (lambda: BatchNorm(4)(x(2, 5, 7)), "last dimension of 8", "got shape (2, 5, 7)"),
    (lambda: BatchNorm(4)(x(2, 5, 8), x(2, 4)), "mask", "(2, 5)", "got (2, 4)"),
    (lambda: BatchNorm(4).eval()(x(2, 5, 8), x(2, 4)), "mask", "(2, 5)", "got (2, 4)"),
    (lambda: Dropout(0.5)(x(2, 5, 7)), "even last dimension", "got shape (2, 5, 7)"),
    (lambda: lstm(x(2, 5, 6)), "last dimension of 8", "got shape (2, 5, 6)"),
    (lambda: rnn(x(5, 8)), "x must be (B, L, width)", "got shape (5, 8)"),
    (lambda: lstm(x(2, 5, 8), torch.tensor([5, 6])), "lengths", "[0, L=5]", "got 6"),
    (lambda: rnn(x(2, 5, 8), torch.tensor([5, -1])), "lengths", "[0, L=5]", "got -1"),
    (lambda: rnn(x(2, 5, 8), torch.tensor([5])), "lengths must be 2 integers", "got shape (1,)"),
    (lambda: rnn(x(2, 5, 8), x(2)), "lengths must be 2 integers", "torch.float32"),
    (lambda: rnn(x(2, 5, 8), x(2) > 0), "lengths must be 2 integers", "torch.bool"),
    (lambda: lstm(x(2, 5, 8), None, (x(1, 2, 6),)), "state", "2 tensor(s)", "(1, 2, 6)", "got"),
    (lambda: rnn(x(2, 5, 8), None, (x(1, 3, 6),)), "state", "(1, 2, 6)", "got [(1, 3, 6)]"),
    (lambda: attention(x(2, 5, 7)), "x must", "last dimension of 8", "got shape (2, 5, 7)"),
    (lambda: attention(x(2, 5, 7), x(2, 5, 8)), "x must", "last dimension of 8", "(2, 5, 7)"),
    (lambda: attention(x(5, 8)), "must be (B, L, width)", "got shape (5, 8)"),
    (lambda: attention(x(2, 5, 8), x(3, 5, 8)), "same batch size", "got 2 and 3"),
    (lambda: attention(x(2, 5, 8), mask=x(2, 5)), "mask must be bool", "got torch.float32"),
    (lambda: attention(x(2, 5, 8), mask=x(2, 4) > 0), "mask", "(2, 5)", "got", "(2, 4)"),
    (lambda: cx.real(x(2, 5)), "even last dimension", "got shape (2, 5)"),
)
def test_layers_refuse(action, words):
    check(action, words)


@mistakes(
    (lambda: Linear(0, 3), "in_dim must be at least 1, got 0"),
    (lambda: Linear(3, -1), "out_dim must be at least 1, got -1"),
    (lambda: Linear(3, 3, field="reals"), "field must be 'real' or 'complex', got 'reals'"),
    (lambda: Linear(3, 3, share="both"), "share must be 'none', 'real' or 'tied', got 'both'"),
    (lambda: Linear(3, 3, field="real", share="tied"), "share='tied'", "field is real"),
    (lambda: FeedForward(3, 0), "hidden_dim must be at least 1, got 0"),
    (lambda: FeedForward(0, 3), "dim must be at least 1, got 0"),
    (lambda: FeedForward(3, 4, dropout=1.0), "dropout", "[0, 1)", "got 1.0"),
    (lambda: Conv1d(3, 3, 0), "kernel_size must be at least 1, got 0"),
    (lambda: Conv1d(0, 3, 2), "in_dim must be at least 1, got 0"),
    (lambda: Conv1d(3, 3, 2, padding=-1), "padding", "got -1"),
    (lambda: LSTM(3, 0), "hidden_dim must be at least 1, got 0"),
    (lambda: RNN(3, 2, n_layers=0), "n_layers must be at least 1, got 0"),
    (lambda: RNN(3, 2, field="r"), "field must be", "got 'r'"),
    (lambda: LSTM(3, 2, dropout=-0.1), "dropout", "[0, 1)", "got -0.1"),
    (lambda: MultiHeadAttention(6, 4), "dim must be a multiple of n_heads", "dim=6, n_heads=4"),
    (lambda: MultiHeadAttention(6, 0), "n_heads must be at least 1, got 0"),
    (lambda: MultiHeadAttention(0, 2), "dim must be at least 1, got 0"),
    (lambda: MultiHeadAttention(4, 2, score="norm"), "score must be", "got 'norm'"),
    (lambda: MultiHeadAttention(4, 2, field="C"), "field must be", "got 'C'"),
    (lambda: MultiHeadAttention(4, 2, dropout=1.5), "dropout", "[0, 1)", "got 1.5"),
    (lambda: LayerNorm(0), "dim must be at least 1, got 0"),
    (lambda: BatchNorm(0), "dim must be at least 1, got 0"),
    (lambda: Dropout(1.0), "p must be in [0, 1), got 1.0"),
    (lambda: Dropout(math.nan), "p must be in [0, 1), got nan"),
    (lambda: Dropout(0.1, field="x"), "field must be", "got 'x'"),
)
def test_no_layer_is_built_with(action, words):
    check(action, words)


def test_an_id_is_named_where_it_first_stands():
    with pytest.raises(ValueError, match=r"got 7 at index \(1, 0\)"):
        wave(torch.tensor([[1, 2], [7, 7]]))


def test_an_unknown_public_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'WaveEmbeding'"):
        _ = wordwave.WaveEmbeding


def test_every_public_name_is_there_and_none_shadows_a_builtin():
    assert all(getattr(wordwave, name) is not None for name in wordwave.__all__)
    assert not set(wordwave.__all__) & set(dir(builtins)) and wordwave.complex is cx
    offered = {"WaveClassifier", "TextClassifier", "Translator", "LanguageModel", "RowAdam"}
    assert offered | {"RoPE", "ALiBi", "read_vectors", "layers"} <= set(wordwave.__all__)


def test_a_public_name_without_its_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(wordwave._MODULES, "Translator", "sacremoses.nowhere")
    said = r"Translator: .*pip install 'wordwave\[translate\]'"
    with pytest.raises(ModuleNotFoundError, match=said):
        _ = wordwave.Translator


@pytest.fixture
def guarded(monkeypatch, capsys):
    """The exit code and the line of a command that ends in an exception."""
    monkeypatch.delenv("WORDWAVE_TRACEBACK", raising=False)
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    before = signal.getsignal(signal.SIGTERM)

    def end(problem):
        def command(_):
            raise problem

        with pytest.raises(SystemExit) as ended:
            run_guarded(command, "wordwave")
        return ended.value.code, capsys.readouterr().err

    yield end
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (WordwaveError("dim must be\n  at least 1, got 0"), "dim must be at least 1, got 0"),
        (FileNotFoundError("file 'a.csv' does not exist"), "file 'a.csv' does not exist"),
        (MemoryError(), "not enough memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "not enough memory"),
        (ModuleNotFoundError("", name="optuna"), "install 'wordwave[search]'"),
        (ModuleNotFoundError("", name="sklearn.base"), "'scikit-learn' is not installed: pip"),
        (ModuleNotFoundError("bpe: pip install 'wordwave[x]'", name="x"), "bpe: pip install"),
    ],
)
def test_mistakes_the_system_and_missing_extras_are_one_line(guarded, monkeypatch, problem, said):
    code, told = guarded(problem)
    assert code == 2 and told.startswith("wordwave: ") and said in told and told.count("\n") == 1
    monkeypatch.setenv("WORDWAVE_TRACEBACK", "1")
    with pytest.raises(type(problem)):
        guarded(problem)


@pytest.mark.parametrize(
    "bug",
    [
        ValueError("of some library"),
        TypeError("unsupported operand"),
        RuntimeError("shapes do not match"),
        KeyError("dim"),
        ModuleNotFoundError("No module named 'wordwave.nowhere'", name="wordwave.nowhere"),
    ],
    ids=repr,
)
def test_a_bug_keeps_its_traceback(guarded, bug):
    with pytest.raises(type(bug)):
        guarded(bug)
