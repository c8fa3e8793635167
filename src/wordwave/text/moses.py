"""Sentences as translation is used to see them: Moses' normalisation and tokens, by sacremoses."""

from __future__ import annotations

from functools import cached_property
from typing import Any


class MosesText:
    """From a text to words and marks between spaces, and back.

    Args:
        language: `en`, `de`, …; one that Moses has no rules for takes English abbreviations.
        lower_case: take all letters as small ones.
    """

    def __init__(self, language: str, *, lower_case: bool = False) -> None:
        self.language, self.lower_case = language, lower_case

    def tokenised(self, text: str) -> str:
        """Words and marks between single spaces."""
        if not text.strip():
            return ""
        normal = self._normaliser.normalize(text)
        tokens = self._tokeniser.tokenize(normal, escape=False, return_str=True)
        return tokens.lower() if self.lower_case else tokens

    def plain(self, tokenised: str) -> str:
        """The text as people write it."""
        text: str = self._detokeniser.detokenize(tokenised.split())
        return text

    @cached_property
    def _normaliser(self) -> Any:
        return _sacremoses().MosesPunctNormalizer(lang=self.language)

    @cached_property
    def _tokeniser(self) -> Any:
        return _sacremoses().MosesTokenizer(lang=self.language)

    @cached_property
    def _detokeniser(self) -> Any:
        return _sacremoses().MosesDetokenizer(lang=self.language)


class SpacedText:
    """A text whose words are between spaces already: nothing is changed but white space.

    Args: as `MosesText`.
    """

    def __init__(self, language: str = "", *, lower_case: bool = False) -> None:
        self.language, self.lower_case = language, lower_case

    def tokenised(self, text: str) -> str:
        """Words between single spaces."""
        words = " ".join(text.split())
        return words.lower() if self.lower_case else words

    def plain(self, tokenised: str) -> str:
        """The same."""
        return tokenised


def _sacremoses() -> Any:
    try:
        import sacremoses
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "words of Moses need an extra: pip install 'wordwave[cli]'", name="sacremoses"
        ) from None
    return sacremoses
