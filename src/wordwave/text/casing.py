"""Capital letters for texts of small ones, by how words were spelled in other texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise

_WORD = re.compile(r"[\w'’-]+|[.!?]")
_ENDS = frozenset(".!?")


class Casing:
    """How a word is written inside a sentence, where it is not in small letters.

    Args:
        forms: its spelling, by the same in small letters.
    """

    def __init__(self, forms: Mapping[str, str]) -> None:
        for small, form in forms.items():
            if form.lower() != small:
                raise ValueError(f"a spelling must be that of {small[:60]!r}, got {form[:60]!r}")
        self.forms = dict(forms)

    @classmethod
    def learn(cls, texts: Iterable[str]) -> Casing:
        """The most frequent spelling of each word; at the start of a sentence it says nothing."""
        seen: dict[str, Counter[str]] = {}
        for text in texts:
            for before, word in pairwise((".", *_WORD.findall(text))):
                if before not in _ENDS:
                    seen.setdefault(word.lower(), Counter())[word] += 1
        usual = {
            small: max(sorted(f, reverse=True), key=f.__getitem__) for small, f in seen.items()
        }
        return cls({small: form for small, form in usual.items() if form != small})

    def restored(self, tokenised: str) -> str:
        """The same words and marks, with capitals inside and at the start of sentences."""
        words = [self.forms.get(word, word) for word in tokenised.split()]
        for i, word in enumerate(words):
            if i == 0 or words[i - 1] in _ENDS:
                words[i] = word[:1].upper() + word[1:]
        return " ".join(words)
