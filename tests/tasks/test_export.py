"""An exported model says what the trained one says, for batches of any size."""

import json
import re
import sys
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from tolerance import rounding
from wordwave.config_io import with_settings
from wordwave.models.classifier import Classifier, PairNetwork
from wordwave.models.config import ModelConfig, PairModelConfig
from wordwave.tasks import export
from wordwave.tasks.classifier import TextClassifier
from wordwave.tasks.config import ClassificationConfig, MatchingConfig
from wordwave.tasks.export import ProbabilityGraph, export_onnx, sample_batches
from wordwave.tasks.matcher import TextMatcher
from wordwave.text.encoder import TextEncoder
from wordwave.text.tokenizers import build_tokenizer, train_bpe
from wordwave.text.vocabulary import Vocabulary

pytest.importorskip("onnxscript")
ort = pytest.importorskip("onnxruntime")

WORDS = [f"w{i}" for i in range(20)]
# Each encoder over real and over complex numbers, and each embedding at least once.
MODELS = [
    ("fasttext", "pe", {}),
    ("fasttext", "complex-order", {"readout": "magnitude", "phase": True, "damping": True}),
    ("cnn", "none", {}),
    ("cnn", "complex-order", {}),
    ("lstm", "tpe", {"n_layers": 2}),
    ("lstm", "complex-order", {"share": "tied"}),
    ("transformer", "complex-vanilla", {"score": "magnitude"}),
    ("transformer", "rope", {}),
    ("transformer", "alibi", {"pooling": "sum"}),
]


def build(encoder="fasttext", embedding="complex-order", *, tokenizer=None, **options):
    sizes = {"dim": 4, "hidden_dim": 4, "n_filters": 3, "widths": (3,), "n_heads": 2}
    config = with_settings(
        ModelConfig(),
        encoder=encoder,
        embedding=embedding,
        feed_forward_dim=4,
        max_length=50,
        **sizes,
        **options,
    )
    tokenizer = tokenizer or build_tokenizer("plain")
    vocabulary = Vocabulary.build([WORDS], extra_words=getattr(tokenizer, "words", ()))
    model = Classifier(config, len(vocabulary), 3).eval()
    encoder = TextEncoder(tokenizer, vocabulary, max_length=50)
    return TextClassifier(model, encoder, ["a", "b", "ü"], ClassificationConfig(model=config))


PAIR_MODELS = [
    ("fasttext", "complex-order", {"views": ("start", "end", "relative", "context")}),
    ("cnn", "none", {"symmetric": False}),
    pytest.param("lstm", "complex-order", {}, marks=pytest.mark.slow),
    pytest.param("transformer", "rope", {}, marks=pytest.mark.slow),
]


def build_matcher(
    encoder="fasttext", embedding="complex-order", *, labels=("no", "yes"), **options
):
    sizes = {"dim": 4, "hidden_dim": 4, "n_filters": 3, "widths": (3,), "n_heads": 2}
    sizes |= {"feed_forward_dim": 4, "max_length": 50}
    options = {"views": ("start",), **sizes, **options}
    config = with_settings(PairModelConfig(), encoder=encoder, embedding=embedding, **options)
    vocabulary = Vocabulary.build([WORDS])
    model = PairNetwork(config, len(vocabulary), len(labels) or 1).eval()
    encoder = TextEncoder(build_tokenizer("plain"), vocabulary, max_length=50)
    return TextMatcher(model, encoder, labels, MatchingConfig(model=config), (1.0, 5.0))


def session_of(path):
    return ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize(("encoder", "embedding", "options"), MODELS)
