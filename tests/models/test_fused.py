"""A bag trained by kernels is the bag that autograd and the optimizers train."""

from dataclasses import replace

import pytest
import torch

from wordwave.compiled import SWITCH, compiled
from wordwave.config_io import with_settings
from wordwave.embedding.summed import Added, bigrams_of, summed
from wordwave.embedding.table import Bigrams
from wordwave.errors import WordwaveError
from wordwave.models.classifier import Classifier
from wordwave.models.config import ClassifierConfig, ModelConfig
from wordwave.tasks import classification
from wordwave.tasks.classification import ClassificationTask, LabelledSentences
from wordwave.text.batching import Sentences
from wordwave.text.ngrams import repeated_bigrams
from wordwave.training.config import TrainingConfig
from wordwave.training.loop import Step, Training
from wordwave.training.run import load_state, state_of

needs_numba = pytest.mark.skipif(compiled() is None, reason="needs numba")
CASES = {
    "default": {},
    "none": {"embedding": "none"},
    "sum": {"pooling": "sum"},
    "no hidden layer": {"hidden_dim": 0},
    "no dropout": {"dropout": 0.0},
    "shared": {"share_frequency": "word"},
    "phases": {"phase": True},
    "frozen": {"freeze_frequency": True},
    "complex-vanilla": {"embedding": "complex-vanilla"},
    "weights": {"weighted": True},
    "weights, no hidden layer": {"weighted": True, "hidden_dim": 0},
    "bigrams": {"encoder": "bag"},
    "bigrams, no dropout": {"encoder": "bag", "dropout": 0.0, "bigram_dropout": 0.0},
    "bigrams, phases": {"encoder": "bag", "phase": True},
    "bigrams, shared": {"encoder": "bag", "share_frequency": "word"},
    "bigrams, none": {"encoder": "bag", "embedding": "none"},
    "long": {"encoder": "bag", "longest": 400},
    "long, with dropout of words": {"longest": 400},
    "longer than vectors are kept": {"encoder": "bag", "longest": 4400},
    "several labels": {"several": True},
    "several labels, weights": {"several": True, "weighted": True},
    "several labels, weights of labels": {"several": True, "weighted": "labels"},
}
SETTINGS = TrainingConfig(
    epochs=3, batch_size=16, learning_rate=0.01, weight_decay=0.01, frequency_weight_decay=0.1
)


def examples(n=120, longest=11):
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, longest + 1, (n,), generator=generator)
    ids = torch.randint(2, 30, (int(lengths.sum()),), generator=generator)
    sentences = Sentences(ids, lengths)
    return LabelledSentences(sentences, ids[sentences.starts] % 3)


def training(settings=SETTINGS, *, weighted=False, several=False, longest=11, **model):
    torch.manual_seed(0)
    kind = ModelConfig(dim=8, hidden_dim=8, dropout=0.2)
    if model.get("encoder") == "bag":
        kind = ClassifierConfig(dim=8, hidden_dim=8, dropout=0.2, n_bigrams=40, ngrams=False)
    config = with_settings(kind, **model)
    network = Classifier(config, 30, 3, sparse=settings.row_sparse)
    train = examples(longest=longest)
    if network.bigrams is not None:
        network.bigrams.assign(repeated_bigrams(train.sentences, 30))
    if weighted:
        shape = (120, 3) if several and weighted == "labels" else (120,)
        weights = torch.rand(shape, generator=torch.Generator().manual_seed(1))
        train = replace(train, weights=weights)
    if several:
        train = replace(train, targets=torch.nn.functional.one_hot(train.targets, 3).cumsum(1) > 0)
    task = ClassificationTask(train, word_dropout=settings.word_dropout)
    return Training(network, task, settings)


def losses(run):
    return [report.loss for report in run.run()]


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, other[name], rtol=1e-3, atol=2e-5)


@needs_numba
@pytest.mark.parametrize("case", CASES)
def test_it_equals_autograd_and_the_optimizers(case):
    fused, plain = training(**CASES[case]), training(**CASES[case])
    assert fused.fused is not None
    plain.fused = None
    assert losses(fused) == pytest.approx(losses(plain), rel=1e-4)
    ours, _ = state_of(fused)
    theirs, _ = state_of(plain)
    assert_same(ours, theirs)


@needs_numba
@pytest.mark.parametrize("first", [True, False])
def test_a_checkpoint_of_one_is_continued_by_the_other(first):
    whole, begun, resumed = training(), training(), training()
    losses(whole)
    if not first:
        begun.fused = None
    steps = begun.run()
    for _ in range(11):
        next(steps)
    load_state(resumed, *state_of(begun))
    if first:
        resumed.fused = None
    losses(resumed)
    assert_same(whole.model.state_dict(), resumed.model.state_dict())


@needs_numba
def test_resumed_by_kernels_it_is_the_same_bit_for_bit():
    whole, begun, resumed = training(), training(), training()
    losses(whole)
    steps = begun.run()
    for _ in range(13):
        next(steps)
    load_state(resumed, *state_of(begun))
    losses(resumed)
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, resumed.model.state_dict()[name]), name


