"""The scripts of the page, run by node, against PyTorch with the same rounded weights."""

import random

import pytest
import torch

from wordwave.explore import Bag, Session, export_page
from wordwave.tasks.explain import explain
from wordwave.text.tokenizers import build_tokenizer

CLOSE = 1e-6  # of probabilities: float32 in PyTorch, float64 in the page
CLOSE_ODDS = 2e-5  # of log-odds: 1 unit of a float32 logit of up to 30 is 2e-6
EDIT = {"amplitude": 1.7, "frequency": 0.4, "phase": 0.9, "damping": 0.05, "dimension": None}
TEXT = "the dog bites the man , not good"
ODD = [
    "",
    "   ",
    "It's n't DON'T (a) b,c! d'll",
    "Schön, CAFÉ cafe\u0301 e\u0301\u0301x naïve",
    "日本語のテキスト と abc 漢字",
    "नमस्ते दुनिया سلام\u200cدنیا",
    "a\u00a0b\u2003c\u001cd\u0085e\tf\x00g\x07",
    "Straße İstanbul ΣΊΣΥΦΟΣ ½ ² ٣",
    "😀😀 👩\u200d👩 <b>x</b> &amp; \\u0041 _under_ 3.14",
    "x" * 200 + " " + "e" + "\u0301" * 120,
]


def close(found, expected, within=CLOSE):
    return found == pytest.approx(expected, abs=within)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"pooling": "max", "phase": True},
        {"damping": True, "pooling": "sum", "hidden_dim": 0},
        {"views": ("start", "end", "relative"), "share_frequency": "word", "pooling": "sum"},
        {"views": ("start", "context", "end"), "phase": True, "pooling": "sum"},
        {"views": ("relative", "context"), "pooling": "max", "share_frequency": "word"},
        {"readout": "magnitude", "share_amplitude": "dim"},
        {"share_frequency": "dim"},
        {"embedding": "complex-vanilla"},
    ],
    ids=str,
)
@pytest.mark.parametrize("precision", ["int8", "float16"])
def test_probabilities_sweeps_and_sensitivities(make, node, tmp_path, settings, precision):
    classifier = make(**settings)
    path = tmp_path / "page.html"
    export_page(classifier, path, precision=precision)
    session = Session(Bag.describe(classifier, precision).rounded(classifier), name="rounded")
    order = [3, 1, 0, 2, 7, 6, 5, 4]
    is_wave = bool(session.about()["views"])
    edits = [{"id": 3, **EDIT}, {"id": 5, **EDIT, "dimension": 2}] if is_wave else []
    plain, changed = ({"text": TEXT, "order": order, "edits": some} for some in ([], edits))
    asked = [("predict", plain), ("predict", changed), ("sweep", changed | {"place": 2})]
    asked += [("sensitivity", changed), ("nearest", 3), ("vocabulary", None)]
    first, second, sweep, sensitivity, nearest, vocabulary = node(path, asked)
    assert close(first["probabilities"], session.predict(TEXT, order, [])["probabilities"])
    assert close(second["probabilities"], session.predict(TEXT, order, edits)["probabilities"])
    if edits:
        assert not close(first["probabilities"], second["probabilities"])
    expected = session.sweep(TEXT, order, edits, 2)["probabilities"]
    assert all(map(close, sweep["probabilities"], expected))
    for name, values in session.sensitivity(TEXT, order, edits).items():
        assert close(sensitivity[name], values, CLOSE_ODDS)
    expected = session.nearest(3)["nearest"]
    assert [n["cosine"] for n in nearest] == pytest.approx(
        [n["cosine"] for n in expected], abs=1e-5
    )
    expected = session.vocabulary()
    assert vocabulary["words"] == expected["words"]
    assert vocabulary["amplitude"] == pytest.approx(expected["amplitude"], rel=1e-3)
    assert (vocabulary["delta"] or []) == pytest.approx(expected["delta"] or [], rel=1e-3)


def test_bigrams_and_scaled_sums(with_bigrams, node, tmp_path):
    classifier = with_bigrams()
    done = export_page(classifier, tmp_path / "page.html", twin=with_bigrams(embedding="tpe"))
    session = Session(Bag.describe(classifier, done.precision).rounded(classifier), name="x")
    order, edits = [1, 2, 3, 0, 7, 6, 5, 4], [{"id": 3, **EDIT}]
    given = {"text": TEXT, "order": order, "edits": edits}
    ids = [3, 4, 5, 5, 3]
    predicted, sensitivity, waves = node(
        tmp_path / "page.html", [("predict", given), ("sensitivity", given), ("waves", ids)]
    )
    expected = session.predict(TEXT, order, edits)
    assert close(predicted["probabilities"], expected["probabilities"])
    expected = session.sensitivity(TEXT, order, edits)
    assert close(sensitivity["place"], expected["place"], CLOSE_ODDS)
    expected = session.waves(ids, [0, *ids[:-1]])["waves"]
    for one, other in zip(waves, expected, strict=True):
        assert list(one["amplitude"].values()) == pytest.approx(other["amplitude"], abs=1e-5)
    assert session.about()["pooling"] == "sqrt"


