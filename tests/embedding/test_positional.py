"""The embeddings the paper compares with, and how they relate to waves (App. A)."""

import pytest
import torch
from torch.testing import assert_close

from tolerance import approx, rounding
from wordwave import EMBEDDINGS, WaveEmbedding, build_embedding
from wordwave import complex as cx

V, D = 7, 6
IDS = torch.tensor([[3, 1, 4, 1, 5], [2, 6, 5, 0, 0]])
BLIND = ("none", "complex-vanilla")
SIGHTED = ("pe", "tpe", "complex-order")
COMPLEX = ("complex-vanilla", "complex-order")

for_each_kind = pytest.mark.parametrize("kind", EMBEDDINGS)


def position_part(emb, length):
    """What `tpe` adds: its output for words whose own vector is 0. Shape: (L, D)"""
    emb.words.weight.data.zero_()
    return emb(torch.ones(length, dtype=torch.long))


def test_the_five_kinds_of_the_paper_have_names():
    assert set(EMBEDDINGS) == {"none", "pe", "tpe", "complex-vanilla", "complex-order"}


@for_each_kind
def test_a_built_embedding_says_its_field_and_width(kind):
    emb = build_embedding(kind, V, D)
    assert emb.field == ("complex" if kind in COMPLEX else "real")
    assert emb.out_dim == (2 * D if kind in COMPLEX else D)
    assert emb(IDS).shape == (2, 5, emb.out_dim)
    assert emb(IDS[0]).shape == (5, emb.out_dim)
    assert emb(IDS[:, :0]).shape == (2, 0, emb.out_dim)


@pytest.mark.parametrize("kind", BLIND)
def test_position_blind_kinds_ignore_positions(kind):
    emb = build_embedding(kind, V, D)
    assert torch.equal(emb(IDS), emb(IDS, positions=torch.tensor([9, 8, 7, 6, 5])))
    assert torch.equal(emb(IDS[:, :4].flip(1)), emb(IDS[:, :4]).flip(1))


@pytest.mark.parametrize("kind", SIGHTED)
def test_the_others_see_where_a_word_stands(kind):
    emb = build_embedding(kind, V, D)
    same = emb(torch.tensor([3, 3, 3]))
    assert not torch.allclose(same[0], same[1]) and not torch.allclose(same[1], same[2])
    assert_close(emb(IDS), emb(IDS, positions=torch.arange(1, 6)))
    assert_close(emb(IDS[:, 2:3], positions=3), emb(IDS)[:, 2:3])


@for_each_kind
@pytest.mark.parametrize("padding_idx", [0, 5])
def test_padding_is_zero_and_never_trained(kind, padding_idx):
    emb = build_embedding(kind, V, D, padding_idx=padding_idx)
    optimizer = torch.optim.Adam(emb.parameters(), lr=0.1)
    for _ in range(2):
        z = emb(IDS)
        assert (z[padding_idx == IDS] == 0).all() and (z[padding_idx != IDS] != 0).any(-1).all()
        optimizer.zero_grad()
        (z - 1).square().sum().backward()
        optimizer.step()
    only_padding = torch.full((1, 3), padding_idx)
    gradients = torch.autograd.grad(emb(only_padding).sum(), list(emb.parameters()))
    assert all((g == 0).all() for g in gradients)


@for_each_kind
def test_without_padding_every_id_is_a_word(kind):
    assert (build_embedding(kind, V, D, padding_idx=None)(IDS) != 0).any(-1).all()


@for_each_kind
def test_sparse_gradients_equal_dense_ones(kind):
    dense, sparse = build_embedding(kind, V, D), build_embedding(kind, V, D, sparse=True)
    sparse.load_state_dict(dense.state_dict())
    for emb in (dense, sparse):
        emb(IDS).square().sum().backward()
    n_sparse = 0
    for a, b in zip(dense.parameters(), sparse.parameters(), strict=True):
        n_sparse += b.grad.is_sparse
        assert_close(a.grad, b.grad.to_dense())
    assert n_sparse == (2 if kind in COMPLEX else 1)


