"""Timing in turns.

The machine is shared and its speed drifts, so a time means little, and a ratio of two times taken
one after the other means much: every contender of a row has one call per round, in shuffled order.
What is taken is the CPU time of this process. With one thread it is the wall time of an idle
machine, while wall time on a busy one grows with the length of a call, which favours short calls.
"""

from __future__ import annotations

import ctypes
import gc
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

Precision = Literal["fp32", "bf16"]


@dataclass(frozen=True)
class Contender:
    """An implementation to time: `prepare` is not timed, `step` is."""

    name: str
    prepare: Callable[[], None]
    step: Callable[[], object]
    ran_in: str = "fp32"


def forward_backward(
    name: str, module: nn.Module, x: Tensor, precision: Precision = "fp32"
) -> Contender:
    """One forward and one backward pass with a given upstream gradient.

    bf16 means autocast; what raises under it, or ignores it, runs in fp32 and is marked.
    """
    x = x.detach().clone().requires_grad_(x.is_floating_point() or x.is_complex())
    ran_in = _best_under_autocast(module, x) if precision == "bf16" else "fp32"
    autocast = ran_in == "bf16"
    upstream = torch.randn_like(_forward(module, x, autocast))

    def prepare() -> None:
        module.zero_grad(set_to_none=True)
        x.grad = None

    return Contender(
        name, prepare, lambda: _forward(module, x, autocast).backward(upstream), ran_in
    )


def _forward(module: nn.Module, x: Tensor, autocast: bool) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        y = module(x)
    return y[0] if isinstance(y, tuple) else y


def _best_under_autocast(module: nn.Module, x: Tensor) -> str:
    try:
        y = _forward(module, x, autocast=True)
        y.backward(torch.ones_like(y))
    except RuntimeError:
        return "fp32 (raises under autocast)"
    unchanged = torch.equal(y, _forward(module, x, autocast=False))
    return "fp32 (ignores autocast)" if unchanged else "bf16"


def training_step(
    name: str, module: nn.Module, x: Tensor, optimizer: torch.optim.Optimizer
) -> Contender:
    """Forward, backward and the optimizer's update."""
    passes = forward_backward(name, module, x)

    def step() -> None:
        passes.step()
        optimizer.step()

    return Contender(name, passes.prepare, step)


def fix_environment() -> None:
    """Use one thread, and keep freed memory.

    By default glibc now and then returns freed gradients to the kernel; page faults then cost a
    dense embedding half its time again, in whichever contender is next.
    """
    torch.set_num_threads(1)
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        trim_threshold, mmap_threshold = -1, -3
        libc.mallopt(trim_threshold, 2**31 - 1)
        libc.mallopt(mmap_threshold, 2**25)


def n_calls(rounds: int) -> int:
    """Timed calls of a contender and those before them that warm it up."""
    return rounds + min(2, rounds)


def median_times(
    contenders: Sequence[Contender], rounds: int, tick: Callable[[], object]
) -> dict[str, float]:
    """Median milliseconds of each contender, in the order given; `tick` follows every call."""
    times: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    order, shuffler = list(contenders), random.Random(0)
    gc.disable()
    try:
        for _ in range(n_calls(rounds)):
            shuffler.shuffle(order)
            for contender in order:
                contender.prepare()
                start = time.process_time()
                contender.step()
                elapsed = time.process_time() - start
                times[contender.name].append(1e3 * elapsed)
                tick()
            gc.collect()
    finally:
        gc.enable()
    return {name: statistics.median(taken[-rounds:]) for name, taken in times.items()}
