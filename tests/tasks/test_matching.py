"""Matchers of sentence pairs: what they learn, how they are scored, saved and resumed."""

import json
import random
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from scipy import stats
from sklearn import metrics as by_sklearn
from torch.testing import assert_close

from wordwave.config_io import with_settings
from wordwave.data.pairs import PairSplits, TextPairs
from wordwave.tasks.config import MatchingConfig
from wordwave.tasks.matcher import TextMatcher
from wordwave.tasks.matching import MatchingJob, metrics, rename_words, selecting_metric
from wordwave.training.run import TrainingStopped

QUICK = {"dim": 16, "hidden_dim": 16, "dropout": 0.0, "epochs": 3, "batch_size": 32}
QUICK |= {"learning_rate": 0.01}


def order_pairs(n, seed=0, labels=("same", "reversed")):
    """Each sentence twice, beside itself and beside its reversal: a bag of words is at chance."""
    rng, rows = random.Random(seed), []
    for _ in range(n // 2):
        words = rng.sample([f"w{i}" for i in range(30)], 6)
        for other, label in zip((words, words[::-1]), labels, strict=True):
            rows.append((" ".join(words), " ".join(other), label))
    first, second, given_labels = map(list, zip(*rows, strict=True))
    return TextPairs(first, second, given_labels, "pairs")


def prepared(n_train=400, labels=("same", "reversed"), **settings):
    config = with_settings(MatchingConfig(), **QUICK | settings)
    if labels[0] not in ("same", "yes"):
        config = with_settings(config, similarity="score")
    parts = [order_pairs(n, seed, labels) for seed, n in enumerate((n_train, 100, 100))]
    return MatchingJob(config).prepare(PairSplits(*parts))


def two(pairs):
    return list(zip(pairs.first, pairs.second, strict=True))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "order"
    job = prepared()
    return job, folder, job.train(folder)


def test_waves_tell_orders_apart_and_a_bag_of_words_does_not(trained, tmp_path):
    _, _, result = trained
    assert result["test"]["accuracy"] > 0.95 and result["dev"]["auc"] > 0.95
    bag = prepared(embedding="none").train(tmp_path)
    assert 0.3 < bag["test"]["accuracy"] < 0.7


@pytest.mark.parametrize("encoder", ["cnn", "lstm", "transformer"])
def test_other_encoders_train_too(encoder, tmp_path):
    small = {"n_filters": 4, "n_heads": 2, "feed_forward_dim": 8, "views": ("start", "end")}
    result = prepared(40, **small | {"encoder": encoder, "dim": 4, "epochs": 1}).train(tmp_path)
    assert 0 <= result["test"]["accuracy"] <= 1


def test_a_loaded_matcher_has_the_same_logits_and_vectors(trained):
    job, folder, _ = trained
    loaded, pairs = TextMatcher.load(folder), two(order_pairs(20, seed=5))
    pairs += [("", "an unknown word"), ("w1", "w1 " * 600)]
    assert torch.equal(loaded.logits(pairs), job.text_model.logits(pairs))
    assert loaded.labels == ["reversed", "same"] and loaded.logits([]).shape == (0, 2)
    probabilities = loaded.probabilities(pairs)
    assert_close(probabilities.sum(1), torch.ones(22))
    chosen = [loaded.labels[i] for i in probabilities.argmax(1)]
    assert loaded.predict(pairs) == chosen
    texts = [text for pair in pairs for text in pair]
    vectors = loaded.encode(texts)
    assert vectors.shape == (44, 8 * 16) and loaded.encode([]).shape == (0, 128)
    with torch.no_grad():
        compared = loaded.model.compare(vectors[::2], vectors[1::2])
    assert_close(compared, loaded.logits(pairs), rtol=1e-3, atol=1e-3)


def test_pairs_are_answered_alike_in_either_order_and_in_any_company(trained):
    matcher, pairs = trained[0].text_model, two(order_pairs(40, seed=5))
    logits = matcher.logits(pairs)
    assert_close(matcher.logits([(b, a) for a, b in pairs]), logits, rtol=1e-3, atol=1e-3)
    alone = torch.cat([matcher.logits([pair]) for pair in pairs])
    assert_close(alone, logits, rtol=1e-3, atol=1e-3)


def stopping(after):
    """Stops a training at a report."""
    seen = []

    def watch(report):
        seen.append(report)
        if len(seen) == after:
            raise TrainingStopped

    return watch


def test_a_stopped_training_goes_on_to_the_same_weights(trained, tmp_path):
    _, whole, _ = trained
    for stop_after in (3, 20):
        folder = tmp_path / str(stop_after)
        with pytest.raises(KeyboardInterrupt):
            prepared().train(folder, save_every=0, watch=stopping(stop_after))
        assert (folder / "state").exists()
        prepared().train(folder)
        one, other = (load_file(f / "model.safetensors") for f in (whole, folder))
        assert one.keys() == other.keys() and all(one[k].equal(other[k]) for k in one)


def test_other_pairs_do_not_go_on_with_a_run(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        prepared(80).train(tmp_path, save_every=0, watch=stopping(3))
    with pytest.raises(ValueError, match="it was trained on other examples"):
        prepared(60).train(tmp_path)


@pytest.mark.parametrize("limits", [("1", "5"), ("-1e300", "1e300"), ("1e-9", "3e-9")])
def test_scores_are_learnt_and_stay_in_the_range_of_the_training_set(limits, tmp_path):
    job = prepared(labels=limits[::-1])
    result = job.train(tmp_path)
    assert result["test"]["spearman"] > 0.7 and result["test"]["pearson"] > 0.8
    loaded = TextMatcher.load(tmp_path)
    pairs = [*two(order_pairs(40, seed=5)), ("w1 " * 500, "w2")]
    found = loaded.scores(pairs)
    assert found.shape == (41,) and found.isfinite().all()
    low, high = map(float, limits)
    assert low <= float(found.min()) < float(found.max()) <= high
    far = loaded.scores_of(torch.tensor([[-1e9], [1e9]])).squeeze()
    assert far.tolist() == pytest.approx([low, high], rel=1e-12, abs=0)
    assert torch.equal(found, job.text_model.scores(pairs))
    for method in (loaded.predict, loaded.probabilities):
        with pytest.raises(ValueError, match=r"this matcher predicts scores.*use scores\(\)"):
            method(pairs)


def test_scores_too_far_apart_for_a_number_are_refused():
    with pytest.raises(ValueError, match="scores are too far apart"):
        prepared(labels=("-1.5e308", "1.5e308"))


def test_what_is_no_pair_is_refused(trained):
    matcher = trained[0].text_model
    for wrong in ("ab", ("a", "b", "c"), ("a", None), ["a"], None):
        with pytest.raises(ValueError, match=r"a pair must be two texts, got .* at 1"):
            matcher.predict([("a", "b"), wrong])
    with pytest.raises(ValueError, match=r"predicts classes, not scores: use predict\(\)"):
        matcher.scores([("a", "b")])


@pytest.mark.parametrize(
    "change",
    [
        {"labels": ["one"]},
        {"score_range": [1, 1]},
        {"score_range": [0, float("inf")]},
        {"score_range": None},
    ],
)
def test_a_damaged_vocabulary_is_refused(trained, tmp_path, change):
    trained[0].text_model.save(tmp_path)
    file = tmp_path / "vocab.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(ValueError, match=f"is not a vocabulary: .*{next(iter(change))}"):
        TextMatcher.load(tmp_path)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (("yes", "yes"), "must have two classes or more, got only 'yes'"),
        (("3", "3"), "must have two scores or more, got only '3'"),
    ],
)
def test_one_class_or_one_score_is_nothing_to_learn(labels, message):
    with pytest.raises(ValueError, match=message):
        prepared(labels=labels)


