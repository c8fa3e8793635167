"""What a user of `WaveEmbedding` relies on: positions, padding, parameters, training, saving."""

import copy
import itertools
import math

import pytest
import torch
from torch.testing import assert_close

from tolerance import approx, rounding
from wordwave import WaveEmbedding

SHARES = (None, "word", "dim")
V, D = 7, 4
IDS = torch.tensor([[3, 1, 4, 1, 5], [2, 6, 5, 0, 0]])

for_each_sharing = pytest.mark.parametrize(
    "sharing",
    [
        dict(zip(("share_frequency", "share_amplitude", "share_phase"), shares, strict=True))
        for shares in itertools.product(SHARES, repeat=3)
    ],
    ids=lambda s: "-".join(str(v) for v in s.values()),
)


@for_each_sharing
@pytest.mark.parametrize("damping", [False, True])
def test_positions_are_one_to_length_by_default(oracle, sharing, damping):
    emb = WaveEmbedding(V, D, phase=True, damping=damping, **sharing)
    z = emb(IDS)
    assert z.shape == (2, 5, 2 * D) and z.dtype == torch.float32
    assert_close(z, emb(IDS, positions=torch.tensor([1, 2, 3, 4, 5])))
    assert_close(oracle.native(z), oracle.wave(emb, IDS), **rounding(terms=8))


@pytest.mark.parametrize("share", SHARES)
def test_decoding_a_word_at_a_time_gives_the_columns_of_the_whole(share):
    emb = WaveEmbedding(V, D, phase=True, share_frequency=share)
    whole = emb(IDS)
    for k in range(1, 6):
        assert_close(emb(IDS[:, k - 1 : k], positions=k)[:, 0], whole[:, k - 1])


@pytest.mark.parametrize("share", SHARES)
def test_packed_sentences_embed_as_they_do_alone(share):
    emb = WaveEmbedding(V, D, share_frequency=share)
    first, second = torch.tensor([3, 1, 4]), torch.tensor([5, 2])
    packed = emb(torch.cat([first, second]), positions=torch.tensor([1, 2, 3, 1, 2]))
    assert_close(packed, torch.cat([emb(first), emb(second)]))


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize(
    "positions", [9, 2.5, [5, 4, 3, 2, 1], [[1], [2]], [[7]], torch.arange(10).view(2, 5)]
)
def test_positions_broadcast_to_the_words(share, positions):
    emb = WaveEmbedding(V, D, share_frequency=share)
    spread = torch.as_tensor(positions).expand(2, 5).contiguous()
    assert_close(emb(IDS, positions=positions), emb(IDS, positions=spread))


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("shape", [(5,), (2, 5), (2, 3, 5), (1, 1), (2, 0), (0, 5)])
def test_ids_may_have_any_shape(share, shape):
    emb = WaveEmbedding(V, D, share_frequency=share)
    ids = torch.randint(V, shape)
    z = emb(ids)
    z.sum().backward()
    assert z.shape == (*shape, 2 * D)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("sparse", [False, True])
def test_int32_ids_embed_and_train_as_int64_do(share, sparse):
    emb = WaveEmbedding(V, D, share_frequency=share, sparse=sparse)
    gradients = []
    for ids in (IDS, IDS.int()):
        emb.zero_grad()
        emb(ids).square().sum().backward()
        gradients.append([p.grad.to_dense().clone() for p in emb.parameters()])
    assert_close(gradients[0], gradients[1])


@pytest.mark.parametrize("damping", [False, True])
def test_output_keeps_the_dtype_of_the_table_whatever_that_of_positions(damping):
    emb = WaveEmbedding(V, D, damping=damping)
    positions = torch.arange(5, dtype=torch.float64)
    z = emb(IDS, positions=positions)
    assert z.dtype == torch.float32
    assert emb.shift(IDS, z, positions).dtype == torch.float32


@pytest.mark.parametrize("share", SHARES)
def test_gradient_reaches_positions_that_ask_for_one(share):
    emb = WaveEmbedding(V, D, share_frequency=share)
    positions = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0], requires_grad=True)
    emb(IDS, positions=positions)[..., :D].sum().backward()
    r, w = (t.weight.expand(V, D)[IDS] for t in (emb.amplitude, emb.frequency))
    slope = -(r * w * torch.sin(w * positions.unsqueeze(-1))).sum(dim=(0, 2))
    assert_close(positions.grad, slope.detach())


