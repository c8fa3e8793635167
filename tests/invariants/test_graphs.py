"""Compiled, exported or run in ONNX, a module stays the module it is."""

import shutil
import warnings

import pytest
import torch
from torch.export import Dim
from torch.testing import assert_close

from wordwave import EMBEDDINGS, WaveEmbedding, build_embedding
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
from wordwave.positions import POSITIONS

V, D = 6, 4
IDS = torch.tensor([[1, 2, 3], [4, 2, 0]])
MORE_IDS = torch.tensor([[1, 2, 3, 4, 5], [4, 2, 1, 0, 0], [5, 0, 0, 0, 0]])
LENGTHS = torch.tensor([3, 1])
MASK = torch.tensor([[True, True, True], [True, False, False]])
MORE_MASK = torch.tensor([[True] * 5, [True, True, False, False, False], [False] * 5])

close = {"rtol": 1e-4, "atol": 1e-5}
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs g++")
for_each_score = pytest.mark.parametrize("score", ["magnitude", "real"])


class Attend(torch.nn.Module):
    """Attention as a graph of two tensors."""

    def __init__(self, score, causal, **options):
        super().__init__()
        self.attention, self.causal = MultiHeadAttention(D, 2, score=score, **options), causal

    def forward(self, x, mask):
        return self.attention(x, mask=mask, causal=self.causal)


def states_too(output):
    out, state = output
    return torch.cat([out.flatten(), *(s.flatten() for s in state)])


def check_compiled(module, inputs, backend, result=lambda y: y):
    """One graph without breaks, with the values and gradients of the module itself."""
    torch._dynamo.reset()
    compiled = torch.compile(module, fullgraph=True, backend=backend)
    results = []
    for function in (module, compiled):
        module.zero_grad()
        y = result(function(*inputs))
        y.square().sum().backward()
        results.append((y.detach(), {n: p.grad.clone() for n, p in module.named_parameters()}))
    assert_close(results[1], results[0], **close)


@needs_compiler
@pytest.mark.parametrize(
    "options",
    [{}, {"phase": True, "damping": True, "share_frequency": "word", "share_amplitude": "dim"}],
    ids=["plain", "all"],
)
def test_wave_embedding_compiles_to_fast_code(options):
    check_compiled(WaveEmbedding(V, D, **options), (IDS,), "inductor")


@needs_compiler
@pytest.mark.parametrize("share", ["none", "tied"])
def test_linear_compiles_to_fast_code(share):
    check_compiled(Linear(D, 3, share=share), (torch.randn(2, 3, 2 * D),), "inductor")


@needs_compiler
@for_each_score
def test_attention_compiles_to_fast_code(score):
    check_compiled(Attend(score, causal=True), (torch.randn(2, 3, 2 * D), MASK), "inductor")


def with_position(position, causal=True):
    """Real attention with a position encoding whose parameters are away from their start."""
    layer = Attend("real", causal, field="real", position=position)
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in layer.attention.position.parameters():
            parameter.normal_(0, 0.5)
    return layer


@pytest.mark.parametrize("position", POSITIONS)
def test_position_encodings_compile_to_one_graph(position):
    check_compiled(with_position(position), (torch.randn(2, 3, D), MASK), "aot_eager")


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("position", ["cope", "token-clock"])
def test_position_encodings_compile_to_fast_code(position):
    check_compiled(with_position(position), (torch.randn(2, 3, D), MASK), "inductor")


@pytest.mark.parametrize("position", POSITIONS)
def test_position_encodings_export_with_any_batch_and_length(position):
    layer, shapes = with_position(position), both_dynamic()
    example = (torch.randn(2, 3, D), MASK)
    program = torch.export.export(layer, example, dynamic_shapes=(shapes, shapes))
    x = torch.randn(3, 5, D)
    assert_close(program.module()(x, MORE_MASK), layer(x, MORE_MASK), **close)


@pytest.mark.slow
@pytest.mark.parametrize("position", POSITIONS)
def test_position_encodings_run_in_onnx(position):
    example = (torch.randn(2, 3, D), MASK)
    other = (torch.randn(3, 5, D), MORE_MASK)
    check_onnx(with_position(position, causal=False), example, other)


@pytest.mark.parametrize("kind", EMBEDDINGS)
def test_embeddings_compile_to_one_graph(kind):
    check_compiled(build_embedding(kind, V, D), (IDS,), "aot_eager")


@pytest.mark.parametrize("field", ["real", "complex"])
@pytest.mark.parametrize(
    "build",
    [
        lambda f: Conv1d(D, 3, 2, padding=1, field=f),
        lambda f: FeedForward(D, 5, field=f),
        lambda f: LayerNorm(D, field=f),
        lambda f: BatchNorm(D, field=f).eval(),
    ],
    ids=["conv", "feed-forward", "layer-norm", "batch-norm"],
)
def test_layers_compile_to_one_graph(build, field):
    x = torch.randn(2, 3, D * (2 if field == "complex" else 1))
    check_compiled(build(field), (x,), "aot_eager")


