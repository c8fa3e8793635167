"""Export a classifier or a matcher to ONNX, for batches and sentences of any size.

Everything is traced as it is except the LSTM, which tracing would unroll to the length of the
example; here it is one custom operator, which is translated to that of ONNX.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable, Iterator
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
from wordwave.models.classifier import Recurrent, SentenceModel
from wordwave.tasks.classifier import TextClassifier, logits_of
from wordwave.tasks.matcher import TextMatcher, pair_logits
from wordwave.text.batching import Sentences
from wordwave.text.tokenizers import BPETokenizer, KimTokenizer, PlainTokenizer, TextTokenizer
from wordwave.text.vocabulary import PADDING_ID, UNKNOWN_ID


class Graph(nn.Module):
    """A copy of a model, on the CPU in float32, whose inputs and output have names in ONNX."""

    inputs: tuple[str, ...]
    output: str

    def __init__(self, model: SentenceModel) -> None:
        super().__init__()
        self.model = deepcopy(model).cpu().float().eval().requires_grad_(False)
        if isinstance(self.model.encoder, Recurrent):
            self.model.encoder.lstm._run = _run_as_one_operator  # type: ignore[method-assign]


class ProbabilityGraph(Graph):
    """A classifier that returns probabilities."""

    inputs, output = ("ids",), "probabilities"

    def forward(self, ids: Tensor) -> Tensor:
        """Shape: (B, L), padded with 0 -> (B, n_classes), rows of sum 1"""
        return self.model(ids).softmax(-1)


class LabelGraph(ProbabilityGraph):
    """A classifier of several labels that returns the probability of each."""

    def forward(self, ids: Tensor) -> Tensor:
        """Shape: (B, L), padded with 0 -> (B, n_classes)"""
        return self.model(ids).sigmoid()


class PairGraph(Graph):
    """A matcher that returns logits."""

    inputs, output = ("ids_a", "ids_b"), "logits"

    def forward(self, ids_a: Tensor, ids_b: Tensor) -> Tensor:
        """Shape: (B, L), (B, M), padded with 0 -> (B, n_classes)"""
        return self.model(ids_a, ids_b)


def _run_as_one_operator(
    x: Tensor, start: tuple[Tensor, ...], direction: Any, lengths: Tensor | None
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """`LSTM._run` without the final state.

    Padding needs no care then: in either direction it comes after the words.
    """
    from_input, from_hidden, bias, _ = direction.real_weights()
    return torch.ops.wordwave.lstm(x, from_input, from_hidden, bias), start


@torch.library.custom_op("wordwave::lstm", mutates_args=())
def _lstm(x: Tensor, from_input: Tensor, from_hidden: Tensor, bias: Tensor) -> Tensor:
    """Shape: (B, L, in), (4·H, in), (4·H, H), (4·H,) -> (B, L, H)"""
    start = x.new_zeros(1, x.shape[0], from_hidden.shape[1])
    weights = [from_input, from_hidden, bias, torch.zeros_like(bias)]
    return torch.lstm(x, (start, start), weights, True, 1, 0.0, False, False, True)[0]


@_lstm.register_fake
def _lstm_shape(x: Tensor, from_input: Tensor, from_hidden: Tensor, bias: Tensor) -> Tensor:
    return x.new_empty(x.shape[0], x.shape[1], from_hidden.shape[1])


def onnx_operators() -> dict[Any, Any]:
    """The exporter's translation table for the custom operator."""
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
"""Largest accepted difference between probabilities of the exported and the trained model."""
TEST_SIZES = ((1, 1), (2, 1), (1, 2), (4, 3), (3, 5), (1, 9), (6, 17), (3, 40))
"""Batch sizes and lengths on which the two models are compared."""
MAX_WEIGHTS = 2**31 - 2**20
"""Bytes of weights: a protocol buffers file holds at most 2 GB."""


@dataclass(frozen=True)
class Exported:
    """The files written, and how well the exported model agrees with the trained one."""

    files: list[Path]
    n_checked: int
    """Number of sentences, or of pairs, on which they were compared."""
    difference: float
    """Largest difference between their probabilities, or between scores scaled to [0, 1]."""