@for_each_kind
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_pretrained_vectors_are_taken_in_the_default_dtype(kind, dtype):
    vectors = (10 * torch.randn(V, D)).to(dtype)
    emb = build_embedding(kind, V, D, vectors=vectors)
    assert all(p.dtype == torch.float32 for p in emb.parameters())
    table = emb.amplitude if kind == "complex-order" else emb.words
    assert_close(table.weight[1:], vectors[1:].float())


@for_each_kind
def test_frozen_vectors_do_not_move(kind):
    emb = build_embedding(kind, V, D, vectors=torch.ones(V, D), freeze_vectors=True)
    assert sum(p.numel() for p in emb.parameters() if not p.requires_grad) == V * D
    table = emb.amplitude if kind == "complex-order" else emb.words
    assert not table.weight.requires_grad


@pytest.mark.parametrize("dim", [2, 6, 64])
def test_tpe_is_the_imaginary_and_real_part_of_a_word_shared_wave(dim):
    """App. A: PE_2k = Im, PE_2k+1 = Re of e^{i·ω_k·pos}."""
    tpe = build_embedding("tpe", V, dim)
    wave = WaveEmbedding(
        V,
        dim // 2,
        share_frequency="word",
        share_amplitude="word",
        frequency_init=tpe.frequencies,
        vectors=torch.ones(1, dim // 2),
    )
    for positions in (None, 10_000, torch.arange(300) - 0.5):
        ids = torch.ones(300, dtype=torch.long)
        tpe.words.weight.data.zero_()
        z = wave(ids, positions=positions)
        pairs = torch.stack([cx.imag(z), cx.real(z)], dim=-1).flatten(-2)
        assert_close(tpe(ids, positions=positions), pairs, **rounding())


def test_tpe_starts_where_a_word_shared_wave_starts_by_default():
    wave = WaveEmbedding(V, D // 2, share_frequency="word")
    frequencies = build_embedding("tpe", V, D).frequencies
    assert_close(wave.frequency.weight.detach()[0], frequencies)


def test_tpe_is_the_formula_of_vaswani():
    added = position_part(build_embedding("tpe", V, D), 20)
    for pos in range(1, 21):
        for k in range(D // 2):
            angle = torch.tensor(pos / 10_000 ** (2 * k / D), dtype=torch.float64)
            assert added[pos - 1, 2 * k].item() == approx(angle.sin().item(), terms=4)
            assert added[pos - 1, 2 * k + 1].item() == approx(angle.cos().item(), terms=4)


def test_tpe_keeps_its_angles_when_a_model_is_cast_to_bfloat16():
    """A frequency rounded to 8 bits is a radian off after a thousand words."""
    emb = build_embedding("tpe", V, 64)
    exact = position_part(emb, 1000)
    assert_close(position_part(emb.bfloat16(), 1000).float(), exact, rtol=0, atol=0.01)


@pytest.mark.parametrize("kind", ["pe", "tpe"])
def test_position_scale_scales_the_position_alone(kind):
    emb = build_embedding(kind, 500, 50, position_scale=0.1)
    emb.words.weight.data.zero_()
    size = emb(torch.ones(400, dtype=torch.long)).square().mean().sqrt().item()
    assert size == pytest.approx(0.1 if kind == "pe" else 0.1 * 0.5**0.5, rel=0.05)


def test_pe_adds_the_learned_vector_of_the_place():
    emb = build_embedding("pe", V, D, max_length=5)
    expected = emb.words.weight[IDS] + emb.places[torch.arange(1, 6)]
    assert_close(emb(IDS)[IDS != 0], expected[IDS != 0])
    assert_close(emb(IDS[:, :1], positions=0)[:, 0], emb.words.weight[IDS[:, 0]] + emb.places[0])


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8])
def test_pe_takes_positions_of_any_integer_type(dtype):
    emb = build_embedding("pe", V, D)
    positions = torch.arange(5)
    assert torch.equal(emb(IDS, positions=positions.to(dtype)), emb(IDS, positions=positions))


def test_complex_vanilla_is_amplitude_and_angle(oracle):
    emb = build_embedding("complex-vanilla", V, D)
    r, theta = emb.words.weight[IDS].double(), emb.phase.weight[IDS].double()
    expected = torch.polar(r.abs(), theta + torch.pi * (r < 0))
    assert_close(oracle.native(emb(IDS)), expected, **rounding(terms=8))
    assert sum(p.numel() for p in emb.parameters()) == 2 * V * D
