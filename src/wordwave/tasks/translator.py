"""Sentences of two languages as ids of pieces of words, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from wordwave.config_io import conform, read_json
from wordwave.errors import WordwaveError
from wordwave.files import write_text, write_whole
from wordwave.models.beam_search import Hypothesis, beam_search, check_search
from wordwave.models.encoder_decoder import END, START
from wordwave.models.eval_mode import eval_mode
from wordwave.models.lstm_decoder import TranslationModel, translation_model
from wordwave.tasks.config import TranslationConfig
from wordwave.tasks.run import Trained, check_trained, load_model, read_config, save_config
from wordwave.text.batching import Sentences, by_length
from wordwave.text.encoder import Encoded, TextEncoder
from wordwave.text.tokenizers import BPETokenizer, Casing, MosesText, SpacedText, train_bpe
from wordwave.text.vocabulary import SPECIALS, Vocabulary

TOKENISER_FILE, CASING_FILE = "tokenizer.json", "casing.json"
# A space never stands inside a piece, so no piece can be spelled like these.
START_AND_END = ("<the start>", "<the end>")


class SubwordEncoder:
    """One vocabulary for both languages: padding, unknown, start, end, then the pieces.

    Args:
        tokenizer: cuts words into pieces.
        config: says what a word is, which languages there are, and how long a sentence may be.
        casing: gives capitals to what was learnt in small letters.
    """

    def __init__(
        self, tokenizer: BPETokenizer, config: TranslationConfig, casing: Casing | None = None
    ) -> None:
        self.tokenizer, self.casing = tokenizer, casing
        pieces = (piece for piece in tokenizer.words if piece not in SPECIALS)
        self.vocabulary = Vocabulary([*SPECIALS, *START_AND_END, *pieces])
        self.source, self.target = texts_of(config)
        self.max_length = config.model.max_length
        # One more than allowed, to tell those that are too long.
        self._encoder = TextEncoder(tokenizer, self.vocabulary, max_length=self.max_length + 1)

    def __len__(self) -> int:
        return len(self.vocabulary)

    def encode(self, tokenised: Iterable[str]) -> Encoded:
        """The ids of tokenised sentences, those too long one longer than they may be."""
        return self._encoder.encode(tokenised)

    def tokenised(self, ids: Sequence[int]) -> str:
        """Words and marks between spaces. Shape: (L,)"""
        return self.tokenizer.decode([self.vocabulary.words[i] for i in ids]).strip()

    def written(self, tokenised: str) -> str:
        """Words and marks as a person writes them."""
        cased = tokenised if self.casing is None else self.casing.restored(tokenised)
        return " ".join(self.target.plain(cased).split())

    def save(self, folder: Path) -> None:
        """Write tokenizer.json, which the library `tokenizers` reads too, and casing.json."""
        write_whole(folder / TOKENISER_FILE, self.tokenizer.save)
        if self.casing is not None:
            text = json.dumps(self.casing.forms, ensure_ascii=False, indent=0)
            write_text(folder / CASING_FILE, text + "\n")

    @classmethod
    def load(cls, folder: Path, config: TranslationConfig) -> SubwordEncoder:
        """Read what `save` wrote."""
        casing, file = None, folder / CASING_FILE
        if file.exists():
            try:
                forms = read_json(file)
                conform(forms, dict[str, str], where="it")
                casing = Casing(forms)
            except ValueError as problem:
                raise WordwaveError(f"'{file}' does not hold spellings: {problem}") from None
        elif config.text.lower_case:
            raise WordwaveError(f"'{file}' is missing: without it no word has a capital")
        return cls(BPETokenizer.load(folder / TOKENISER_FILE), config, casing)


def texts_of(config: TranslationConfig) -> tuple[MosesText | SpacedText, MosesText | SpacedText]:
    """How source and target texts become words and marks between spaces."""
    kind = MosesText if config.text.words == "moses" else SpacedText
    source, target = (
        kind(language, lower_case=config.text.lower_case)
        for language in (config.data.source_language, config.data.target_language)
    )
    return source, target


def train_subwords(
    config: TranslationConfig, tokenised: Iterable[str], targets: Iterable[str]
) -> SubwordEncoder:
    """Learn pieces from tokenised sentences of both languages, and capitals from target texts."""
    casing = Casing.learn(targets) if config.text.lower_case else None
    return SubwordEncoder(train_bpe(tokenised, config.text.bpe_size), config, casing)


@dataclass(frozen=True)
class Search:
    """How translations are looked for."""

    beam: int = 5
    """Hypotheses kept in each step; 1 is greedy."""
    n_best: int = 1
    """Translations of each sentence."""
    length_penalty: float = 1.0
    """0 prefers short translations; with 1 nearly the mean of a piece counts."""
    batch_words: int = 1024
    """Source pieces translated at once."""

    def __post_init__(self) -> None:
        check_search(beam=self.beam, n_best=self.n_best, length_penalty=self.length_penalty)


@dataclass(frozen=True)
class Translation:
    """One way to say it."""

    text: str
    tokenised: str
    """Words and marks between spaces."""
    score: float
    log_probability: float
    ids: tuple[int, ...] = ()
    """Its pieces, if it comes from a model and not from a file."""

    def plain(self) -> dict[str, Any]:
        """For JSON: what others understand."""
        return {name: value for name, value in asdict(self).items() if name != "ids"}


class Translator(Trained):
    """Says a sentence in another language.

    Args:
        model: gives logits for ids of pieces.
        pieces: makes ids of texts, and texts of ids.
        config: how it was trained.
    """

    task = "translate"
    model: TranslationModel
    config: TranslationConfig

    def __init__(
        self, model: TranslationModel, pieces: SubwordEncoder, config: TranslationConfig
    ) -> None:
        self.model, self.pieces, self.config = model, pieces, config

    def translate(self, texts: Sequence[str], *, beam: int = 5) -> list[str]:
        """The best translation of each text."""
        return [best[0].text for best in self.translations(texts, Search(beam=beam))[0]]

    def translations(
        self, texts: Sequence[str], search: Search | None = None
    ) -> tuple[list[list[Translation]], int]:
        """The n best translations of each text, and how many texts were cut to the greatest
        length; nothing is translated by nothing."""
        search = search or Search()
        tokenised = [self.pieces.source.tokenised(text) for text in texts]
        said = [i for i, words in enumerate(tokenised) if words]
        sources, _ = self.pieces.encode(tokenised[i] for i in said)
        n_cut = int((sources.lengths > self.pieces.max_length).sum())
        answers = [[Translation("", "", 0.0, 0.0)] for _ in texts]
        for rows in by_length(sources.lengths, search.batch_words):
            for row, found in zip(rows.tolist(), self._search(sources, rows, search), strict=True):
                answers[said[row]] = [self._translation(hypothesis) for hypothesis in found]
        return answers, n_cut

    def _search(self, sources: Sentences, rows: Tensor, search: Search) -> list[list[Hypothesis]]:
        if not len(rows):
            return []
        most = self.pieces.max_length
        with eval_mode(self.model) as device:
            return beam_search(
                self.model,
                sources.padded(rows)[:, :most].to(device),
                longest=[min(2 * n + 20, most) for n in sources.lengths[rows].tolist()],
                beam=search.beam,
                n_best=search.n_best,
                length_penalty=search.length_penalty,
            )

    def _translation(self, hypothesis: Hypothesis) -> Translation:
        tokenised = self.pieces.tokenised(hypothesis.ids)
        text = self.pieces.written(tokenised)
        return Translation(
            text, tokenised, hypothesis.score, hypothesis.log_probability, tuple(hypothesis.ids)
        )

    def attention(
        self, text: str, translation: str | Translation
    ) -> tuple[list[str], list[str], Tensor]:
        """Source pieces, target pieces, and how much each target piece hears of each source one.

        Shape: (layers, T, S), T with the end of the sentence
        """
        source = self._ids(self.pieces.source.tokenised(text))
        if isinstance(translation, Translation):
            target = torch.tensor([translation.ids], dtype=torch.long)
        else:
            target = self._ids(self.pieces.target.tokenised(translation))
        before = torch.cat([torch.full((1, 1), START), target], dim=1)
        with eval_mode(self.model) as device:
            heard = self.model.attention_map(source.to(device), before.to(device))[0].cpu()
        after = [*target[0].tolist(), END]
        return self._names(source[0].tolist()), self._names(after), heard

    def _ids(self, tokenised: str) -> Tensor:
        """Shape: (1, L)"""
        return self.pieces.encode([tokenised])[0].padded([0])[:, : self.pieces.max_length]

    def _names(self, ids: list[int]) -> list[str]:
        """SubwordEncoder as they are read; a new word begins with a space."""
        decode = self.pieces.tokenizer.decode
        words = self.pieces.vocabulary.words
        return ["END" if i == END else decode(["Ġ", words[i]]) for i in ids]

    def save_all_but_weights(self, folder: Path) -> None:
        save_config(folder, self.task, self.config)
        self.pieces.save(folder)

    @classmethod
    def load(cls, folder: str | Path) -> Translator:
        """Read what `save` wrote; ready to translate."""
        folder = Path(folder)
        config = read_config(folder, cls.task, TranslationConfig)
        check_trained(folder)
        pieces = SubwordEncoder.load(folder, config)
        model = load_model(
            folder, lambda: translation_model(config.model, len(pieces)), dim=config.model.dim
        )
        return cls(model, pieces, config)
