"""Texts with several labels, or none: training, scores, prediction, explanation and export."""

import csv
import json

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score, precision_recall_fscore_support
from sklearn.model_selection import KFold, cross_val_score
from sklearn.multioutput import MultiOutputClassifier

from wordwave import TextClassifier, WaveClassifier
from wordwave.cli import _run
from wordwave.data.splits import DataConfig, split_label_sets, split_labels
from wordwave.tasks.classification import balanced
from wordwave.tasks.explain import explain
from wordwave.tasks.export import export_onnx
from wordwave.tasks.scores import score_label_sets

TOPICS = {"arts": "film", "politics": "vote", "sport": "goal"}
REST = ["the", "was", "it", "and", "so", "then"]
SMALL = {"dim": 8, "hidden_dim": 0, "epochs": 8, "batch_size": 16, "learning_rate": 0.1}
SMALL |= {"dropout": 0.0, "n_bigrams": 0, "n_subwords": 0, "bigram_dropout": 0.0}


def news(n, seed):
    """Texts, and where each topic is one of theirs; a fifth has none."""
    rng = np.random.default_rng(seed)
    targets = rng.random((n, 3)) < 0.4
    texts = [
        " ".join(rng.permutation([*rng.choice(REST, 4), *np.array(list(TOPICS.values()))[row]]))
        for row in targets
    ]
    return texts, targets.astype(int)


TEXTS, TARGETS = news(160, 0)
NEW_TEXTS, NEW_TARGETS = news(60, 1)


def cells(targets, separator="|"):
    return [separator.join(np.array(list(TOPICS))[row == 1]) for row in targets]


def write_table(path, texts, targets, separator="|"):
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = zip(texts, cells(targets, separator), strict=True)
        csv.writer(file).writerows([("text", "label"), *rows])
    return path