def test_contexts_end_after_their_window(make, node, tmp_path):
    classifier, path = (
        make(views=("start", "context"), pooling="sum", phase=True),
        tmp_path / "a.html",
    )
    done = export_page(classifier, path)
    rounded = Bag.describe(classifier, done.precision).rounded(classifier)
    text = " ".join(random.Random(0).choices(("the", "dog", "bites", "man", "not"), k=40))
    order, edits = list(range(39, -1, -1)), [{"id": 4, **EDIT}]
    given = {"text": text, "order": order, "edits": edits}
    found, waves = node(path, [("predict", given), ("waves", [3, 4])])
    expected = Session(rounded, name="x").predict(text, order, edits)
    assert close(found["probabilities"], expected["probabilities"])
    assert [len(wave["frequencies"]) for wave in waves] == [1, 1]


def test_ngrams(with_ngrams, node, tmp_path):
    classifier, path = with_ngrams(), tmp_path / "page.html"
    done = export_page(classifier, path, twin=with_ngrams(embedding="tpe", n_bigrams=0))
    rounded = Bag.describe(classifier, done.precision).rounded(classifier)
    session, order = Session(rounded, name="x"), [1, 2, 3, 0, 7, 6, 5, 4]
    given = {"text": TEXT, "order": order, "edits": [{"id": 3, **EDIT}]}
    plain = given | {"edits": []}
    asked = [
        ("predict", given),
        ("predict", plain),
        ("sensitivity", given),
        ("predict", {"text": TEXT}),
    ]
    changed, moved, sensitivity, original = node(path, asked)
    for found, edits in ((changed, given["edits"]), (moved, [])):
        expected = session.predict(TEXT, order, edits)["probabilities"]
        assert close(found["probabilities"], expected)
    for name, values in session.sensitivity(TEXT, order, given["edits"]).items():
        assert close(sensitivity[name], values, CLOSE_ODDS)
    assert original["twin"] == pytest.approx(moved["twin"], abs=1e-9)


def test_the_figures_are_those_of_explain(page, node):
    (found,) = node(page.path, [("sensitivity", {"text": TEXT})])
    expected = explain(page.ours, TEXT).words
    assert close(found["word"], [word.importance for word in expected], CLOSE_ODDS)
    assert close(found["place"], [word.moved_mean for word in expected], CLOSE_ODDS)


def test_the_figures_of_a_certain_prediction_are_those_of_explain_too(make, node, tmp_path):
    classifier = make(pooling="sum", hidden_dim=0)
    with torch.no_grad():
        classifier.model.head[-1].weight *= 1000  # p is 1 whatever word is removed
    export_page(classifier, tmp_path / "page.html", precision="float32")
    (found,) = node(tmp_path / "page.html", [("sensitivity", {"text": TEXT})])
    expected = explain(classifier, TEXT)
    assert expected.probability == 1
    for name, values in (("word", "importance"), ("place", "moved_mean")):
        figures = [getattr(word, values) for word in expected.words]
        assert min(map(abs, figures)) > 1
        assert found[name] == pytest.approx(figures, rel=1e-3)


def test_of_a_long_sentence_some_moves_are_tried_as_in_pytorch(page, node):
    text = " ".join(random.Random(0).choices(("the", "dog", "bites", "man", "not"), k=38))
    (found,) = node(page.path, [("sensitivity", {"text": text})])
    expected = Session(page.ours, name="x").sensitivity(text, list(range(38)), [])
    assert found["place"] == pytest.approx(expected["place"], abs=CLOSE_ODDS)


def test_the_twin_with_added_positions_stays_put(page, node):
    texts = ["dog bites man", "man bites dog", "bites man dog"]
    found = node(page.path, [("predict", {"text": text}) for text in texts])
    expected = page.twin.probabilities(texts).tolist()
    for one, other in zip(found, expected, strict=True):
        assert close(one["twin"], other)
        assert one["twin"] == pytest.approx(found[0]["twin"], abs=1e-9)
    assert abs(found[0]["probabilities"][0] - found[1]["probabilities"][0]) > 0.01


@pytest.mark.parametrize("kind", ["plain", "kim"])
@pytest.mark.parametrize("hashed", [False, True])
def test_texts_are_split_and_numbered_as_in_python(make, node, tmp_path, kind, hashed):
    classifier = make(tokenizer=kind, hashed=hashed, max_length=300)
    path = tmp_path / "page.html"
    export_page(classifier, path)
    rng, signs = random.Random(3), "aZé\u0301ßΣn't.,()-_ 9½日の\u200d\t\u00a0ñ�क्ष"
    texts = ODD + ["".join(rng.choices(signs, k=30)) for _ in range(100)]
    session, tokenizer = Session(classifier, name="x"), build_tokenizer(kind)
    for text, found in zip(texts, node(path, [("tokens", text) for text in texts]), strict=True):
        assert [word["text"] for word in found["words"]] == (tokenizer(text) or ["<unk>"]), text
        assert found == session.tokens(text)


def test_a_long_text_is_cut(make, node, tmp_path):
    classifier = make(max_length=2000)
    export_page(classifier, tmp_path / "page.html")
    text = "dog " * 250_000
    (found,) = node(tmp_path / "page.html", [("tokens", text)])
    assert len(found["words"]) == 256 and found["cut"] == 5000 - 256
    assert found == Session(classifier, name="x").tokens(text)
