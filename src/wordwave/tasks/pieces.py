"""Sentences of two languages as ids of pieces of words, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from wordwave.files import write_text, write_whole
from wordwave.plain import conform, read_json
from wordwave.tasks.translate_config import TranslateConfig
from wordwave.text.bpe import BpeTokeniser, train_bpe
from wordwave.text.casing import Casing
from wordwave.text.encode import Encoded, TextEncoder
from wordwave.text.moses import MosesText, SpacedText
from wordwave.text.vocabulary import SPECIALS, Vocabulary

TOKENISER_FILE, CASING_FILE = "tokenizer.json", "casing.json"
# A space never stands inside a piece, so no piece can be spelled like these.
START_AND_END = ("<the start>", "<the end>")


class Pieces:
    """One vocabulary for both languages: padding, unknown, start, end, then the pieces.

    Args:
        tokeniser: cuts words into pieces.
        config: says what a word is, which languages there are, and how long a sentence may be.
        casing: gives capitals to what was learnt in small letters.
    """

    def __init__(
        self, tokeniser: BpeTokeniser, config: TranslateConfig, casing: Casing | None = None
    ) -> None:
        self.tokeniser, self.casing = tokeniser, casing
        pieces = (piece for piece in tokeniser.words if piece not in SPECIALS)
        self.vocabulary = Vocabulary([*SPECIALS, *START_AND_END, *pieces])
        self.source, self.target = texts_of(config)
        self.max_length = config.model.max_length
        # One more than allowed, to tell those that are too long.
        self._encoder = TextEncoder(tokeniser, self.vocabulary, max_length=self.max_length + 1)

    def __len__(self) -> int:
        return len(self.vocabulary)

    def encode(self, tokenised: Iterable[str]) -> Encoded:
        """The ids of tokenised sentences, those too long one longer than they may be."""
        return self._encoder.encode(tokenised)

    def tokenised(self, ids: Sequence[int]) -> str:
        """Words and marks between spaces. Shape: (L,)"""
        return self.tokeniser.decode([self.vocabulary.words[i] for i in ids]).strip()

    def written(self, tokenised: str) -> str:
        """Words and marks as a person writes them."""
        cased = tokenised if self.casing is None else self.casing.restored(tokenised)
        return " ".join(self.target.plain(cased).split())

    def save(self, folder: Path) -> None:
        """Write tokenizer.json, which the library `tokenizers` reads too, and casing.json."""
        write_whole(folder / TOKENISER_FILE, self.tokeniser.save)
        if self.casing is not None:
            text = json.dumps(self.casing.forms, ensure_ascii=False, indent=0)
            write_text(folder / CASING_FILE, text + "\n")

    @classmethod
    def load(cls, folder: Path, config: TranslateConfig) -> Pieces:
        """Read what `save` wrote."""
        casing, file = None, folder / CASING_FILE
        if file.exists():
            try:
                forms = read_json(file)
                conform(forms, dict[str, str], where="it")
                casing = Casing(forms)
            except ValueError as problem:
                raise ValueError(f"'{file}' does not hold spellings: {problem}") from None
        elif config.text.lower_case:
            raise ValueError(f"'{file}' is missing: without it no word has a capital")
        return cls(BpeTokeniser.load(folder / TOKENISER_FILE), config, casing)


def texts_of(config: TranslateConfig) -> tuple[MosesText | SpacedText, MosesText | SpacedText]:
    """How source and target texts become words and marks between spaces."""
    kind = MosesText if config.text.words == "moses" else SpacedText
    source, target = (
        kind(language, lower_case=config.text.lower_case)
        for language in (config.data.source_language, config.data.target_language)
    )
    return source, target


def learn_pieces(
    config: TranslateConfig, tokenised: Iterable[str], targets: Iterable[str]
) -> Pieces:
    """Learn pieces from tokenised sentences of both languages, and capitals from target texts."""
    casing = Casing.learn(targets) if config.text.lower_case else None
    return Pieces(train_bpe(tokenised, config.text.bpe_size), config, casing)
