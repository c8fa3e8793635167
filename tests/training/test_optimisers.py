"""RowAdam takes the steps of torch's SparseAdam."""

from copy import deepcopy

import pytest
import torch

from tolerance import rounding
from wordwave import WaveEmbedding
from wordwave.compiled import SWITCH
from wordwave.training.optim import RowAdam


def test_row_adam_equals_sparse_adam_over_many_steps():
    torch.manual_seed(0)
    ours, theirs = (WaveEmbedding(30, 4, sparse=True, phase=True) for _ in range(2))
    theirs.load_state_dict(ours.state_dict())
    pairs = [
        (ours, RowAdam(ours.parameters(), lr=0.02, betas=(0.8, 0.99))),
        (theirs, torch.optim.SparseAdam(theirs.parameters(), lr=0.02, betas=(0.8, 0.99))),
    ]
    for step in range(20):
        ids = torch.randint(0, 30, (4, 6), generator=torch.Generator().manual_seed(step))
        for embedding, optimizer in pairs:
            optimizer.zero_grad()
            (embedding(ids) - 1).square().sum().backward()
            optimizer.step()
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict(), atol=1e-5, rtol=1e-5)
    assert (ours.amplitude.weight[0] == 0).all()


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_kernel_and_torch_take_the_same_steps(weight_decay, monkeypatch):
    found = []
    for switch in ("0", "1"):
        monkeypatch.setenv(SWITCH, switch)
        torch.manual_seed(0)
        table = torch.nn.Parameter(torch.randn(30, 5))
        optimizer = RowAdam([table], lr=0.02, weight_decay=weight_decay)
        for _ in range(20):
            rows, values = torch.randint(0, 30, (1, 9)), torch.randn(9, 5)
            table.grad = torch.sparse_coo_tensor(rows, values, table.shape)
            optimizer.step()
        found.append({"table": table.detach(), **optimizer.state[table]})
    torch.testing.assert_close(*found, **rounding(terms=20))


def test_state_round_trip_goes_on_as_if_nothing_had_happened():
    torch.manual_seed(0)
    embedding = WaveEmbedding(10, 3, sparse=True)
    optimizer = RowAdam(embedding.parameters(), lr=0.1)
    ids = torch.tensor([[1, 2, 3, 2]])

    def step(net, opt):
        opt.zero_grad()
        net(ids).square().sum().backward()
        opt.step()

    step(embedding, optimizer)
    copy = WaveEmbedding(10, 3, sparse=True)
    copy.load_state_dict(embedding.state_dict())
    resumed = RowAdam(copy.parameters(), lr=0.1)
    resumed.load_state_dict(deepcopy(optimizer.state_dict()))
    step(embedding, optimizer)
    step(copy, resumed)
    assert torch.equal(embedding.amplitude.weight, copy.amplitude.weight)


def test_dense_gradients_and_wrong_numbers_are_refused():
    embedding = WaveEmbedding(10, 3)
    optimizer = RowAdam(embedding.parameters())
    embedding(torch.tensor([[1]])).sum().backward()
    with pytest.raises(ValueError, match="sparse=True"):
        optimizer.step()
    with pytest.raises(ValueError, match="lr=-1"):
        RowAdam(embedding.parameters(), lr=-1)