def test_dropout_compiles_to_one_graph_that_drops_whole_components():
    torch._dynamo.reset()
    dropout = torch.compile(Dropout(0.5), fullgraph=True, backend="aot_eager")
    real, imag = dropout(torch.ones(20, 2 * D)).split(D, dim=-1)
    assert torch.equal(real, imag) and (real == 0).any() and (real == 2).any()


def test_batch_norm_in_training_compiles_and_still_learns_its_statistics():
    torch._dynamo.reset()
    plain, traced = BatchNorm(D), BatchNorm(D)
    compiled = torch.compile(traced, fullgraph=True, backend="aot_eager")
    x = torch.randn(2, 3, 2 * D)
    assert_close(compiled(x, MASK), plain(x, MASK), **close)
    assert_close(traced.state_dict(), plain.state_dict(), **close)


@pytest.mark.parametrize("kind", [RNN, LSTM])
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["full", "ragged"])
def test_recurrent_layers_compile_to_one_graph_that_trains(kind, lengths):
    inputs = (torch.randn(2, 3, 2 * D), *([] if lengths is None else [lengths]))
    check_compiled(kind(D, 2, bidirectional=True), inputs, "aot_eager", states_too)


@pytest.mark.parametrize("kind", [RNN, LSTM])
@torch.no_grad()
def test_recurrent_layers_compile_to_one_graph_for_inference(kind):
    torch._dynamo.reset()
    layer = kind(D, 2, n_layers=2).eval()
    x = torch.randn(2, 3, 2 * D)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    assert_close(states_too(compiled(x, LENGTHS)), states_too(layer(x, LENGTHS)), **close)


def both_dynamic():
    return {0: Dim("batch"), 1: Dim("length")}


@pytest.mark.parametrize("kind", EMBEDDINGS)
def test_embeddings_export_with_any_batch_and_length(kind):
    emb = build_embedding(kind, V, D)
    program = torch.export.export(emb, (IDS,), dynamic_shapes=(both_dynamic(),))
    assert_close(program.module()(MORE_IDS), emb(MORE_IDS), **close)


@for_each_score
@pytest.mark.parametrize("causal", [False, True])
def test_attention_exports_with_any_batch_and_length(score, causal):
    layer, shapes = Attend(score, causal), both_dynamic()
    program = torch.export.export(
        layer, (torch.randn(2, 3, 2 * D), MASK), dynamic_shapes=(shapes, shapes)
    )
    x = torch.randn(3, 5, 2 * D)
    assert_close(program.module()(x, MORE_MASK), layer(x, MORE_MASK), **close)


class FarAway(torch.nn.Module):
    """An embedding where a last bit of a frequency is an angle of 0.06."""

    def __init__(self, kind):
        super().__init__()
        self.embedding = build_embedding(kind, V, 64, padding_idx=None)

    def forward(self, ids):
        return self.embedding(ids, positions=1_000_000)


@needs_compiler
@pytest.mark.parametrize("kind", ["tpe", "complex-order"])
def test_compiled_embeddings_agree_at_far_positions(kind):
    torch._dynamo.reset()
    emb = FarAway(kind)
    compiled = torch.compile(emb, fullgraph=True, backend="inductor")
    assert_close(compiled(IDS), emb(IDS), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["tpe", "complex-order"])
def test_exported_embeddings_agree_at_far_positions(kind):
    check_onnx(FarAway(kind), (IDS,), (MORE_IDS,), atol=1e-4)


def check_onnx(module, example, other, atol=1e-5):
    """The same numbers in onnxruntime, for another batch and length than exported."""
    pytest.importorskip("onnxscript")
    ort = pytest.importorskip("onnxruntime")
    shapes = both_dynamic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            module.eval(),
            example,
            dynamo=True,
            dynamic_shapes=(shapes,) * len(example),
            verbose=False,
        )
    session = ort.InferenceSession(
        program.model_proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [i.name for i in session.get_inputs()]
    (y,) = session.run(None, {n: x.numpy() for n, x in zip(names, other, strict=True)})
    with torch.no_grad():
        assert_close(torch.from_numpy(y), module(*other), rtol=1e-5, atol=atol)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("complex-order", {}),
        ("complex-order", {"phase": True, "damping": True, "share_frequency": "word"}),
        ("tpe", {}),
    ],
    ids=["wave", "wave-all", "tpe"],
)
def test_embeddings_run_in_onnx(kind, options):
    check_onnx(build_embedding(kind, V, D, **options), (IDS,), (MORE_IDS,))


@for_each_score
def test_attention_runs_in_onnx(score):
    """Also for a sentence of nothing but padding, the last of these."""
    example = (torch.randn(2, 3, 2 * D), MASK)
    check_onnx(Attend(score, causal=False), example, (torch.randn(3, 5, 2 * D), MORE_MASK))
