"""Calls of the Python API, as Python, with arguments of the right and of the wrong kind."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable
from inspect import signature
from random import Random

SCALARS = (
    *("None", "-1", "0", "1", "2", "3", "2**31", "2**63", "10**30", "0.5", "-0.5", "1.0", "1e308"),
    *("math.nan", "math.inf", "True", "'x'", "''", "b'x'", "[]", "()", "{}", "[1, 2]"),
    *("(0.1, 0.2)",),
    *("object()", "np.int64(4)", "np.float32(0.5)", "np.zeros((2, 3))", "torch.tensor(4)", "(1,)"),
)
SHAPES = (
    *("()", "(0,)", "(1,)", "(3,)", "(8,)", "(2, 3)", "(2, 0)", "(0, 3)", "(2, 8)", "(2, 3, 4)"),
    *("(2, 3, 8)", "(2, 3, 7)", "(1, 3, 8)", "(3, 3, 8)", "(2, 0, 8)", "(0, 3, 8)", "(2, 3, 0)"),
    *("(2, 1, 3, 8)", "(2, 2, 3, 4)"),
)
DTYPES = (
    *("float32", "float32", "float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8"),
    *("bool", "complex64", "float32", "int64"),
)
WORDS = (
    *("['a b', 'b c', 'a', 'c d e'] * 3", "[]", "['a']", "'a b'", "None", "['', ' ', 'a'] * 4"),
    *("[1, 2] * 6", "np.array(['a', 'b'] * 6)", "np.array([['a'], ['b']] * 6)", "b'ab'"),
    *("['a', None] * 6", "['a', b'b'] * 6", "(t for t in ['a', 'b'] * 6)", "[['a']] * 12"),
    *("['\\x00', '\\ud800'] * 6", "['漢', '🙂'] * 6", "{'a': 1}", "np.array([1.0, math.nan] * 6)"),
)
LABELS = (
    *("[0, 1] * 6", "['x', 'y'] * 6", "[0, 1]", "[]", "None", "[0] * 12", "[0.5, math.nan] * 6"),
    *("['', 'x'] * 6", "[None, 1] * 6", "np.array([[0], [1]] * 6)", "[True, False] * 6"),
    *("'ab' * 6",),
    *("[(1, 2), (3,)] * 6", "np.array(['a', 'b'] * 6)", "[1, 'a'] * 6", "range(12)"),
    *("[2**70, 1] * 6",),
    *("['[/b]', '\\ud800'] * 6", "[b'a', b'b'] * 6", "[math.inf, 1.0] * 6"),
)
KINDS = ("'none'", "'pe'", "'tpe'", "'complex-vanilla'", "'complex-order'")
SHARES = ("None", "'word'", "'dim'", "'none'", "'real'", "'tied'")

FUNCTIONS = (
    *("real", "imag", "conj", "rotate", "magnitude", "to_complex", "from_complex", "split"),
    *("width", "phasor"),
)
NAMES = (
    *("'fasttext'", "'cnn'", "'lstm'", "'transformer'"),
    *("'real'", "'complex'", "'magnitude'", "'rope'"),
)
SIZES = {"in_dim": "4", "out_dim": "3", "dim": "4", "hidden_dim": "3", "vocab_size": "5"}
SIZES |= {"kernel_size": "2", "n_heads": "2", "p": "0.5"}
SIZES |= {
    "attention": "layers.MultiHeadAttention(4, 2, field='complex')",
    "feed_forward": "layers.FeedForward(4, 4, field='complex')",
}
"""What fits; a complex layer of width 4 takes (2, 3, 8)."""


def source(rng: Random) -> str:
    """An expression, or a few."""
    make = rng.choice(
        (*(_embedding, _embedding, _layer, _layer, _function, _vectors, _classifier), _pairs)
    )
    return make(rng)


def _scalar(rng: Random) -> str:
    return rng.choice((*SCALARS, *SCALARS, *NAMES, *SHARES, _tensor(rng)))


def _tensor(rng: Random) -> str:
    shape, dtype = rng.choice(SHAPES), rng.choice(DTYPES)
    made = f"torch.{rng.choice(('zeros', 'ones'))}({shape}, dtype=torch.{dtype})"
    way = rng.random()
    if way < 0.04:
        return f"{made}.to('meta')"
    if way < 0.06:
        return f"{made}.to_sparse()"
    if way < 0.08:
        return f"{made}.numpy()" if dtype != "bfloat16" else made
    if way < 0.1:
        return f"{made}.tolist()"
    if way < 0.14 and dtype.startswith("float"):
        return f"{made} * math.nan"
    if way < 0.16:
        return f"{made}.requires_grad_()" if dtype.startswith("float") else made
    if way < 0.3 and dtype.startswith("int"):
        return f"{made} * {rng.choice(('-1', '5', '2**31 - 1', '2**40'))}"
    return made


def _ids(rng: Random) -> str:
    good = "torch.tensor([[1, 2, 3], [4, 0, 0]])"
    return good if rng.random() < 0.4 else _tensor(rng)


def _arguments(rng: Random, function: Callable[..., object], but: tuple[str, ...] = ()) -> str:
    """Sizes that mostly fit, and up to two options."""
    parameters = [p for p in signature(function).parameters.values() if p.name not in but]
    sizes = [p.name for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    options = [p.name for p in parameters if p.default is not p.empty]
    if any("WeightOptions" in str(p.annotation) for p in parameters):
        options += ["field", "share", "device", "dtype"]
    given = [_scalar(rng) if rng.random() < 0.15 else SIZES.get(n, "4") for n in sizes]
    chosen = rng.sample(options, rng.randrange(min(2, len(options)) + 1))
    return ", ".join([*given, *(f"{name}={_scalar(rng)}" for name in chosen)])


def _embedding(rng: Random) -> str:
    from wordwave import EMBEDDINGS, WaveEmbedding

    if rng.random() < 0.5:
        made = f"WaveEmbedding({_arguments(rng, WaveEmbedding)})"
    else:
        kind = rng.choice([*EMBEDDINGS])
        name = repr(kind) if rng.random() < 0.9 else _scalar(rng)
        made = f"build_embedding({name}, {_arguments(rng, EMBEDDINGS[kind])})"
    positions = "" if rng.random() < 0.6 else f", positions={_scalar(rng)}"
    if rng.random() < 0.15:
        waves = f"WaveEmbedding({_arguments(rng, WaveEmbedding)})"
        return f"{waves}.shift({_ids(rng)}, {_tensor(rng)}, {_scalar(rng)})"
    return f"{made}({_ids(rng)}{positions})"


def _layer(rng: Random) -> str:
    from wordwave import layers

    kinds = {n: v for n in layers.__all__ if hasattr(v := getattr(layers, n), "forward")}
    name = rng.choice([*kinds])
    made = f"layers.{name}({_arguments(rng, kinds[name])})"
    given = "torch.zeros((2, 3, 8))" if rng.random() < 0.4 else _tensor(rng)
    more = _arguments(rng, kinds[name].forward, but=("self", "x"))
    return f"{made}({given}{', ' if more else ''}{more})"


def _function(rng: Random) -> str:
    return f"complex.{rng.choice(FUNCTIONS)}({_tensor(rng)})"


def _vectors(rng: Random) -> str:
    from wordwave import read_vectors

    if rng.random() < 0.1:
        return f"Vectors({rng.choice(WORDS)}, {_tensor(rng)})"
    path = rng.choice(("'vectors.txt'", "'vectors.bin'", "'vectors.npy'", "'nowhere'", "'.'", "''"))
    if rng.random() < 0.1:
        path = _scalar(rng)
    made = f"read_vectors({path}, {_arguments(rng, read_vectors, but=('path',))})"
    if rng.random() < 0.3:
        made += f".aligned_to({rng.choice(WORDS)}, scale={_scalar(rng)})"
    return made


def _classifier(rng: Random) -> str:
    from wordwave import WaveClassifier

    texts, labels = (
        rng.choice(choice) if rng.random() < 0.35 else choice[0] for choice in (WORDS, LABELS)
    )
    given = {"dim": "4", "hidden_dim": "4", "epochs": "1", "precision": "'fp32'"}
    settings = [name for name in signature(WaveClassifier).parameters if name != "epochs"]
    given |= {name: _scalar(rng) for name in rng.sample(settings, rng.randrange(3))}
    told = ", ".join(f"{name}={value}" for name, value in given.items())
    method = rng.choice(("predict", "predict_proba", "decision_function"))
    other = rng.choice(WORDS) if rng.random() < 0.4 else "['a b']"
    return f"WaveClassifier({told}).fit({texts}, {labels}).{method}({other})"


PAIRS = (
    *("[('a b', 'b a'), ('a', 'a'), ('c d', 'd'), ('e', 'e f')] * 3", "[('a', 'b')]", "[]"),
    *("None", "'ab'", "['ab', 'cd'] * 6", "[('a', 'b', 'c')] * 12", "[('a', None)] * 12"),
    *(
        "np.array([['a', 'b'], ['c', 'd']] * 6)",
        "np.zeros((12, 2))",
        "{'a': ['b']}",
        "[(1, 2)] * 12",
    ),
    *("[('', ' ')] * 12", "[['a', 'b']] * 12", "[('\\ud800', '漢')] * 12", "range(12)"),
)


def _pairs(rng: Random) -> str:
    from wordwave import PairClassifier

    if rng.random() < 0.4:
        made = "SentenceEncoder.from_pretrained()"
        if rng.random() < 0.3:
            return f"setattr({made}, 'order_weight', {_scalar(rng)})"
        given, other = (rng.choice((*WORDS, *SCALARS, _tensor(rng))) for _ in range(2))
        return f"{made}." + rng.choice((f"encode({given})", f"similarity({given}, {other})"))
    pairs, labels = (
        rng.choice(choice) if rng.random() < 0.35 else choice[0] for choice in (PAIRS, LABELS)
    )
    given = {"dim": "4", "hidden_dim": "4", "epochs": "1", "precision": "'fp32'"}
    settings = [name for name in signature(PairClassifier).parameters if name != "epochs"]
    given |= {name: _scalar(rng) for name in rng.sample(settings, rng.randrange(3))}
    told = ", ".join(f"{name}={value}" for name, value in given.items())
    method = rng.choice(("predict", "predict_proba", "decision_function"))
    other = rng.choice(PAIRS) if rng.random() < 0.4 else "[('a b', 'b')]"
    return f"PairClassifier({told}).fit({pairs}, {labels}).{method}({other})"


ANSWERED_BY_TORCH = re.compile(
    "can't allocate memory|out of memory|Storage size calculation|Overflow when|overflow"
    "|accelerator device|Expected one of cpu|Device string|Device index"
    "|sparse tensors|Sparse|device meta|mat1 and mat2 must have the same dtype"
)
"""What torch.nn's own layers answer as well: too large, no such device, another dtype or layout."""


def evaluate(expression: str) -> None:
    """Evaluate it; a mistake that is answered well ends as one on the command line does."""
    import math

    import numpy as np
    import torch

    import wordwave

    names = {name: getattr(wordwave, name) for name in (*wordwave.__all__, "complex")}
    try:
        eval(expression, {"math": math, "np": np, "torch": torch, **names})
    except (ValueError, TypeError, OSError, MemoryError, OverflowError) as mistake:
        where = traceback.extract_tb(mistake.__traceback__)[-1]
        told = " ".join(str(mistake).split())[:300]
        print(f"wordwave: {type(mistake).__name__}: {told} @ {where.lineno}", file=sys.stderr)
        sys.exit(2)
    except RuntimeError as problem:
        if not ANSWERED_BY_TORCH.search(str(problem)):
            raise
        print(f"wordwave: {' '.join(str(problem).split())[:300]}", file=sys.stderr)
        sys.exit(2)
