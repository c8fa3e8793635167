"""A checklist of minimal pairs: does a classifier understand negation and word order?

The two texts of a pair are almost the same, and belong to opposite classes: "good" and "not good",
"good, not bad" and "bad, not good". Templates and words are in `checklist.json`. Some of both are
held out: what is developed here is looked at on open ones only. Words are adjectives that are
labelled phrases in SST-2's training set. Held-out words never follow not, n't or never within three
words there, so that what a model predicts for "not X" is not a bigram that it has seen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from wordwave.config_io import from_dict
from wordwave.data.tables import read_texts
from wordwave.errors import WordwaveError, unknown

if TYPE_CHECKING:
    from wordwave.text.encoder import TextEncoder

Part = Literal["open", "held-out"]
Predict = Callable[[list[str]], Sequence[str]]
PARTS: tuple[Part, ...] = ("open", "held-out")
CLASS_NAMES = (("negative", "positive"), ("neg", "pos"), ("0", "1"), ("bad", "good"))
"""Names of classes that are recognized, in any case."""
NEGATED = "not"
"""The template of the two headline figures, "not" and a word."""
_ARTICLE = re.compile(r"\ba (?=[aeiou])")


@dataclass(frozen=True)
class Template:
    """Two texts with a word {x} of one class. {x2} is another word of that class, {y} one of the
    opposite class, {noun} what is talked about."""

    name: str
    kind: Literal["negation", "scope", "order"]
    """negation: one text is negated. scope: a negation that leaves the word as it is, beside one
    that does not. order: both texts have the same words."""
    part: Part
    same: str
    """A text of the class of {x}."""
    opposite: str
    """A text of the opposite class."""


@dataclass(frozen=True)
class MinimalPair:
    """Two texts and the class of each."""

    template: Template
    word: str
    texts: tuple[str, str]
    expected: tuple[str, str]


@dataclass(frozen=True)
class Checklist:
    """Minimal pairs for two opposite classes.

    Args:
        classes: the negative and the positive class.
        words: words, or phrases, of each of the two.
        templates: those that are filled with them.
        noun: what the texts are about.
    """

    classes: tuple[str, str]
    words: tuple[Sequence[str], Sequence[str]]
    templates: Sequence[Template]
    noun: str = "film"

    def __post_init__(self) -> None:
        if self.classes[0] == self.classes[1]:
            raise WordwaveError(f"the two classes must differ, got {self.classes[0]!r} twice")
        for name, words in zip(self.classes, self.words, strict=True):
            if len(set(words)) < 2:
                raise WordwaveError(
                    f"class {name!r} must have two words or more for a checklist, got {len(words)}"
                )
        if both := set(self.words[0]) & set(self.words[1]):
            raise WordwaveError(f"{min(both)!r} is a word of both classes")

    def pairs(self) -> list[MinimalPair]:
        """A pair for each template and word of both classes."""
        return [
            self._pair(template, own, i)
            for template in self.templates
            for own in (0, 1)
            for i in range(len(self.words[own]))
        ]

    def _pair(self, template: Template, own: int, i: int) -> MinimalPair:
        words, others = self.words[own], self.words[1 - own]
        slots = {
            "x": words[i],
            "x2": words[(i + 1) % len(words)],
            "y": others[i % len(others)],
            "noun": self.noun,
        }
        same, opposite = (
            _ARTICLE.sub("an ", text.format(**slots)) for text in (template.same, template.opposite)
        )
        expected = self.classes[own], self.classes[1 - own]
        return MinimalPair(template, words[i], (same, opposite), expected)

    def evaluate(self, predict: Predict) -> ChecklistScores:
        """Compare the predicted class of each text with the expected one."""
        pairs = self.pairs()
        predicted = list(predict([text for pair in pairs for text in pair.texts]))
        correct = [
            (first == pair.expected[0], second == pair.expected[1])
            for pair, first, second in zip(pairs, predicted[::2], predicted[1::2], strict=True)
        ]
        return ChecklistScores(self.classes, pairs, correct)


@dataclass(frozen=True)
class ChecklistScores:
    """What a classifier predicted for a checklist."""

    classes: tuple[str, str]
    pairs: Sequence[MinimalPair]
    correct: Sequence[tuple[bool, bool]]
    """Of each pair, whether each of its texts has the expected class."""

    def negated(self, label: str, words: Iterable[str] | None = None) -> float | None:
        """The share of "not" + a word of this class, all of its words or only some, that is
        predicted as the opposite class; `None` if there are none."""
        kept = None if words is None else set(words)
        found = [
            right[1]
            for pair, right in zip(self.pairs, self.correct, strict=True)
            if pair.template.name == NEGATED
            and pair.expected[0] == label
            and (kept is None or pair.word in kept)
        ]
        return fmean(found) if found else None

    def by_template(self) -> list[dict[str, Any]]:
        """Of each template, the share of texts with the expected class, and that of pairs of which
        both texts have it."""
        of_template: dict[Template, list[tuple[bool, bool]]] = {}
        for pair, right in zip(self.pairs, self.correct, strict=True):
            of_template.setdefault(pair.template, []).append(right)
        return [
            {
                "template": template.name,
                "kind": template.kind,
                "part": template.part,
                "same": template.same,
                "opposite": template.opposite,
                "n_pairs": len(found),
                "texts": fmean(map(fmean, found)),
                "pairs": fmean(map(all, found)),
            }
            for template, found in of_template.items()
        ]

    def plain(self) -> dict[str, Any]:
        """All scores, as JSON has them."""
        negative, positive = self.classes
        return {
            "classes": list(self.classes),
            "texts": fmean(map(fmean, self.correct)),
            "pairs": fmean(map(all, self.correct)),
            "not_positive_is_negative": self.negated(positive),
            "not_negative_is_positive": self.negated(negative),
            "templates": self.by_template(),
        }


def builtin_templates(*parts: Part) -> list[Template]:
    """The templates of these parts, by default of all."""
    templates = (from_dict(Template, one) for one in _content()["templates"])
    return [template for template in templates if template.part in (parts or PARTS)]


def builtin_words(*parts: Part) -> tuple[list[str], list[str]]:
    """Negative and positive words of English, of these parts, by default of all."""
    words = _content()["words"]
    negative, positive = (
        [word for part in parts or PARTS for word in words[name][part]]
        for name in ("negative", "positive")
    )
    return negative, positive


def read_words(path: str | Path) -> list[str]:
    """The words or phrases of a file, one per line."""
    lines = (line.strip() for line in read_texts(path, form="txt"))
    return list(dict.fromkeys(line for line in lines if line))


def known_words(words: Sequence[str], encoder: TextEncoder) -> list[str]:
    """Those of which a classifier has all tokens in its vocabulary."""
    return [w for w in words if all(token in encoder.vocabulary for token in encoder.tokenizer(w))]


def find_classes(labels: Sequence[str], named: Sequence[str] | None = None) -> tuple[str, str]:
    """The negative and the positive class: those that are named, else by the usual names."""
    if named is not None:
        for name in named:
            if name not in labels:
                raise unknown("a class of the checklist", name, labels)
        return named[0], named[1]
    by_name = {label.lower(): label for label in labels}
    for negative, positive in CLASS_NAMES:
        if negative in by_name and positive in by_name:
            return by_name[negative], by_name[positive]
    raise WordwaveError(
        f"none of the classes {', '.join(map(repr, labels[:5]))}{', …' if labels[5:] else ''} is "
        "called negative or positive: name both by --checklist-classes NEGATIVE POSITIVE"
    )


def _content() -> dict[str, Any]:
    path = Path(__file__).with_suffix(".json")
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content
