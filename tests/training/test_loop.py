"""The training loop: it learns, repeats itself under a seed, and keeps its options' promises."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from wordwave.data.probes import probe
from wordwave.models.classifier import Classifier
from wordwave.models.config import ModelConfig
from wordwave.text.batches import bucketed
from wordwave.training.loop import accuracy, optimiser_for, train
from wordwave.training.positions import random_positions, spread
from wordwave.training.settings import TrainingSettings

QUICK = TrainingSettings(epochs=4, learning_rate=0.03, batch_size=64)


def trained(settings, embedding="complex-order", n=1000):
    task = probe("precedence")
    data = task.examples(n, (10, 20), seed=0)
    torch.manual_seed(settings.seed)
    config = ModelConfig(embedding=embedding, dim=16, hidden_dim=16, pooling="sum", dropout=0.1)
    model = Classifier(config, len(task.words), 2)
    losses = []
    train(model, data.ids, data.targets, settings, group=2, on_epoch=lambda _, x: losses.append(x))
    return model, losses, data


def test_a_bag_of_waves_learns_precedence_and_a_bag_of_words_cannot():
    waves, losses, _ = trained(replace(QUICK, epochs=8), n=4000)
    test = probe("precedence").examples(500, (10, 20), seed=9, test=True)
    assert losses[-1] < 0.5 * losses[0]
    assert accuracy(waves, test.ids, test.targets) > 0.9
    words, _, _ = trained(QUICK, embedding="none")
    assert accuracy(words.double(), test.ids, test.targets) == 0.5


def test_same_seed_same_weights_and_another_seed_other_ones():
    first, again = (trained(QUICK)[0].state_dict() for _ in range(2))
    assert all(torch.equal(first[k], again[k]) for k in first)
    other = trained(replace(QUICK, seed=1))[0].state_dict()
    assert any(not torch.equal(first[k], other[k]) for k in first)


def test_the_penalty_silences_words_without_a_task():
    loud, _, _ = trained(replace(QUICK, epochs=8))
    quiet, _, _ = trained(replace(QUICK, epochs=8, amplitude_penalty=30.0))
    task = probe("precedence")
    fillers = [i for i, word in enumerate(task.words) if word.startswith("w")]
    marked = [task.words.index("A"), task.words.index("B")]
    level = [m.embedding.meaning.detach().abs().mean(1) for m in (loud, quiet)]
    assert level[1][fillers].mean() < 0.5 * level[0][fillers].mean()
    assert level[1][marked].mean() > 2 * level[1][fillers].mean()


def test_frequencies_get_a_rate_of_their_own_and_embeddings_no_decay():
    model = Classifier(ModelConfig(dim=4), 10, 2)
    groups = optimiser_for(model, replace(QUICK, weight_decay=0.1)).param_groups
    of = {id(p): g for g in groups for p in g["params"]}
    assert of[id(model.embedding.frequency.weight)]["lr"] == pytest.approx(0.003)
    assert of[id(model.embedding.amplitude.weight)]["weight_decay"] == 0
    assert of[id(model.head[1].weight)]["weight_decay"] == 0.1


@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=6), st.integers(12, 500), st.integers(0, 99)
)
def test_random_positions_are_distinct_increasing_and_within_reach(lengths, highest, seed):
    mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    generator = torch.Generator().manual_seed(seed)
    positions = random_positions(mask, highest, generator)
    assert (positions[~mask] == 0).all()
    for row, n in zip(positions, lengths, strict=True):
        places = row[:n].tolist()
        assert places == sorted(set(places)) and places[0] >= 1 and places[-1] <= highest


def test_random_positions_reach_both_ends_and_refuse_too_short_a_range():
    mask = torch.ones(4000, 3, dtype=torch.bool)
    positions = random_positions(mask, 10, torch.Generator().manual_seed(0))
    assert positions.min() == 1 and positions.max() == 10
    with pytest.raises(ValueError, match="at least the longest sentence, 3, got 2"):
        random_positions(mask, 2)


def test_the_spread_grows_to_the_highest_position_and_never_leaves_neighbours_behind():
    generator = torch.Generator().manual_seed(0)
    for progress, highest in ((0.0, 20), (0.25, 200), (0.5, 2000), (1.0, 2000)):
        drawn = [spread(progress, 20, 2000, generator) for _ in range(400)]
        assert max(drawn) == highest
        assert min(drawn) < 20 * 1.1
        assert 0.4 < sum(d == highest for d in drawn) / 400 <= 1.0


@given(st.integers(1, 60), st.integers(2, 16), st.integers(0, 99))
def test_batches_hold_every_pair_once_and_together(n_pairs, batch_size, seed):
    lengths = torch.randint(1, 30, (n_pairs,)).repeat_interleave(2)
    generator = torch.Generator().manual_seed(seed)
    batches = bucketed(lengths, batch_size, generator=generator, group=2)
    assert sorted(torch.cat(batches).tolist()) == list(range(2 * n_pairs))
    for batch in batches:
        assert len(batch) <= max(batch_size, 2)
        assert set(batch.tolist()) == {int(i) ^ 1 for i in batch}
