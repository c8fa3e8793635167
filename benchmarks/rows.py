"""The rows of the table and their targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn

from benchmarks import epochs, language_model, peers, translation
from benchmarks.measure import Contender, Precision, forward_backward, training_step
from benchmarks.record import FASTEST, Bar
from wordwave import WaveEmbedding
from wordwave import complex as cx
from wordwave.layers import LSTM, Conv1d, Linear, MultiHeadAttention, Score
from wordwave.training.optim import RowAdam

N_HEADS, KERNEL_SIZE = 8, 3


@dataclass(frozen=True)
class Sizes:
    """Batch, length, complex width and vocabulary."""

    B: int = 64
    L: int = 64
    D: int = 256
    V: int = 20_000

    def ids(self, law: str = "uniform") -> Tensor:
        """Words without padding, uniform (the harder case) or by Zipf's law, as in text."""
        weights = torch.ones(self.V) if law == "uniform" else 1 / torch.arange(self.V).float()
        weights[0] = 0
        return torch.multinomial(weights, self.B * self.L, replacement=True).view(self.B, self.L)

    def real(self) -> Tensor:
        """A complex batch in our layout. Shape: (B, L, 2·D)"""
        return torch.randn(self.B, self.L, 2 * self.D)


@dataclass(frozen=True)
class Row:
    """Contenders to build, ours first, and the targets by peer or for the fastest of them."""

    name: str
    build: Callable[[], list[Contender]]
    bars: dict[str, Bar] = field(default_factory=dict)
    precision: Precision = "fp32"
    share_of_rounds: float = 1
    """Fast calls are noisy and get more rounds, slow ones fewer."""
    emulated_rounds: int = 1
    """Rounds where the CPU has no bf16 and each call takes many times as long."""


def rows(sizes: Sizes) -> Iterator[Row]:
    """All rows, none of them built yet."""
    yield from _embedding_rows(sizes)
    yield from _training_rows(sizes)
    yield from _epoch_rows(sizes)
    yield from _translation_rows()
    yield from _language_model_rows()
    yield from _layer_rows(sizes)


def _embedding_rows(sizes: Sizes) -> Iterator[Row]:
    def against_appendix_c(**options: object) -> list[Contender]:
        ids = sizes.ids()
        embedding = WaveEmbedding(sizes.V, sizes.D, **options)
        return [
            forward_backward("WaveEmbedding", embedding, ids),
            forward_backward("App. C", peers.AppendixC(sizes.V, sizes.D), ids),
        ]

    def against_both() -> list[Contender]:
        plain = forward_backward("nn.Embedding", nn.Embedding(sizes.V, sizes.D), sizes.ids())
        return [*against_appendix_c(), plain]

    row = partial(Row, share_of_rounds=4)
    bars = {"App. C": Bar(1.8), "nn.Embedding": Bar(5, goal=3, at_most=True)}
    yield row("embedding", against_both, bars)
    sparse = partial(against_appendix_c, sparse=True)
    yield row("embedding-sparse", sparse, {"App. C": Bar(3, goal=5)})
    # App. C always has an initial phase: here both sides have the same parameters.
    yield row("embedding-phase", partial(against_appendix_c, phase=True))
    yield row("embedding-phase-sparse", partial(against_appendix_c, phase=True, sparse=True))
    yield row("embedding-shared", partial(against_appendix_c, share_frequency="word"))


def _training_rows(sizes: Sizes) -> Iterator[Row]:
    def build(law: str) -> list[Contender]:
        ids = sizes.ids(law)

        def trained(name: str, optimizer: Callable[..., torch.optim.Optimizer]) -> Contender:
            module = WaveEmbedding(sizes.V, sizes.D, sparse=name.startswith("sparse"))
            return training_step(name, module, ids, optimizer(module.parameters()))

        return [
            trained("sparse + RowAdam", RowAdam),
            trained("sparse + SparseAdam", torch.optim.SparseAdam),
            trained("dense + Adam", torch.optim.Adam),
            trained("dense + Adam(fused)", partial(torch.optim.Adam, fused=True)),
        ]

    row = partial(Row, share_of_rounds=2)
    yield row("training", partial(build, "uniform"), {"dense + Adam": Bar(5)})
    yield row("training-zipf", partial(build, "zipf"))


def _epoch_rows(sizes: Sizes) -> Iterator[Row]:
    at_most = Bar(1.8, goal=1.5, at_most=True)
    bars = {
        "fasttext": {"dense Adam + padded": Bar(5)},
        "cnn": {"tpe": at_most},
        "transformer": {"tpe": at_most},
    }
    dim = 300 if sizes.D > 100 else 2 * sizes.D
    for encoder, build in epochs.builders(sizes.V, dim).items():
        yield Row(f"epoch-{encoder}", build, bars[encoder])
    for encoder, build in epochs.precision_builders(sizes.V, dim).items():
        yield Row(f"precision-{encoder}", build, {"fp32": Bar(1.15, at_most=True)})


def _translation_rows() -> Iterator[Row]:
    build = translation.builders()
    for name in ("decode-complex", "decode-real"):
        yield Row(name, build[name], {"recomputed": Bar(5)}, share_of_rounds=0.1)
    at_most = {"tpe": Bar(1.3, at_most=True)}
    yield Row("translate-step", build["translate-step"])
    yield Row("translate-step", build["translate-step-bf16"], at_most, "bf16")


def _language_model_rows() -> Iterator[Row]:
    at_most = {"real": Bar(1.5, at_most=True)}
    yield Row("lm-step", partial(language_model.steps, "fp32"), at_most)
    yield Row("lm-step", partial(language_model.steps, "bf16"), at_most, "bf16", emulated_rounds=7)
    bars = {"recomputed": Bar(5)}
    yield Row("lm-generate", language_model.generation, bars, share_of_rounds=1 / 7)


def _layer_rows(sizes: Sizes) -> Iterator[Row]:
    D = sizes.D

    def build(
        ours: Callable[[], nn.Module], others: Callable[[Tensor], peers.Peers], precision: Precision
    ) -> list[Contender]:
        x, module = sizes.real(), ours()
        contenders = {type(module).__name__: (module, x), **others(cx.to_complex(x))}
        return [
            forward_backward(name, module, x, precision) for name, (module, x) in contenders.items()
        ]

    def row(
        name: str,
        ours: Callable[[], nn.Module],
        others: Callable[[Tensor], peers.Peers],
        bar: Bar,
        precision: Precision = "fp32",
        share_of_rounds: float = 1,
    ) -> Row:
        contenders = partial(build, ours, others, precision)
        return Row(name, contenders, {FASTEST: bar}, precision, share_of_rounds)

    linear = ("linear", lambda: Linear(D, D), peers.linears)
    yield row(*linear, Bar(1.0))
    yield row(*linear, Bar(1.8), "bf16")

    convolutions = partial(peers.convolutions, kernel_size=KERNEL_SIZE)
    conv1d = ("conv1d", lambda: Conv1d(D, D, KERNEL_SIZE), convolutions)
    yield row(*conv1d, Bar(0.9))
    yield row(*conv1d, Bar(1.3, goal=2), "bf16")

    yield row("lstm", lambda: LSTM(D, D), peers.lstms, Bar(1.8), share_of_rounds=1 / 3)

    scores: tuple[Score, ...] = ("real", "magnitude")
    for score in scores:
        ours = partial(MultiHeadAttention, D, N_HEADS, score=score)
        others = partial(peers.attentions, n_heads=N_HEADS, score=score)
        yield row(f"attention-{score}", ours, others, Bar(1.25))
        yield row(f"attention-{score}", ours, others, Bar(2.2), "bf16")
