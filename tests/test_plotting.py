"""Pictures: fonts that have the glyphs, and nothing hidden or cropped."""

import warnings
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib import font_manager
from matplotlib.image import imread

from wordwave import plotting as fonts
from wordwave.lab import figures
from wordwave.plotting import draw_attention

STIX = Path(matplotlib.get_data_path(), "fonts", "ttf", "STIXGeneral.ttf")
LETTER = "\u1d81"  # D with a palatal hook: in STIX, which comes with matplotlib, but not in DejaVu


@pytest.fixture
def installed(monkeypatch):
    """Play a machine with these fonts."""

    def play(*paths):
        fonts._found.cache_clear()
        monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [str(p) for p in paths])

    yield play
    fonts._found.cache_clear()


def test_texts_that_the_usual_font_has_need_no_other(installed):
    installed(STIX)
    texts = ["näin", "ёж", "ω·pos", "$x", "a\tb\n"]
    assert fonts.families_for(texts) == ["DejaVu Sans"] and fonts.missing_glyphs(texts) == ""


def test_a_font_that_has_the_glyphs_is_used(installed, tmp_path):
    installed(tmp_path / "no.ttf", STIX)
    assert fonts.families_for([LETTER, "a"]) == ["DejaVu Sans", "STIXGeneral"]
    assert fonts.missing_glyphs([LETTER]) == ""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # matplotlib warns of a glyph that is missing
        draw_attention([LETTER], ["b"], torch.ones(1, 1, 1), tmp_path / "heard.png")


@pytest.mark.parametrize(
    ("text", "script"),
    [("很好", "CJK"), ("です", "HIRAGANA"), ("영화", "HANGUL"), ("अच्छा", "DEVANAGARI")],
)
def test_a_script_that_no_font_has_is_named_in_one_line(installed, text, script):
    installed()
    said = fonts.missing_glyphs(["good", text])
    assert script in said and text[0] in said and "install" in said and "\n" not in said
    assert fonts.families_for([text]) == ["DejaVu Sans"]


def record(embedding, accuracy, seed=0):
    words = {"marked": [0.2, 0.21], "others": [0.1, 0.11]} if embedding == "complex-order" else None
    return {
        "task": "precedence", "encoder": "fasttext", "embedding": embedding, "seed": seed,
        "accuracy": {"10-20": accuracy, "40-60": accuracy}, "sensitivity": words,
    }  # fmt: skip


def shows(path, colour, tolerance=0.06):
    """Where a picture has a colour, nearly. Shape: (height, width)"""
    wanted = np.array(matplotlib.colors.to_rgb(colour))
    return np.abs(imread(path)[..., :3] - wanted).max(axis=-1) < tolerance


def test_lines_on_top_of_each_other_are_all_seen(tmp_path):
    kinds = ("none", "pe", "tpe", "complex-vanilla")
    path = figures.draw_lengths([record(kind, 0.5) for kind in kinds], tmp_path / "a.png")
    columns = np.all(
        [shows(path, figures.EMBEDDING_COLOURS[kind]).any(axis=0) for kind in kinds], axis=0
    )
    assert columns.mean() > 0.3  # of the width; the legend, which has them all, takes a tenth


def test_no_row_of_frequencies_is_cropped(tmp_path):
    path = figures.draw_sensitivities([record("complex-order", 1.0)], tmp_path / "f.png")
    colours = ("#2a6fdb", "#cccfd2")  # grey is half transparent
    heights = [shows(path, colour, 0.01).any(axis=1).sum() for colour in colours]
    assert min(heights) > 20  # grey is as high as blue: neither is cut
    assert abs(heights[0] - heights[1]) <= 3
