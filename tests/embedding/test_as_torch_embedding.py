"""A WaveEmbedding in the place of torch.nn.Embedding: its weight, its size, device and dtype."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from wordwave.embedding import EMBEDDINGS, WaveEmbedding, build_embedding

SHARES = [
    {},
    {"phase": True, "damping": True},
    {"share_frequency": "word", "share_amplitude": "dim", "phase": True, "share_phase": "dim"},
    {"share_amplitude": "word"},
]


@pytest.mark.parametrize("options", SHARES)
def test_the_weight_is_every_word_at_position_0(options):
    embedding = WaveEmbedding(7, 4, **options)
    assert embedding.weight.shape == (7, 8)
    torch.testing.assert_close(embedding.weight, embedding(torch.arange(7), positions=0))
    assert not embedding.weight[0].any()  # the padding


def test_the_weight_can_be_used_by_an_output_layer_but_not_tied_to_it():
    embedding, head = WaveEmbedding(7, 4, phase=True), nn.Linear(8, 7)
    F.linear(torch.randn(3, 8), embedding.weight).square().sum().backward()
    assert embedding.amplitude.weight.grad.abs().sum() > 0
    with pytest.raises(TypeError, match=r"cannot assign .* as parameter 'weight'"):
        head.weight = embedding.weight
    assert "weight" not in dict(embedding.named_parameters())
    assert "weight" not in embedding.state_dict()


@pytest.mark.parametrize("options", SHARES)
@pytest.mark.parametrize("size", [12, 7, 4, 1])
def test_resizing_keeps_the_words_that_stay(options, size):
    embedding = WaveEmbedding(7, 4, freeze_frequency=True, **options)
    kept = min(size, 7)
    before = embedding(torch.arange(kept))
    embedding.resize(size)
    torch.testing.assert_close(embedding(torch.arange(kept)), before)
    assert embedding.vocab_size == size and embedding.weight.shape == (size, 8)
    assert embedding.sensitivity().shape == (size,)
    assert not embedding.frequency.weight.requires_grad and embedding.amplitude.weight.requires_grad
    with pytest.raises(ValueError, match=rf"ids must be in \[0, {size}\)"):
        embedding(torch.tensor([size]))


def test_new_words_are_as_spread_as_the_others():
    torch.manual_seed(0)
    embedding = WaveEmbedding(2_000, 3)
    with torch.no_grad():
        embedding.amplitude.weight.mul_(5).add_(1)
        embedding.amplitude.zero_padding()
    embedding.resize(4_000)
    new = embedding.amplitude.weight[2_000:]
    # 2,000 draws: the mean is known to 0.11, the spread to 0.08; these are six times as much.
    torch.testing.assert_close(new.mean(0), torch.ones(3), atol=0.7, rtol=0)
    torch.testing.assert_close(new.std(0), torch.full((3,), 5.0), atol=0.5, rtol=0)
    frequency = embedding.frequency.weight  # sinusoidal: the same for every word
    torch.testing.assert_close(frequency[2_000:], frequency[1:2].expand(2_000, -1))


def test_a_size_that_leaves_no_padding_is_refused():
    with pytest.raises(ValueError, match="padding_idx must be None or in"):
        WaveEmbedding(7, 4, padding_idx=5).resize(3)


@pytest.mark.parametrize("kind", EMBEDDINGS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_device_and_dtype_are_those_asked_for(kind, dtype):
    embedding = build_embedding(kind, 7, 4, device="cpu", dtype=dtype)
    assert {p.dtype for p in embedding.parameters()} == {dtype}
    assert embedding(torch.tensor([1, 2])).dtype == dtype
    empty = build_embedding(kind, 10**12, 4, device="meta")  # allocates nothing
    assert {p.device.type for p in empty.parameters()} == {"meta"}


@pytest.mark.parametrize("kind", EMBEDDINGS)
def test_without_them_all_is_as_before(kind):
    torch.manual_seed(0)
    one = build_embedding(kind, 7, 4)
    torch.manual_seed(0)
    other = build_embedding(kind, 7, 4, device="cpu", dtype=torch.float32)
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("dtype", [torch.int64, torch.complex64])
def test_a_dtype_that_holds_no_real_numbers_is_refused(dtype):
    with pytest.raises(ValueError, match="dtype must be a real floating-point one, got torch"):
        WaveEmbedding(7, 4, dtype=dtype)


def bert(tie):
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, tie_word_embeddings=tie,
    )  # fmt: skip
    model = transformers.BertForMaskedLM(config)
    model.set_input_embeddings(WaveEmbedding(50, 16))
    return model.eval()


def test_a_hugging_face_model_is_resized_after_its_waves():
    model = bert(tie=False)
    model.tie_weights()
    ids = torch.tensor([[3, 1, 4, 1, 5]])
    before = model(ids).logits
    with pytest.raises(TypeError, match="different resize function"):
        model.resize_token_embeddings(60)
    model.get_input_embeddings().resize(60)
    model.resize_token_embeddings(60)
    assert model.config.vocab_size == 60
    after = model(torch.tensor([[3, 1, 4, 1, 5]])).logits
    torch.testing.assert_close(after[..., :50], before)
    assert model(torch.tensor([[59]])).logits.shape == (1, 1, 60)


def test_a_hugging_face_model_that_ties_its_weights_is_refused():
    with pytest.raises((ValueError, AttributeError, TypeError), match="weight"):
        bert(tie=True).tie_weights()
