"""A classifier as a graph for ONNX, for batches and sentences of any size.

All is traced as it is but the LSTM: traced, it would become as many steps as the example has words.
Here it is one operator, which ONNX has too.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from wordwave import __version__
from wordwave.errors import WordwaveError
from wordwave.files import write_text, write_whole
from wordwave.layers import LSTM
from wordwave.models.classifier import Classifier
from wordwave.models.encoders import Recurrent
from wordwave.tasks.classifier import TextClassifier, logits_of
from wordwave.text.batching import Sentences
from wordwave.text.tokenizers import BPETokenizer
from wordwave.text.vocabulary import PADDING_ID, UNKNOWN_ID


class ProbabilityGraph(nn.Module):
    """Probabilities from word ids, with the weights of a classifier, on the CPU in float32."""

    def __init__(self, model: Classifier) -> None:
        super().__init__()
        self.model = deepcopy(model).cpu().float().eval().requires_grad_(False)
        if isinstance(self.model.encoder, Recurrent):
            self.model.encoder.lstm = _OneOperatorLSTM(self.model.encoder.lstm)

    def forward(self, ids: Tensor) -> Tensor:
        """Shape: (B, L), padded with 0 -> (B, n_classes), rows of sum 1"""
        return self.model(ids).softmax(-1)


class _OneOperatorLSTM(LSTM):
    """An LSTM for its outputs alone: the state after the last word is not given.

    So nothing need be done about padding: it is read after the words, whichever way one goes.
    """

    def __init__(self, lstm: LSTM) -> None:
        super().__init__(
            lstm.in_dim,
            lstm.hidden_dim,
            n_layers=lstm.n_layers,
            bidirectional=lstm.n_directions == 2,
            field=lstm.field,
        )
        self.directions = lstm.directions

    def _run(
        self, x: Tensor, start: tuple[Tensor, ...], way: Any, lengths: Tensor | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        from_input, from_hidden, bias, _ = way.real_weights()
        return torch.ops.wordwave.lstm(x, from_input, from_hidden, bias), start


def _lstm(x: Tensor, from_input: Tensor, from_hidden: Tensor, bias: Tensor) -> Tensor:
    """Shape: (B, L, in), (4·H, in), (4·H, H), (4·H,) -> (B, L, H)"""
    start = x.new_zeros(1, x.shape[0], from_hidden.shape[1])
    weights = [from_input, from_hidden, bias, torch.zeros_like(bias)]
    return torch.lstm(x, (start, start), weights, True, 1, 0.0, False, False, True)[0]


def _lstm_shape(x: Tensor, from_input: Tensor, from_hidden: Tensor, bias: Tensor) -> Tensor:
    return x.new_empty(x.shape[0], x.shape[1], from_hidden.shape[1])


_operator = torch.library.custom_op("wordwave::lstm", _lstm, mutates_args=())
_operator.register_fake(_lstm_shape)


def onnx_operators() -> dict[Any, Any]:
    """How the exporter is to write what it does not know."""
    op: Any = import_module("onnxscript").opset18

    def lstm(x: Any, from_input: Any, from_hidden: Any, bias: Any) -> Any:
        n = from_hidden.shape[1]
        # torch stacks the gates as i, f, g, o and ONNX as i, o, f, g.
        order = [*range(n), *range(3 * n, 4 * n), *range(n, 3 * n)]
        rows = op.Constant(value_ints=order)
        zeros = op.Constant(value_floats=[0.0] * (4 * n))
        y, _, _ = op.LSTM(
            op.Transpose(x, perm=[1, 0, 2]),
            op.Unsqueeze(op.Gather(from_input, rows, axis=0), [0]),
            op.Unsqueeze(op.Gather(from_hidden, rows, axis=0), [0]),
            op.Unsqueeze(op.Concat(op.Gather(bias, rows, axis=0), zeros, axis=0), [0]),
            hidden_size=n,
        )
        return op.Transpose(op.Squeeze(y, [1]), perm=[1, 0, 2])

    return {torch.ops.wordwave.lstm.default: lstm}


TOLERANCE = 1e-4
"""The largest difference between two probabilities that are taken for the same."""
CHECKED = ((1, 1), (2, 1), (1, 2), (4, 3), (3, 5), (1, 9), (6, 17), (3, 40))
"""Sentences and words of the batches that are compared."""
LARGEST = 2**31 - 2**20
"""Bytes of weights: a file of protocol buffers ends at 2 GB."""


@dataclass(frozen=True)
class Exported:
    """What was written, and how well it agrees."""

    files: list[Path]
    n_checked: int
    """Sentences that both models have read."""
    difference: float
    """The largest between a probability of the file and of the model."""


def export_onnx(classifier: TextClassifier, path: Path) -> Exported:
    """Write a classifier as ONNX, with all it takes to make ids of texts in a .json beside it.

    The graph takes `ids`, int64 (batch, length), padded with 0, and gives `probabilities`
    (batch, classes). It is written only if it agrees with the model on batches of many sizes.
    """
    _check_packages()
    weights = sum(p.numel() * p.element_size() for p in classifier.model.parameters())
    if weights > LARGEST:
        raise WordwaveError(f"one ONNX file holds at most 2 GB, got weights of {weights:,} bytes")
    about, tokenizer = describe(classifier, path), classifier.encoder.tokenizer
    program = _traced(ProbabilityGraph(classifier.model))
    for name, value in about.items():
        program.model.metadata_props[name] = (
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        )
    checks: list[tuple[int, float]] = []

    def write(new: Path) -> None:
        program.save(new, external_data=False)
        checks.append(_compared(classifier, new))

    write_whole(path, write)
    files = [path, _beside(path, ".json")]
    if isinstance(tokenizer, BPETokenizer):
        files.append(path.with_name(about["tokenizer"]))
        write_whole(files[-1], tokenizer.save)
    write_text(files[1], json.dumps(about, ensure_ascii=False, indent=0) + "\n")
    return Exported(files, *checks[-1])


def describe(classifier: TextClassifier, path: Path) -> dict[str, Any]:
    """What a program without wordwave must know to use the file."""
    encoder = classifier.encoder
    about = {
        "format": "wordwave text classifier",
        "version": __version__,
        "labels": classifier.labels,
        "tokenizer": encoder.tokenizer.kind,
        "max_length": encoder.max_length,
        "padding_id": PADDING_ID,
        "unknown_id": UNKNOWN_ID,
        "words": list(encoder.vocabulary.words),
    }
    if isinstance(encoder.tokenizer, BPETokenizer):
        about["tokenizer"] = _beside(path, ".tokenizer.json").name
    return about


def _traced(graph: ProbabilityGraph) -> Any:
    example = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0]])
    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")}
    with torch.no_grad(), _quiet():
        program = torch.onnx.export(
            graph,
            (example,),
            input_names=["ids"],
            output_names=["probabilities"],
            dynamic_shapes=(sizes,),
            custom_translation_table=onnx_operators(),
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    for node in program.model.graph.all_nodes():
        node.metadata_props.clear()  # where in the source it comes from, with the paths of here
    return program


def _compared(classifier: TextClassifier, path: Path) -> tuple[int, float]:
    """How many sentences were compared, and the largest difference."""
    onnxruntime = import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    n, worst = 0, 0.0
    for ids in sample_batches(len(classifier.encoder.vocabulary), classifier.encoder.max_length):
        wanted = logits_of(classifier.model, Sentences.from_padded(ids)).softmax(-1)
        (given,) = session.run(["probabilities"], {"ids": ids.numpy()})
        got = torch.as_tensor(given)
        same_shape = got.shape == wanted.shape
        difference = float((got - wanted).abs().max()) if same_shape else float("inf")
        if not difference <= TOLERANCE:
            raise WordwaveError(
                f"the ONNX model must agree with the trained one within {TOLERANCE:g}, got a "
                f"difference of {difference:.2g} for {len(ids)} sentences of {ids.shape[1]} words; "
                f"nothing was written"
            )
        n, worst = n + len(ids), max(worst, difference)
    return n, worst


def sample_batches(n_words: int, max_length: int) -> Iterator[Tensor]:
    """Random sentences, always the same: batches of many sizes, the first sentence of each full.

    Shape: each (B, L), padded with 0
    """
    chance = torch.Generator().manual_seed(0)
    for n, longest in CHECKED:
        length = min(longest, max_length)
        ids = torch.randint(1, n_words, (n, length), generator=chance)
        lengths = torch.randint(1, length + 1, (n, 1), generator=chance)
        lengths[0] = length
        yield ids * (torch.arange(length) < lengths)


def _check_packages() -> None:
    for package in ("onnx", "onnxscript", "onnxruntime"):
        try:
            import_module(package)
        except ModuleNotFoundError as missing:
            raise WordwaveError(
                f"export needs the package {missing.name!r}: pip install 'wordwave[onnx]'"
            ) from None


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


@contextmanager
def _quiet() -> Iterator[None]:
    """The exporter warns of packages that are not needed."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
