"""Vocabularies, and the special tokens that all models share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from reprlib import repr as clipped
from zlib import crc32

from wordwave.errors import WordwaveError

PADDING, UNKNOWN = "<pad>", "<unk>"
PADDING_ID, UNKNOWN_ID = 0, 1
SPECIALS = (PADDING, UNKNOWN)
N_COMMON = 100
"""The most frequent words of a vocabulary are those that hold sentences together."""


class Vocabulary:
    """Words in the order of their ids: padding is 0 and the unknown word 1."""

    def __init__(self, words: Sequence[str]) -> None:
        for i, word in enumerate(words):
            if not isinstance(word, str):
                raise WordwaveError(f"words must be strings, got {clipped(word)} at {i}")
        if tuple(words[: len(SPECIALS)]) != SPECIALS:
            start = clipped(list(words[: len(SPECIALS)]))
            raise WordwaveError(f"words must begin with {list(SPECIALS)}, got {start}")
        # The specials have no entry: a token spelled like one of them is an unknown word.
        self._ids = {word: i for i, word in enumerate(words) if word not in SPECIALS}
        if len(self._ids) + len(SPECIALS) != len(words):
            twice = next(word for word, count in Counter(words).items() if count > 1)
            raise WordwaveError(f"words must differ, got {clipped(twice)} twice")
        self._words = tuple(words)

    @classmethod
    def build(
        cls,
        token_lists: Iterable[Sequence[str]],
        *,
        min_count: int = 1,
        max_size: int | None = None,
        extra_words: Iterable[str] = (),
    ) -> Vocabulary:
        """The words of tokenised texts; options as in `from_counts`."""
        counts: Counter[str] = Counter()
        for tokens in token_lists:
            if isinstance(tokens, str):
                found = f"the text {clipped(tokens)}"
                raise WordwaveError(f"token_lists must hold lists of tokens, got {found}")
            counts.update(tokens)
        return cls.from_counts(
            counts, min_count=min_count, max_size=max_size, extra_words=extra_words
        )

    @classmethod
    def from_counts(
        cls,
        counts: Counter[str],
        *,
        min_count: int = 1,
        max_size: int | None = None,
        extra_words: Iterable[str] = (),
    ) -> Vocabulary:
        """The words that were counted, by descending frequency, ties in alphabetical order.

        Args:
            min_count: words that occur less often are left out.
            max_size: the most words taken from the texts, not counting the specials.
            extra_words: added after the others, beyond max_size: words that have a pretrained
                vector, or all subwords of a `bpe` tokenizer.
        """
        if min_count < 1:
            raise WordwaveError(f"min_count must be at least 1, got {min_count}")
        if max_size is not None and max_size < 1:
            raise WordwaveError(f"max_size must be at least 1 or None, got {max_size}")
        frequent = [word for word, count in counts.items() if count >= min_count]
        frequent.sort(key=lambda word: (-counts[word], word))
        kept = [word for word in frequent if word not in SPECIALS][:max_size]
        extra = set(extra_words).difference(kept, SPECIALS)
        return cls([*SPECIALS, *kept, *sorted(extra, key=lambda word: (-counts[word], word))])

    @property
    def words(self) -> tuple[str, ...]:
        """All words by id, including the two specials."""
        return self._words

    def ids(self, tokens: Iterable[str], *, hashed: bool = False) -> list[int]:
        """The id of each token; of unknown ones 1, or that of a rare word by their hash, so that
        different unknown words have different ids."""
        known = self._ids.get
        if not hashed:
            return [known(token, UNKNOWN_ID) for token in tokens]
        return [known(token) or self._hashed(token) for token in tokens]

    @property
    def first_rare(self) -> int:
        """The lowest id of a word that is not among the common ones."""
        return len(SPECIALS) + min(N_COMMON, len(self._ids) // 2)

    def _hashed(self, token: str) -> int:
        rare = len(self) - self.first_rare
        if not rare:
            return UNKNOWN_ID
        return self.first_rare + crc32(token.encode(errors="surrogatepass")) % rare

    def __len__(self) -> int:
        return len(self._words)

    def __contains__(self, word: object) -> bool:
        return word in self._ids

    def to_dict(self) -> dict[str, list[str]]:
        """A JSON-serialisable form; `from_dict` reads it."""
        return {"words": list(self._words)}

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Vocabulary:
        """The vocabulary from the form that `to_dict` returns."""
        words = data.get("words") if isinstance(data, Mapping) else None
        if not isinstance(words, list):
            raise WordwaveError(f"vocabulary must be {{'words': [...]}}, got {clipped(data)}")
        return cls(words)