@for_each_sharing
@pytest.mark.parametrize("padding_idx", [0, 5])
@pytest.mark.parametrize("damping", [False, True])
def test_padding_is_exactly_zero(sharing, padding_idx, damping):
    emb = WaveEmbedding(V, D, phase=True, damping=damping, padding_idx=padding_idx, **sharing)
    z = emb(IDS)
    assert (z[padding_idx == IDS] == 0).all()
    assert (z[padding_idx != IDS] != 0).all()


def test_without_padding_every_id_is_a_word():
    z = WaveEmbedding(V, D, padding_idx=None)(IDS)
    assert (z != 0).all()


@pytest.mark.parametrize("share", SHARES)
def test_sensitivity_is_the_mean_absolute_frequency(share):
    emb = WaveEmbedding(V, D, share_frequency=share, frequency_init="uniform")
    full = emb.frequency.weight.detach().expand(V, D)
    delta = emb.sensitivity()
    assert delta.shape == (V,) and delta[0] == 0
    for j in range(1, V):
        assert delta[j].item() == approx(sum(abs(w) for w in full[j].tolist()) / D, terms=D)


@pytest.mark.parametrize("share", SHARES)
def test_period_is_a_turn_over_the_frequency(share):
    emb = WaveEmbedding(V, D, share_frequency=share, frequency_init="uniform", padding_idx=None)
    emb.frequency.weight.data[0, 0] = 0
    full = emb.frequency.weight.detach().expand(V, D)
    period = emb.period()
    assert period.shape == (V, D) and period[0, 0] == math.inf
    assert_close(period[1:], 2 * math.pi / full[1:].abs())


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 2 * V * D),
        ({"phase": True}, 3 * V * D),
        ({"share_frequency": "dim"}, V * D + V),
        ({"share_frequency": "word"}, V * D + D),
        ({"share_amplitude": "dim"}, V * D + V),
        ({"share_amplitude": "word"}, V * D + D),
        ({"phase": True, "share_phase": "word"}, 2 * V * D + D),
        ({"phase": True, "share_phase": "dim"}, 2 * V * D + V),
        ({"damping": True}, 3 * V * D),
        ({"damping": True, "share_frequency": "word"}, V * D + 2 * D),
        ({"damping": True, "share_frequency": "dim"}, V * D + 2 * V),
    ],
    ids=str,
)
def test_parameter_counts_of_the_schemas_of_table_4(options, expected):
    assert sum(p.numel() for p in WaveEmbedding(V, D, **options).parameters()) == expected


@for_each_sharing
def test_state_dict_and_deepcopy_give_the_same_embedding(sharing):
    emb = WaveEmbedding(V, D, phase=True, damping=True, **sharing)
    other = WaveEmbedding(V, D, phase=True, damping=True, **sharing)
    other.load_state_dict(emb.state_dict())
    for twin in (other, copy.deepcopy(emb)):
        assert torch.equal(twin(IDS), emb(IDS))
    twin.amplitude.weight.data.add_(1)
    assert not torch.equal(twin(IDS), emb(IDS))


def test_repr_names_the_sizes():
    assert "7, 4, padding_idx=0" in repr(WaveEmbedding(V, D))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("options", [{}, {"phase": True}, {"damping": True}])
def test_gradients_of_each_sentence_by_torch_func_are_those_of_autograd(dtype, options):
    emb = WaveEmbedding(9, 3, **options).to(dtype)
    ids = torch.tensor([[1, 2, 3], [4, 4, 0]])
    weights = {name: w.detach() for name, w in emb.named_parameters()}

    def loss(weights, sentence):
        return torch.func.functional_call(emb, weights, (sentence,)).square().sum()

    found = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(weights, ids)
    for i, sentence in enumerate(ids):
        emb.zero_grad()
        emb(sentence).square().sum().backward()
        for name, weight in emb.named_parameters():
            assert_close(found[name][i], weight.grad)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_damping_is_as_exact_as_the_table_at_any_position(dtype):
    emb = WaveEmbedding(9, 3, damping=True)
    with torch.no_grad():
        emb.damping.weight.fill_(-6.0)
        emb.damping.weight[2] = -18.0
    positions = torch.tensor([257, 301, 70_000])
    ids = torch.tensor([1, 2, 2])
    small = copy.deepcopy(emb).to(dtype)
    exact = copy.deepcopy(small).double()(ids, positions)
    assert_close(small(ids, positions).double(), exact, rtol=0.02, atol=0.02)
