"""In mixed precision and in parallel, modules train as they do without."""

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.testing import assert_close

from wordwave import EMBEDDINGS, WaveEmbedding, build_embedding
from wordwave.layers import (
    LSTM,
    RNN,
    BatchNorm,
    Conv1d,
    FeedForward,
    LayerNorm,
    Linear,
    MultiHeadAttention,
)

V, D = 6, 4
IDS = torch.tensor([[1, 2, 3], [4, 2, 0]])
LENGTHS = torch.tensor([3, 1])
MASK = torch.tensor([[True, True, True], [True, False, False]])

LAYERS = {
    "linear": (lambda f: Linear(D, 3, field=f), lambda m, x: m(x)),
    "conv": (lambda f: Conv1d(D, 3, 2, field=f), lambda m, x: m(x)),
    "feed-forward": (lambda f: FeedForward(D, 5, field=f), lambda m, x: m(x)),
    "layer-norm": (lambda f: LayerNorm(D, field=f), lambda m, x: m(x)),
    "batch-norm": (lambda f: BatchNorm(D, field=f), lambda m, x: m(x, MASK)),
    "rnn": (lambda f: RNN(D, 3, bidirectional=True, field=f), lambda m, x: m(x, LENGTHS)[0]),
    "rnn-full": (lambda f: RNN(D, 3, field=f), lambda m, x: m(x)[0]),
    "lstm": (lambda f: LSTM(D, 3, bidirectional=True, field=f), lambda m, x: m(x, LENGTHS)[0]),
    "lstm-full": (lambda f: LSTM(D, 3, field=f), lambda m, x: m(x)[0]),
    "attention-magnitude": (lambda f: MultiHeadAttention(D, 2, field=f), lambda m, x: m(x)),
    "attention-real": (
        lambda f: MultiHeadAttention(D, 2, score="real", field=f),
        lambda m, x: m(x, mask=MASK),
    ),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("field", ["real", "complex"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_layers_train_in_mixed_precision(name, field, dtype):
    """On float32 as embeddings give it, and on bfloat16 as the layer before gives it."""
    build, run = LAYERS[name]
    layer = build(field)
    x = torch.randn(2, 3, D * (2 if field == "complex" else 1)).to(dtype).requires_grad_()
    expected = run(layer, x.detach().float())
    with torch.autocast("cpu", torch.bfloat16):
        y = run(layer, x)
        loss = y.float().square().sum()
    loss.backward()
    assert_close(y.float(), expected, rtol=0.1, atol=0.05)
    assert x.grad.isfinite().all()
    assert all(p.grad.isfinite().all() for p in layer.parameters())


@pytest.mark.parametrize("kind", EMBEDDINGS)
def test_embeddings_train_in_mixed_precision(kind):
    emb = build_embedding(kind, V, D)
    with torch.autocast("cpu", torch.bfloat16):
        z = emb(IDS)
    assert_close(z, emb(IDS))
    z.sum().backward()
    assert all(p.grad.isfinite().all() for p in emb.parameters())


@pytest.mark.parametrize("share", [None, "word"])
def test_wave_embedding_trains_under_distributed_data_parallel(share):
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        # In a function of its own: a wrapper that outlives its process group can hang for ever.
        one_parallel_step(WaveEmbedding(V, D, share_frequency=share, phase=True))
    finally:
        dist.destroy_process_group()


def one_parallel_step(emb):
    before = {name: p.detach().clone() for name, p in emb.named_parameters()}
    parallel = DistributedDataParallel(emb)
    optimizer = torch.optim.Adam(parallel.parameters(), lr=0.1)
    (parallel(IDS) - 1).square().sum().backward()
    optimizer.step()
    for name, parameter in emb.named_parameters():
        assert not torch.equal(parameter, before[name])
    assert (emb(IDS)[IDS == 0] == 0).all()