def test_a_label_that_training_lacks_is_named():
    job = MatchingJob(with_settings(MatchingConfig(), **QUICK))
    parts = order_pairs(20), order_pairs(4, 1, labels=("same", "other"))
    with pytest.raises(ValueError, match="pairs has the label 'other', which is not in the train"):
        job.prepare(PairSplits(*parts, None))


def test_words_are_renamed_alike_wherever_they_stand():
    generator = torch.Generator().manual_seed(1)
    first = torch.randint(2, 40, (50, 7), generator=generator)
    second = torch.randint(0, 12, (50, 9), generator=generator)
    first[:, 5:] = 0
    before = torch.cat([first, second], dim=1)
    for share in (0.5, 1.0):
        after = torch.cat(rename_words(first, second, share, range(10, 1000)), dim=1)
        assert after.shape == before.shape and int(after.max()) < 1000
        common = before < 10
        assert torch.equal(after[common], before[common]) and bool((after[~common] >= 10).all())
        for old, new in zip(before.tolist(), after.tolist(), strict=True):
            assert len(set(zip(old, new, strict=True))) == len(set(old))
        changed = (after != before)[~common].double().mean()
        assert abs(float(changed) - share) < 0.1
    assert torch.equal(torch.cat(rename_words(first, second, 0.0, range(10, 1000)), dim=1), before)
    tiny = rename_words(torch.tensor([[1, 0]]), torch.tensor([[1]]), 1.0, range(2, 2))
    assert tiny[0].tolist() == [[1, 0]] and tiny[1].tolist() == [[1]]


