"""The training loop: it learns, repeats itself under a seed, and keeps its options' promises."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from wordwave.config_io import with_settings
from wordwave.lab.tasks import probe_task
from wordwave.models.classifier import Classifier
from wordwave.models.config import ModelConfig
from wordwave.tasks.classification import ClassificationTask, LabelledSentences, accuracy
from wordwave.text.batching import Sentences, bucketed, by_length
from wordwave.training.config import TrainingConfig
from wordwave.training.loop import Epoch, Step, Training
from wordwave.training.optim import lr_factor, optimizers_for
from wordwave.training.positions import random_positions, spread
from wordwave.training.run import load_state, state_of

QUICK = TrainingConfig(epochs=4, learning_rate=0.03, batch_size=64)


def examples(n, *, seed=0, test=False):
    data = probe_task("precedence").examples(n, (10, 20), seed=seed, test=test)
    return LabelledSentences(Sentences.from_padded(data.ids), data.targets)


def begun(settings, embedding="complex-order", n=1000, dev=None, dropout=0.1):
    torch.manual_seed(settings.seed)
    config = with_settings(
        ModelConfig(),
        embedding=embedding,
        dim=16,
        hidden_dim=16,
        pooling="sum",
        dropout=dropout,
        word_scale=1.0,
    )
    model = Classifier(config, len(probe_task("precedence").words), 2, sparse=settings.row_sparse)
    return Training(model, ClassificationTask(examples(n), dev, group=2), settings)


def trained(settings, **options):
    training = begun(settings, **options)
    reports = list(training.run())
    return training.model, [r for r in reports if isinstance(r, Epoch)]


def test_a_bag_of_waves_learns_precedence_and_a_bag_of_words_cannot():
    waves, epochs = trained(replace(QUICK, epochs=8), n=4000)
    test = examples(500, seed=9, test=True)
    assert epochs[-1].loss < 0.5 * epochs[0].loss
    assert accuracy(waves, test) > 0.9
    words, _ = trained(QUICK, embedding="none")
    assert accuracy(words.double(), test) == 0.5


@pytest.mark.parametrize("row_sparse", [True, False])
def test_same_seed_same_weights_and_another_seed_other_ones(row_sparse):
    settings = replace(QUICK, epochs=2, row_sparse=row_sparse)
    first, again = (trained(settings)[0].state_dict() for _ in range(2))
    assert all(torch.equal(first[k], again[k]) for k in first)
    other = trained(replace(settings, seed=1))[0].state_dict()
    assert any(not torch.equal(first[k], other[k]) for k in first)


@pytest.mark.parametrize("stop_after", [3, 7, 8, 16, 17, 24])
@pytest.mark.parametrize("embedding", ["complex-order", "pe", "complex-vanilla"])
def test_going_on_from_a_state_ends_with_the_weights_of_never_having_stopped(embedding, stop_after):
    settings = replace(QUICK, epochs=3, word_dropout=0.1, random_positions=40)
    whole = begun(settings, embedding, n=500, dev=examples(100, seed=3))
    list(whole.run())
    first = begun(settings, embedding, n=500, dev=examples(100, seed=3))
    for n, _ in enumerate(first.run()):
        if n == stop_after:
            break
    tensors, progress = state_of(first)
    second = begun(replace(settings), embedding, n=500, dev=examples(100, seed=3))
    with torch.no_grad():
        for parameter in second.model.parameters():
            parameter.add_(1.0)  # whatever it was, the state counts
    load_state(second, {k: v.clone() for k, v in tensors.items()}, progress)
    list(second.run())
    for name, weight in whole.model.state_dict().items():
        assert torch.equal(weight, second.model.state_dict()[name]), name
    assert whole.progress == second.progress


def test_a_state_of_other_examples_or_of_more_processes_is_refused():
    first = begun(QUICK, n=100)
    tensors, progress = state_of(first)
    with pytest.raises(ValueError, match="it was trained on other examples"):
        load_state(begun(QUICK, n=100), tensors, progress | {"examples": "others"})
    with pytest.raises(ValueError, match="it needs 2 processes, got 1"):
        load_state(begun(QUICK, n=100), tensors, progress | {"n_processes": 2})


def test_the_best_epoch_by_dev_is_kept_and_patience_ends_the_training():
    dev = examples(200, seed=5)
    training = begun(replace(QUICK, epochs=30, patience=3, learning_rate=0.1), dev=dev)
    epochs = [r for r in training.run() if isinstance(r, Epoch)]
    best = max(epochs, key=lambda e: e.scores["accuracy"])
    assert len(epochs) == min(best.epoch + 3, 30)
    assert accuracy(training.model, dev) == best.scores["accuracy"]
    assert [e.is_best for e in epochs].count(True) >= 1


def test_an_interrupt_never_leaves_the_best_weights_of_two_epochs(monkeypatch):
    training = begun(replace(QUICK, epochs=8), dev=examples(100, seed=3))
    epochs = (report for report in training.run() if isinstance(report, Epoch))
    assert next(epochs).is_best
    copy, n_copied = torch.Tensor.copy_, 0

    def interrupted(tensor, *others):
        nonlocal n_copied
        n_copied += any(tensor is best for best in kept)
        if n_copied == 2:
            raise KeyboardInterrupt
        return copy(tensor, *others)

    kept = list(training.best.values())
    monkeypatch.setattr(torch.Tensor, "copy_", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(epochs)
    assert training.best == {}


def test_the_next_figure_decides_between_looks_that_tie_and_patience_does_not_count_it():
    told = iter([(math.nan, 0.0), (0.7, -0.9), (0.7, -0.6), (0.7, -0.8), (0.7, -0.5)])
    training = begun(replace(QUICK, epochs=5, patience=3), n=200)

    class Told(ClassificationTask):
        def score(self, model):
            return dict(zip(("accuracy", "likelihood"), next(told), strict=True))

    training.task = Told(training.task.train, None, group=2)
    reports = [r for r in training.run() if isinstance(r, Epoch)]
    assert [r.is_best for r in reports] == [False, True, True, False, True]
    assert training.progress.best_epoch == 5 and training.progress.best_score == 0.7


def test_batches_add_up_to_one_step_as_if_they_were_one():
    plain = replace(QUICK, epochs=2, batch_size=64, word_dropout=0.0, row_sparse=False)
    config = {"n": 500, "dropout": 0.0}
    whole = begun(replace(plain, batch_size=500), **config)
    parts = begun(replace(plain, grad_accumulation=8), **config)
    losses = [[r.loss for r in t.run() if isinstance(r, Epoch)] for t in (whole, parts)]
    assert parts.progress.step == whole.progress.step == 2
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_steps_end_a_training_and_judgements_come_as_often_as_asked():
    settings = replace(QUICK, epochs=50, max_steps=21, eval_every=8)
    training = begun(settings, n=500, dev=examples(100, seed=3))
    reports = list(training.run())
    assert sum(isinstance(r, Step) for r in reports) == 21 == training.n_steps
    assert [r.step for r in reports if isinstance(r, Epoch)] == [8, 16, 21]


@pytest.mark.parametrize(
    ("epochs", "per_epoch", "expected"),
    [(None, 2, 500), (None, 3, 334), (None, 124, 9), (None, 125, 8), (None, 10**6, 8), (4, 2, 4)],
)
def test_small_training_sets_get_more_epochs_unless_told_how_many(epochs, per_epoch, expected):
    assert TrainingConfig(epochs=epochs).n_epochs(per_epoch) == expected


def test_steps_tell_the_loss_and_the_words():
    training = begun(replace(QUICK, epochs=1), n=200)
    steps = [r for r in training.run() if isinstance(r, Step)]
    assert [s.step for s in steps] == [1, 2, 3, 4] and steps[0].n_steps == 4
    assert sum(s.n_words for s in steps) == int(examples(200).sentences.lengths.sum())


def test_the_penalty_silences_words_without_a_task():
    settings = replace(QUICK, epochs=8, row_sparse=False)
    loud, _ = trained(settings)
    quiet, _ = trained(replace(settings, amplitude_penalty=30.0))
    task = probe_task("precedence")
    fillers = [i for i, word in enumerate(task.words) if word.startswith("w")]
    marked = [task.words.index("A"), task.words.index("B")]
    level = [m.embedding.vectors.detach().abs().mean(1) for m in (loud, quiet)]
    assert level[1][fillers].mean() < 0.5 * level[0][fillers].mean()
    assert level[1][marked].mean() > 2 * level[1][fillers].mean()


def test_a_loss_that_is_no_number_ends_in_one_line_that_says_what_to_do():
    training = begun(QUICK, n=200)
    with torch.no_grad():
        training.model.embedding.amplitude.weight.fill_(float("nan"))
    with pytest.raises(ValueError, match=r"the loss is nan at step 1: lower learning_rate"):
        list(training.run())


@pytest.mark.parametrize("sparse", [True, False])
def test_frequencies_get_a_rate_and_a_decay_of_their_own_and_embeddings_no_decay(sparse):
    model = Classifier(ModelConfig(dim=4), 10, 2, sparse=sparse)
    settings = replace(QUICK, weight_decay=0.1, frequency_weight_decay=0.2, vector_lr_scale=0.5)
    groups = [g for o in optimizers_for(model, settings) for g in o.param_groups]
    of = {id(p): g for g in groups for p in g["params"]}
    assert of[id(model.embedding.frequency.weight)]["lr"] == pytest.approx(0.003)
    assert of[id(model.embedding.amplitude.weight)]["lr"] == pytest.approx(0.015)
    assert of[id(model.embedding.frequency.weight)]["weight_decay"] == 0.2
    assert of[id(model.embedding.amplitude.weight)]["weight_decay"] == 0
    assert of[id(model.head[1].weight)]["weight_decay"] == 0.1
    assert {id(p) for p in model.parameters()} == set(of)


def test_rates_rise_then_fall_or_stay():
    cycle = [lr_factor("one-cycle", step, 100, 0.1) for step in range(100)]
    assert cycle[0] == 0.1 and cycle[9] == 1 and cycle[10] == 1 and cycle[99] < 0.02
    assert cycle[10:] == sorted(cycle[10:], reverse=True)
    cosine = [lr_factor("cosine", step, 100, 0.1) for step in range(100)]
    assert cosine[55] == pytest.approx(0.5) and cosine[99] < 0.01
    root = [lr_factor("inverse-sqrt", step, 100, 0.1) for step in range(100)]
    assert root[:10] == cycle[:10] and root[39] == pytest.approx(0.5)
    flat = [lr_factor("constant", step, 100, 0.1) for step in range(100)]
    assert flat[:10] == cycle[:10] and set(flat[9:]) == {1.0}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
        ({"learning_rate": 0.0}, "learning_rate must be above 0, got 0.0"),
        ({"learning_rate": float("nan")}, "learning_rate must be above 0, got nan"),
        ({"word_dropout": 1.0}, r"word_dropout must be in \[0, 1\), got 1.0"),
        ({"amplitude_penalty": 1.0}, "needs row_sparse=False"),
        ({"patience": -1}, "patience must be at least 0, got -1"),
    ],
)
def test_wrong_settings_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        TrainingConfig(**wrong)


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


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(1, 200))
def test_batches_by_length_hold_every_row_once_and_no_more_words_than_allowed(lengths, most):
    lengths = torch.tensor(lengths)
    batches = by_length(lengths, most)
    assert sorted(torch.cat(batches).tolist()) == list(range(len(lengths)))
    for rows in batches:
        assert len(rows) == 1 or len(rows) * int(lengths[rows].max()) <= most