def run(*arguments):
    _run([str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def fitted():
    return WaveClassifier(**SMALL).fit(TEXTS, TARGETS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run of the command line."""
    out = tmp_path_factory.mktemp("run") / "news"
    data = write_table(out.parent / "news.csv", TEXTS, TARGETS)
    flags = [part for name, value in SMALL.items() for part in (f"--{name}", value)]
    flags = [str(part).replace("_", "-") if str(part).startswith("--") else part for part in flags]
    run("train", "classify", "--data", data, "--multi-label", "|", "--out", out, *flags)
    return out


def test_an_indicator_matrix_is_learnt_and_predicted(fitted, tmp_path):
    assert fitted.score(NEW_TEXTS, NEW_TARGETS) > 0.9  # all labels of a text
    predicted, probabilities = fitted.predict(NEW_TEXTS), fitted.predict_proba(NEW_TEXTS)
    assert predicted.shape == (60, 3) and ((probabilities >= 0.5) == predicted).all()
    assert probabilities.sum(1).max() > 1.5 and probabilities.sum(1).min() < 0.5
    assert fitted.classes_.tolist() == [0, 1, 2]
    assert ((fitted.decision_function(NEW_TEXTS) >= 0) == predicted).all()
    fitted.save(tmp_path)
    again = WaveClassifier.load(tmp_path)
    assert (again.predict_proba(NEW_TEXTS) == probabilities).all()


def test_lists_and_sparse_matrices_will_do_and_weights_count(fitted):
    from scipy.sparse import csr_matrix

    expected = fitted.predict_proba(NEW_TEXTS)
    for given in (TARGETS.tolist(), csr_matrix(TARGETS), TARGETS.astype(bool)):
        found = WaveClassifier(**SMALL).fit(TEXTS, given).predict_proba(NEW_TEXTS)
        np.testing.assert_array_equal(found, expected)
    wrong = 1 - TARGETS
    both, weights = np.concatenate([TARGETS, wrong]), np.repeat([1.0, 0.0], len(TEXTS))
    model = WaveClassifier(**SMALL).fit(TEXTS * 2, both, sample_weight=weights)
    np.testing.assert_allclose(model.predict_proba(NEW_TEXTS), expected, atol=1e-4)


def test_balanced_classes_raise_rare_labels():
    texts, rare = ["so it is"] * 80, np.arange(80) % 8 == 0
    targets = np.stack([rare, ~rare], 1).astype(int)
    settings = SMALL | {"epochs": 60}
    with pytest.warns(UserWarning, match="all training examples are predicted as"):
        plain = WaveClassifier(**settings).fit(texts, targets).predict_proba(texts[:1])
    with pytest.warns(UserWarning, match="all training examples are predicted as"):
        same = WaveClassifier(**settings, class_weight="balanced").fit(texts, targets)
    np.testing.assert_allclose(plain, [[1 / 8, 7 / 8]], atol=0.06)
    np.testing.assert_allclose(same.predict_proba(texts[:1]), [[0.5, 0.5]], atol=0.06)


def test_a_label_that_all_training_texts_have_is_not_all_that_counts(tmp_path):
    cells_of = {"goal": "sport|all", "vote": "politics|all"}
    train = [(f"the {word} was", cell) for word, cell in cells_of.items()] * 20
    held = [*train[:10], ("the goal was", "sport"), ("the vote was", "politics")]
    for name, rows in (("train.csv", train), ("dev.csv", held)):
        with (tmp_path / name).open("w", newline="") as file:
            csv.writer(file).writerows([("text", "label"), *rows])
    words = ["train", "classify", "--data", str(tmp_path / "train.csv"), "--multi-label", "|"]
    words += ["--dev", str(tmp_path / "dev.csv"), "--out", str(tmp_path / "run")]
    _run([*words, "--class-weight", "balanced", "--dim", "8", "--epochs", "2"])
    classifier = TextClassifier.load(tmp_path / "run")
    (found,) = classifier.probabilities(["the goal was"]).tolist()
    of = dict(zip(classifier.labels, found, strict=True))
    # Of 12 validation texts, two lack it. With all the weight they made every probability .5.
    assert of["sport"] > 0.7 and of["politics"] < 0.3 and of["all"] > 0.7, of


def test_weights_that_are_0_in_float32_leave_balanced_factors_finite():
    targets, weights = torch.tensor([0, 0, 1]), torch.tensor([1.0, 1.0, 0.0])
    assert balanced(targets, weights, 2).tolist() == [0.5, 1.0]
    both = balanced(torch.tensor([[True, False], [True, True]]), None, 2)
    assert both.tolist() == [[1.0, 1.0], [0.5, 1.0]]


@pytest.mark.parametrize(
    ("parameters", "targets", "message"),
    [
        ({"class_weight": {0: 2.0}}, TARGETS, "class_weight must be None or 'balanced'"),
        ({}, TARGETS * [0, 1, 0], "y must have two classes or more, got one class, 1"),
        ({}, TARGETS * 0, "y must have two classes or more, got texts without a label"),
        ({}, TARGETS[:5], "inconsistent numbers of samples"),
        ({}, TARGETS * [1, 2, 3], "y should be a 1d array"),
    ],
)
def test_targets_are_checked(parameters, targets, message):
    with pytest.raises(ValueError, match=message):
        WaveClassifier(**SMALL, **parameters).fit(TEXTS, targets)


def test_a_label_without_a_text_is_kept_and_never_predicted(fitted, tmp_path):
    rare = np.insert(TARGETS, 1, 0, axis=1)
    with pytest.warns(UserWarning, match=r"no text of the labels \[1\], which are never predicted"):
        model = WaveClassifier(**SMALL).fit(TEXTS, rare)
    assert model.classes_.tolist() == [0, 1, 2, 3]
    predicted, probabilities = model.predict(NEW_TEXTS), model.predict_proba(NEW_TEXTS)
    assert predicted.shape == (60, 4) and not predicted[:, 1].any()
    assert 0 <= probabilities[:, 1].max() < 1e-30
    assert (np.delete(predicted, 1, axis=1) == fitted.predict(NEW_TEXTS)).all()
    model.save(tmp_path)
    again = WaveClassifier.load(tmp_path)
    assert again.classes_.tolist() == [0, 1, 2, 3]
    assert (again.predict_proba(NEW_TEXTS) == probabilities).all()
    # The only texts of a label may have no weight.
    rare[:3, 1], weights = 1, np.repeat([0.0, 1.0], [3, len(TEXTS) - 3])
    with pytest.warns(UserWarning, match="no text of the labels"):
        model = WaveClassifier(**SMALL).fit(TEXTS, rare, sample_weight=weights)
    assert model.predict(NEW_TEXTS).shape == (60, 4) and not model.predict(TEXTS)[:, 1].any()


def test_folds_without_a_rare_label_are_scored():
    rare = np.insert(TARGETS, 3, 0, axis=1)
    rare[0, 3] = 1
    with pytest.warns(UserWarning, match="no text of the labels"):
        scores = cross_val_score(WaveClassifier(**SMALL), TEXTS, rare, cv=KFold(4))
    assert np.isfinite(scores).all() and scores.mean() > 0.5


def test_scores_are_those_of_scikit_learn():
    generator = torch.Generator().manual_seed(0)
    true, predicted = (torch.rand(50, 4, generator=generator) < 0.4 for _ in range(2))
    true[:, 3] = predicted[:, 2] = False
    found = score_label_sets(true, predicted, list("abcd"))
    for average in ("micro", "macro"):
        expected = f1_score(true, predicted, average=average, zero_division=0)
        assert getattr(found, f"{average}_f1") == pytest.approx(expected)
    assert found.accuracy == pytest.approx(float((true == predicted).all(1).double().mean()))
    expected = precision_recall_fscore_support(true, predicted, zero_division=0)
    ours = [(one.precision, one.recall, one.f1, one.n) for one in found.classes]
    np.testing.assert_allclose(np.array(ours).T, expected)


def test_every_label_stays_in_the_training_part():
    sets = [["a"], ["a", "b"], ["c", "a"], [], ["a", "c"]] * 8 + [["b", "once"], ["c", "d"]] * 2
    for seed in range(5):
        rest, held = split_label_sets(sets, 0.2, seed)
        assert sorted([*rest, *held]) == list(range(len(sets))) and held
        assert {one for i in rest for one in sets[i]} == {"a", "b", "c", "d", "once"}
    assert split_labels(" a | b||", "|") == ["a", "b"] and split_labels("", "|") == []
    with pytest.raises(ValueError, match="multi_label must be a separator, got ' '"):
        DataConfig(multi_label=" ")


def test_from_a_table_to_scores_and_predictions(folder, tmp_path, capsys):
    test = write_table(tmp_path / "test.csv", NEW_TEXTS, NEW_TARGETS)
    scores = tmp_path / "scores.json"
    run("evaluate", folder, "--data", test, "--json", scores)
    said, told = capsys.readouterr().out, json.loads(scores.read_text())
    assert "subset accuracy" in said and "micro-F1" in said and "sport" in said
    assert told["accuracy"] > 0.9 and told["micro_f1"] > 0.9 and "confusion" not in told
    run("predict", folder, test)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    true = [split_labels(cell, "|") for cell in cells(NEW_TARGETS)]
    right = [line["labels"] == labels for line, labels in zip(lines, true, strict=True)]
    assert np.mean(right) > 0.9 and list(lines[0]["probabilities"]) == list(TOPICS)
    out = tmp_path / "predicted.csv"
    run("predict", folder, test, "--out", out, "--threshold", "0")
    with out.open(encoding="utf-8", newline="") as file:
        assert {row["predicted"] for row in csv.DictReader(file)} == {"arts|politics|sport"}
    run("predict", folder, NEW_TEXTS[0], "--threshold", "1", "--quiet")
    assert json.loads(capsys.readouterr().out) == {"labels": [], "probabilities": {}}
    classifier = TextClassifier.load(folder)
    assert classifier.predict(NEW_TEXTS) == ["|".join(line["labels"]) for line in lines]
    assert classifier.predict_labels(NEW_TEXTS, threshold=0.0)[0] == list(TOPICS)
    model = WaveClassifier.load(folder)
    assert model.classes_.tolist() == list(TOPICS)
    assert model.score(NEW_TEXTS, NEW_TARGETS) == pytest.approx(told["accuracy"])


def test_tables_of_any_format_are_read_and_a_share_is_held_out(tmp_path, capsys):
    rows = [f"{text} café;{cell}" for text, cell in zip(TEXTS, cells(TARGETS), strict=True)]
    rows.insert(1, ";sport")  # without a text
    data, out = tmp_path / "news.csv", tmp_path / "run"
    data.write_bytes("\n".join(["text;label", *rows, ""]).encode("cp1252"))
    form = ("--delimiter", ";", "--encoding", "cp1252", "--skip-bad-rows")
    flags = ("--dim", "8", "--epochs", "1", "--no-ngrams", "--dev-share", "0.2")
    run("train", "classify", "--data", data, "--multi-label", "|", *form, *flags, "--out", out)
    said = " ".join(capsys.readouterr().out.split())
    assert "1 of 161 rows was left out" in said and "3 classes" in said
    assert "32 of 160 examples are held out" in said and "validation subset accuracy" in said
    assert "café" in TextClassifier.load(out).encoder.vocabulary
    run("predict", out, data, "--out", tmp_path / "predicted.csv")  # in the format of the training
    with (tmp_path / "predicted.csv").open(encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file))) >= 160


def test_each_label_is_explained(folder, capsys):
    classifier, text = TextClassifier.load(folder), "the film was so and then a vote"
    for label, word in (("arts", "film"), ("politics", "vote")):
        found = explain(classifier, text, label=label)
        assert max(found.words, key=lambda one: one.importance).word == word
        assert found.label == label and found.probability > 0.5
        logit = classifier.logits([text])[0, classifier.labels.index(label)]
        assert found.log_odds == pytest.approx(float(logit), abs=1e-4)
    run("explain", folder, text, "--label", "politics")
    assert "log-odds of politics" in capsys.readouterr().out
    with pytest.raises(ValueError, match="label must be one of 'arts', 'politics', 'sport', got"):
        explain(classifier, text, label="art")


def test_the_exported_model_returns_the_probability_of_each_label(folder, tmp_path):
    pytest.importorskip("onnxscript")
    ort = pytest.importorskip("onnxruntime")
    classifier = TextClassifier.load(folder)
    export_onnx(classifier, tmp_path / "news.onnx")
    assert json.loads((tmp_path / "news.onnx.json").read_text())["multi_label"] is True
    ids = classifier.encoder.encode(NEW_TEXTS).sentences.padded(torch.arange(60)).long().numpy()
    session = ort.InferenceSession(tmp_path / "news.onnx", providers=["CPUExecutionProvider"])
    (found,) = session.run(["probabilities"], {"ids": ids})
    expected = classifier.probabilities(NEW_TEXTS)
    torch.testing.assert_close(torch.from_numpy(found), expected, rtol=0, atol=1e-5)


def test_one_model_for_all_labels_agrees_with_one_for_each(fitted):
    each = MultiOutputClassifier(WaveClassifier(**SMALL)).fit(TEXTS, TARGETS)
    assert (each.predict(NEW_TEXTS) == fitted.predict(NEW_TEXTS)).mean() > 0.95