@given(seed=st.integers(0, 10**6), n=st.integers(2, 30))
def test_metrics_of_two_classes_are_those_of_scikit_learn(seed, n):
    rng = np.random.default_rng(seed)
    logits = torch.from_numpy(rng.integers(-8, 8, (n, 2)) / 4)  # exact, with ties
    targets = torch.from_numpy(np.r_[0, 1, rng.integers(0, 2, n - 2)])
    found, chosen = metrics(logits, targets, ["no", "yes"]), logits.argmax(1)
    expected = {
        "n": n,
        "accuracy": by_sklearn.accuracy_score(targets, chosen),
        "f1": by_sklearn.f1_score(targets, chosen, zero_division=0),
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    margin = (logits[:, 1] - logits[:, 0]).tolist()
    by_class = [[m for m, t in zip(margin, targets, strict=True) if t == kind] for kind in (1, 0)]
    both = product(*by_class)
    auc = np.mean([1.0 if a > b else 0.5 if a == b else 0.0 for a, b in both])
    assert found["auc"] == pytest.approx(auc) and selecting_metric(logits, targets) == {
        "auc": found["auc"]
    }
    assert found["average_precision"] == pytest.approx(
        by_sklearn.average_precision_score(targets, margin)
    )


def test_metrics_of_one_class_of_three_and_of_scores():
    logits = torch.tensor([[2.0, 1, 0], [0, 3, 1], [1, 0, 2], [0, 2, 1]])
    targets = torch.tensor([0, 1, 1, 1])
    found = metrics(logits, targets, ["a", "b", "c"])
    assert found == {"n": 4, "accuracy": 0.75, "macro_f1": pytest.approx((1 + 0.8 + 0) / 3)}
    only = metrics(logits[:, :2], torch.zeros(4, dtype=torch.long), ["a", "b"])
    assert set(only) == {"n", "accuracy", "f1"} and only["f1"] == 0
    scores, wanted = torch.tensor([[0.3], [-1.0], [2.0], [0.5]]), torch.tensor([0.2, 0.3, 1.0, 0.4])
    found = metrics(scores, wanted, [])
    values = scores.squeeze(1).sigmoid().double().numpy()
    assert found["pearson"] == pytest.approx(np.corrcoef(values, wanted)[0, 1], abs=1e-6)
    assert found["spearman"] == pytest.approx(stats.spearmanr(values, wanted).statistic)
    constant = metrics(torch.zeros(3, 1), torch.tensor([0.1, 0.2, 0.3]), [])
    assert constant == {"n": 3, "pearson": 0.0, "spearman": 0.0}
    with pytest.raises(ValueError, match="at least one pair to score"):
        metrics(logits[:0], targets[:0], ["a", "b"])


def test_sentences_that_differ_in_case_and_spaces_are_one():
    pairs = TextPairs(["Dog bites man.", "dog bites  man ."], ["x", "z"], ["a", "b"])
    assert pairs.groups() == [0, 0]


def test_correlations_of_saturated_and_of_unseen_scores():
    saturated = metrics(torch.tensor([[20.0], [21.0], [22.0]]), torch.tensor([0.0, 2.0, 9.0]), [])
    assert saturated["spearman"] == pytest.approx(1) and saturated["pearson"] > 0.5


def test_logits_that_are_not_finite_are_refused():
    job = prepared()
    with torch.no_grad():
        job.text_model.model.head[-1].weight.fill_(float("inf"))
    with pytest.raises(ValueError, match="not finite"):
        job.task.score(job.text_model.model)


def test_words_without_a_pretrained_vector_follow_from_the_seed(tmp_path):
    file = tmp_path / "vectors.txt"
    file.write_text("".join(f"w{i} {i}.5 1 -1 2\n" for i in range(5)))
    tables = []
    for global_seed in (1, 2):
        torch.manual_seed(global_seed)
        job = prepared(n_train=40, vectors=str(file))
        tables.append(job.text_model.model.embedding.vectors.detach())
    assert_close(*tables, rtol=0, atol=0)
    assert tables[0].shape[1] == 4