@needs_numba
@pytest.mark.parametrize("case", ["default", "bigrams", "weights", "no dropout", "long"])
def test_steps_taken_at_once_are_those_taken_one_by_one_bit_for_bit(case, monkeypatch):
    for settings in (SETTINGS, replace(SETTINGS, eval_every=3), replace(SETTINGS, max_steps=11)):
        at_once = training(settings, **CASES[case])
        reports = list(at_once.run())
        assert [r.step for r in reports if isinstance(r, Step)] == [*range(1, at_once.n_steps + 1)]
        monkeypatch.setattr(classification, "MOST_STEPS", 1)
        one_by_one = training(settings, **CASES[case])
        assert losses(one_by_one) == [report.loss for report in reports]
        monkeypatch.undo()
        assert one_by_one.progress == at_once.progress
        for name, tensor in state_of(one_by_one)[0].items():
            assert torch.equal(tensor, state_of(at_once)[0][name]), name


@needs_numba
def test_several_steps_are_taken_at_once_and_a_report_never_runs_ahead_of_them():
    run = training(encoder="bag")
    steps = run.run()
    assert next(steps).step == 1
    assert run.progress.step == 8 == len(run.batches(0))  # an epoch


@needs_numba
def test_a_loss_that_is_not_finite_ends_steps_that_are_taken_at_once():
    run = training(encoder="bag")
    bad = run.batches(0)[4][0]
    weights = torch.ones(120).index_fill(0, bad, float("inf"))
    run.task = replace(run.task, train=replace(run.task.train, weights=weights))
    run.fused = run.task.fused(run.model, run.optimizers)
    with pytest.raises(WordwaveError, match="at step 5: lower learning_rate"):
        losses(run)
    assert run.progress.step == 4
    assert all(tensor.isfinite().all() for tensor in run.model.state_dict().values())


@pytest.mark.parametrize("case", CASES)
def test_without_numba_it_learns_the_same(case, monkeypatch):
    with_it = losses(training(**CASES[case]))
    monkeypatch.setenv(SWITCH, "1")
    without = training(**CASES[case])
    assert without.fused is None
    assert losses(without) == pytest.approx(with_it, rel=1e-4)


def test_other_models_and_settings_are_left_to_autograd():
    others = [{"encoder": "cnn"}, {"pooling": "max"}, {"readout": "magnitude"}]
    others += [{"embedding": "tpe"}, {"damping": True}, {"views": ("start", "end")}]
    for model in others:
        assert training(**model).fused is None
    for settings in ({"row_sparse": False}, {"grad_accumulation": 2}):
        assert training(replace(SETTINGS, **settings)).fused is None


@needs_numba
def test_random_positions_and_divergence():
    fused, plain = (training(replace(SETTINGS, random_positions=30)) for _ in range(2))
    plain.fused = None
    assert losses(fused) == pytest.approx(losses(plain), rel=1e-4)
    broken = training()
    with torch.no_grad():
        broken.model.head[-1].weight.fill_(float("nan"))
    with pytest.raises(ValueError, match="the loss is nan at step 1: lower learning_rate"):
        losses(broken)


@needs_numba
def test_what_is_out_of_range_is_refused():
    run = training(encoder="bag")
    step, rows = run.fused, torch.arange(4)
    batch, targets = run.task.train.sentences.batch(rows), run.task.train.targets[rows]
    wrong = [
        (batch._replace(ids=batch.ids + 29), targets),
        (batch._replace(ids=-batch.ids), targets),
        (batch._replace(starts=batch.starts + 1), targets),
        (batch._replace(starts=batch.starts.flip(0)), targets),
        (batch._replace(weights=batch.weights[1:]), targets),
        (batch, targets + 2),
        (batch, targets[1:]),
    ]
    before = {name: tensor.clone() for name, tensor in run.model.state_dict().items()}
    for sizes in ([4], [3, 1]):
        draws = step.bag.draws(sizes, torch.manual_seed)
        for given in wrong:
            with pytest.raises(WordwaveError):
                step.bag.steps(*given, None, draws, sizes, 1.0)
    for sizes in ([3], [5], [4, 0], [5, -1]):  # not all sentences are of a step
        draws = step.bag.draws([4] * len(sizes), torch.manual_seed)
        with pytest.raises(WordwaveError):
            step.bag.steps(batch, targets, None, draws, sizes, 1.0)
    for name, tensor in run.model.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    draws = step.bag.draws([4], torch.manual_seed)
    assert step.bag.steps(batch, targets, None, draws, [4], 1.0)[0] > 0


@needs_numba
def test_a_malformed_batch_is_refused_by_predictions():
    run = training(encoder="bag")
    batch = run.task.train.sentences.batch(torch.arange(4))
    model = run.model.eval()
    ends = batch.starts.clone()
    ends[-1] = 50_000_000
    for wrong in (batch._replace(starts=ends), batch._replace(starts=batch.starts.flip(0))):
        with pytest.raises(WordwaveError, match="starts"):
            model(wrong)
    rows = torch.ones(2, dtype=torch.long)
    with pytest.raises(WordwaveError, match="rows must have the shape of ids"):
        summed(model.embedding, batch, added=Added(rows, model.bigrams))
    assert len(bigrams_of(Bigrams(0, 8, n_words=30), batch).rows.unique()) == 1