def test_the_file_agrees_with_the_model_for_batches_of_any_size(
    encoder, embedding, options, tmp_path, oracle
):
    classifier = build(encoder, embedding, **options)
    oracle.randomise(classifier.model)  # far from uniform probabilities
    exported = export_onnx(classifier, tmp_path / "model.onnx")
    assert exported.n_checked > 20 and exported.difference < 1e-5
    session = session_of(tmp_path / "model.onnx")
    # None of these is a size that the export itself looks at.
    for n, length in ((1, 4), (5, 2), (2, 6), (7, 33), (2, 50)):
        ids = torch.randint(1, 22, (n, length))
        ids[-1, length // 2 :] = 0
        (got,) = session.run(["probabilities"], {"ids": ids.numpy()})
        with torch.no_grad():
            wanted = classifier.model(ids).softmax(-1)
        assert_close(torch.from_numpy(got), wanted, rtol=0, atol=1e-5)


@torch.no_grad()
def test_a_default_classifier_is_exported_with_its_ngrams(tmp_path, with_ngrams):
    classifier = with_ngrams()
    exported = export_onnx(classifier, tmp_path / "model.onnx")
    assert exported.difference < 1e-5
    ids = torch.tensor([[2, 3, 4, 2, 5], [6, 6, 7, 6, 7], [2, 5, 4, 6, 0], [1, 0, 0, 0, 0]])
    (got,) = session_of(tmp_path / "model.onnx").run(None, {"ids": ids.numpy()})
    assert_close(torch.from_numpy(got), classifier.model(ids).softmax(-1), rtol=0, atol=1e-5)
    classifier.model.ngrams.words.zero_()
    assert (torch.from_numpy(got) - classifier.model(ids).softmax(-1)).abs().max() > 0.02


def test_one_file_holds_all_and_the_other_tells_how_to_use_it(tmp_path):
    classifier, folder = build(), tmp_path / "deep"
    exported = export_onnx(classifier, folder / "model.onnx")
    names = {file.name for file in folder.iterdir()}
    assert names == {"model.onnx", "model.onnx.json"} == {file.name for file in exported.files}
    told = json.loads((folder / "model.onnx.json").read_text(encoding="utf-8"))
    assert told["labels"] == ["a", "b", "ü"] and told["tokenizer"] == "plain"
    session = session_of(folder / "model.onnx")
    props = session.get_modelmeta().custom_metadata_map
    assert json.loads(props["words"]) == told["words"] and props["tokenizer"] == "plain"
    number = {word: i for i, word in enumerate(told["words"])}
    text = "w3 w1 never w7"
    ids = [number.get(word, told["unknown_id"]) for word in text.split()]
    (got,) = session.run(None, {"ids": [[*ids, told["padding_id"], told["padding_id"]]]})
    assert_close(torch.from_numpy(got), classifier.probabilities([text]), rtol=0, atol=1e-5)
    (taken,), (given,) = session.get_inputs(), session.get_outputs()
    assert (taken.name, taken.shape) == ("ids", ["batch", "length"])
    assert (given.name, given.shape) == ("probabilities", ["batch", 3])
    content = (folder / "model.onnx").read_bytes()
    assert b".py" not in content and b"site-packages" not in content  # where it was made


@pytest.mark.parametrize(("encoder", "embedding", "options"), PAIR_MODELS)
def test_a_matcher_takes_both_sentences_and_returns_logits(
    encoder, embedding, options, tmp_path, oracle
):
    matcher = build_matcher(encoder, embedding, **options)
    oracle.randomise(matcher.model)
    exported = export_onnx(matcher, tmp_path / "model.onnx")
    ids = torch.randint(1, 22, (64, 50))
    with torch.no_grad():  # a probability is as exact as its logits
        size = float(matcher.model(ids, ids.flip(0)).abs().max().clamp(min=1.0))
    assert exported.n_checked > 40
    assert exported.difference < rounding(terms=16, size=size)["atol"]
    session = session_of(tmp_path / "model.onnx")
    assert [i.name for i in session.get_inputs()] == ["ids_a", "ids_b"]
    assert [i.shape for i in session.get_inputs()] == [["batch", "length_a"], ["batch", "length_b"]]
    for n, length_a, length_b in ((1, 4, 4), (5, 2, 11), (2, 33, 1), (3, 50, 50)):
        ids_a = torch.randint(1, 22, (n, length_a))
        ids_b = torch.randint(1, 22, (n, length_b))
        ids_b[-1, (length_b + 1) // 2 :] = 0
        (got,) = session.run(["logits"], {"ids_a": ids_a.numpy(), "ids_b": ids_b.numpy()})
        with torch.no_grad():
            wanted = matcher.model(ids_a, ids_b)
        assert_close(torch.from_numpy(got), wanted, rtol=1e-4, atol=1e-4)


def test_the_scores_of_a_matcher_follow_from_what_is_told(tmp_path):
    matcher = build_matcher(labels=())
    export_onnx(matcher, tmp_path / "model.onnx")
    told = json.loads((tmp_path / "model.onnx.json").read_text(encoding="utf-8"))
    assert told["format"] == "wordwave sentence matcher" and told["labels"] == []
    low, high = told["score_range"]
    number = {word: i for i, word in enumerate(told["words"])}
    ids = {"ids_a": [[number["w3"], number["w1"]]], "ids_b": [[number["w2"]]]}
    (got,) = session_of(tmp_path / "model.onnx").run(None, ids)
    score = low + (high - low) * torch.from_numpy(got).double().sigmoid().squeeze(-1)
    assert_close(score, matcher.scores([("w3 w1", "w2")]), rtol=0, atol=1e-4)


def test_pieces_of_words_come_with_their_tokeniser(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    classifier = build(tokenizer=train_bpe(["w1 w2 w3 hello"] * 3, 280))
    export_onnx(classifier, tmp_path / "model.onnx")
    told = json.loads((tmp_path / "model.onnx.json").read_text(encoding="utf-8"))
    tokenizer = tokenizers.Tokenizer.from_file(str(tmp_path / told["tokenizer"]))
    ids = [told["words"].index(piece) for piece in tokenizer.encode(" hello w2").tokens]
    (got,) = session_of(tmp_path / "model.onnx").run(None, {"ids": [ids]})
    assert_close(torch.from_numpy(got), classifier.probabilities(["hello w2"]), rtol=0, atol=1e-5)


AWKWARD = [
    "",
    " \t\n",
    "!",
    "W3 w1's w2n't",
    "don't DON'T they'll 'd `quoted' (w1),w2!?",
    "naïve café CAFÉ",
    "e\u0301 E\u0301 \u0301",
    "w" + "\u0301" * 130,
    "İstanbul ß ẞ ﬁ ΟΔΥΣΣΕΥΣ ΣΑΣ.",
    "你好, 世界 w1世w2",
    "한국어 שלום עִבְרִית",
    "हिन्दी क्‍ष می‌خواهم",
    "👩‍👩‍👧 w1😀w2 1️⃣",
    "a\u00a0b\u2003c\u200bd\x85e\x1ff\x00g\u2028h",
    "x_y __ 3.14 ½ ²",
    "<pad> <unk> w5",
    "w1 " * 70,
    "w19\r\nw18",
    "\ufeffw1 ﷺ Ǆ",
    "ｗ１ Ｗ２ ①",
]


def script_of_the_docs():
    """The Python block of docs/classify.md that needs no wordwave, without its example."""
    page = (Path(__file__).parents[2] / "docs" / "classify.md").read_text(encoding="utf-8")
    (script,) = [b for b in re.findall(r"(?ms)^```python\n(.*?)^```", page) if "onnxruntime" in b]
    assert "wordwave" not in script and "torch" not in script
    defined: dict = {}
    exec(script[: script.index("\nprint(")], defined)
    return defined["OnnxClassifier"]


@pytest.mark.parametrize("hashed", [False, True])
@pytest.mark.parametrize("kind", ["plain", "kim", "bpe"])
def test_the_script_of_the_docs_predicts_from_texts_what_the_model_does(kind, hashed, tmp_path):
    if kind == "bpe":
        pytest.importorskip("tokenizers")
    tokenizer = train_bpe(AWKWARD, 300) if kind == "bpe" else build_tokenizer(kind)
    classifier = build(tokenizer=tokenizer)
    words = {word for text in AWKWARD[::2] for word in tokenizer(text)}
    vocabulary = Vocabulary.build([WORDS, sorted(words)])
    model = Classifier(classifier.config.model, len(vocabulary), 3).eval()
    encoder = TextEncoder(tokenizer, vocabulary, max_length=50, hashed=hashed)
    classifier = TextClassifier(model, encoder, classifier.labels, classifier.config)
    export_onnx(classifier, tmp_path / "model.onnx")
    theirs = script_of_the_docs()(tmp_path / "model.onnx")
    ours = encoder.encode(AWKWARD).sentences
    for i, text in enumerate(AWKWARD):
        assert theirs.tokens(text) == tokenizer(text), text
        (row,) = ours.padded(torch.tensor([i])).tolist()
        assert theirs.encode([text]).tolist() == [row], text
    expected = classifier.probabilities(AWKWARD)
    assert_close(torch.from_numpy(theirs.probabilities(AWKWARD)), expected, rtol=0, atol=1e-5)
    assert theirs.predict(AWKWARD) == classifier.predict(AWKWARD)


def test_a_file_that_disagrees_is_not_written_and_the_old_one_stays(tmp_path, monkeypatch):
    class Wrong(ProbabilityGraph):
        def forward(self, ids):
            return super().forward(ids).flip(-1)

    monkeypatch.setattr(export, "ProbabilityGraph", Wrong)
    path = tmp_path / "model.onnx"
    path.write_bytes(b"the old one")
    with pytest.raises(ValueError, match=r"must agree .* within 0.0001, got a difference of"):
        export_onnx(build(), path)
    assert path.read_bytes() == b"the old one" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("package", ["onnx", "onnxscript", "onnxruntime"])
def test_missing_packages_are_named_with_their_extra(package, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ValueError, match=rf"'{package}': pip install 'wordwave\[onnx\]'"):
        export_onnx(build(), tmp_path / "model.onnx")


def test_a_model_too_large_for_one_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(export, "MAX_WEIGHTS", 100)
    with pytest.raises(ValueError, match="at most 2 GB, got weights of"):
        export_onnx(build(), tmp_path / "model.onnx")


def test_the_checked_batches_are_ragged_and_no_longer_than_the_model_reads():
    batches = list(sample_batches(9, 12))
    assert max(ids.shape[1] for ids in batches) == 12
    assert all((ids[:, 0] > 0).all() and ids.max() < 9 for ids in batches)
    assert any((ids == 0).any() for ids in batches)


@torch.no_grad()
def test_the_graph_of_an_lstm_runs_in_torch_too_and_leaves_the_model_alone():
    classifier = build("lstm", n_layers=2)
    before = type(classifier.model.encoder.lstm)
    graph = ProbabilityGraph(classifier.model)
    ids = torch.tensor([[3, 4, 5], [6, 0, 0]])
    assert_close(graph(ids), classifier.model(ids).softmax(-1))
    assert type(classifier.model.encoder.lstm) is before