def export_onnx(
    trained: TextClassifier | TextMatcher,
    path: Path,
    *,
    on_stage: Callable[[str], object] = lambda line: None,
) -> Exported:
    """Export a model to ONNX, and what is needed to encode texts to a .json beside it: the words
    by id, the labels and, as `tokenization`, how a text becomes tokens.

    The input of a classifier is `ids`, int64 (batch, length), padded with 0; the output is
    `probabilities` (batch, classes). The inputs of a matcher are `ids_a` and `ids_b`, the lengths
    of which may differ; the output is `logits` (batch, classes), of scores (batch, 1), where a
    score is low + (high − low)·sigmoid(logit) with the `score_range` of the .json.
    Nothing is written unless it agrees with the model on batches of many sizes.

    Args:
        on_stage: is called with a line about each part of the work, as it begins.
    """
    for package in ("onnx", "onnxscript", "onnxruntime"):
        try:
            import_module(package)
        except ModuleNotFoundError as missing:
            raise WordwaveError(
                f"export needs the package {missing.name!r}: pip install 'wordwave[onnx]'"
            ) from None
    weights = sum(t.numel() * t.element_size() for t in trained.model.state_dict().values())
    if weights > MAX_WEIGHTS:
        raise WordwaveError(f"one ONNX file holds at most 2 GB, got weights of {weights:,} bytes")
    encoder = trained.encoder
    is_bpe = isinstance(encoder.tokenizer, BPETokenizer)
    json_file, bpe_file = (path.with_name(path.name + end) for end in (".json", ".tokenizer.json"))
    is_matcher = isinstance(trained, TextMatcher)
    description: dict[str, Any] = {
        "format": "wordwave sentence matcher" if is_matcher else "wordwave text classifier",
        "version": __version__,
        "labels": trained.labels,
        "tokenizer": bpe_file.name if is_bpe else encoder.tokenizer.kind,
        "tokenization": _tokenization(encoder.tokenizer, bpe_file.name),
        "max_length": encoder.max_length,
        "padding_id": PADDING_ID,
        "unknown_id": UNKNOWN_ID,
        "words": list(encoder.vocabulary.words),
    }
    if encoder.hashed:
        first = encoder.vocabulary.first_rare
        description["first_hashed_id"] = first
        description["unknown_words"] = f"id {first} + crc32(UTF-8) % (len(words) - {first})"
    if isinstance(trained, TextMatcher) and not trained.labels:
        description["score_range"] = list(trained.score_range)
    if isinstance(trained, TextMatcher):
        graph: Graph = PairGraph(trained.model)
    else:
        description["multi_label"] = trained.multi_label
        graph = (LabelGraph if trained.multi_label else ProbabilityGraph)(trained.model)
    on_stage(f"Exporting to '{path}' …")
    program = _trace(graph)
    for name, value in description.items():
        program.model.metadata_props[name] = (
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        )
    checks: list[tuple[int, float]] = []

    def write(new: Path) -> None:
        program.save(new, external_data=False)
        on_stage("Checking against onnxruntime …")
        checks.append(_compare(trained, graph, new))

    write_whole(path, write)
    if isinstance(encoder.tokenizer, BPETokenizer):
        write_whole(bpe_file, encoder.tokenizer.save)
    write_text(json_file, json.dumps(description, ensure_ascii=False, indent=0) + "\n")
    return Exported([path, json_file, *([bpe_file] if is_bpe else [])], *checks[-1])


def _tokenization(tokenizer: TextTokenizer, bpe_file: str) -> dict[str, Any]:
    """How a text becomes tokens.

    `pattern`: a regular expression of Python, each match of which is a token, or `file`: of the
    library `tokenizers`, for texts that begin with `prefix`. `lower_case`: the whole text before it
    is split, or the tokens. `normalize`: the Unicode form of each token of at most `max_normalized`
    characters, if the text is not ASCII. `unicode`: the version that the letters of `\\w` are from.
    """
    if isinstance(tokenizer, (PlainTokenizer, KimTokenizer)):
        return tokenizer.rule
    return {"file": bpe_file, "prefix": " "}


def _trace(graph: Graph) -> Any:
    example = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0]])
    examples = (example, example[:, :5])[: len(graph.inputs)]
    batch = torch.export.Dim("batch")
    lengths = [name.replace("ids", "length") for name in graph.inputs]
    with torch.no_grad(), _quiet():
        program = torch.onnx.export(
            graph,
            examples,
            input_names=list(graph.inputs),
            output_names=[graph.output],
            dynamic_shapes=tuple({0: batch, 1: torch.export.Dim(name)} for name in lengths),
            custom_translation_table=onnx_operators(),
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    for node in program.model.graph.all_nodes():
        node.metadata_props.clear()  # source locations, with paths of this machine
    return program


def _compare(trained: TextClassifier | TextMatcher, graph: Graph, path: Path) -> tuple[int, float]:
    """The number of sentences or pairs compared, and the largest difference."""
    onnxruntime = import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    sizes = len(trained.encoder.vocabulary), trained.encoder.max_length
    n, worst = 0, 0.0
    for ids in sample_pairs(*sizes) if graph.inputs[1:] else zip(sample_batches(*sizes)):
        sentences = [Sentences.from_padded(part) for part in ids]
        given = {name: part.numpy() for name, part in zip(graph.inputs, ids, strict=True)}
        got = torch.as_tensor(session.run([graph.output], given)[0])
        if isinstance(trained, TextMatcher):
            expected = _predictions(pair_logits(trained.model, *sentences))
            got = _predictions(got)
        else:
            expected = trained.probabilities_of(logits_of(trained.model, *sentences))
        same_shape = got.shape == expected.shape
        difference = float((got - expected).abs().max()) if same_shape else float("inf")
        if not difference <= TOLERANCE:
            raise WordwaveError(
                f"the ONNX model must agree with the trained one within {TOLERANCE:g}, got a "
                f"difference of {difference:.2g} for {len(got)} sentences of {ids[0].shape[1]} "
                f"words; nothing was written"
            )
        n, worst = n + len(got), max(worst, difference)
    return n, worst


def _predictions(logits: Tensor) -> Tensor:
    """Probabilities, or scores scaled to [0, 1]. Shape: (B, n_classes) -> the same"""
    return logits.softmax(-1) if logits.shape[-1] > 1 else logits.sigmoid()


def sample_pairs(n_words: int, max_length: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of pairs: those of `sample_batches` with their beginnings in another order.

    Shape: each (B, L) and (B, M), padded with 0
    """
    for ids in sample_batches(n_words, max_length):
        shorter = ids.roll(1, 0)[:, : (ids.shape[1] + 1) // 2]
        yield ids, shorter
        yield shorter, ids


def sample_batches(n_words: int, max_length: int) -> Iterator[Tensor]:
    """Batches of random sentences, always the same ones; the first of each has the full length.

    Shape: each (B, L), padded with 0
    """
    generator = torch.Generator().manual_seed(0)
    for n, longest in TEST_SIZES:
        length = min(longest, max_length)
        ids = torch.randint(1, n_words, (n, length), generator=generator)
        lengths = torch.randint(1, length + 1, (n, 1), generator=generator)
        lengths[0] = length
        yield ids * (torch.arange(length) < lengths)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's warnings about packages that are not needed."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
