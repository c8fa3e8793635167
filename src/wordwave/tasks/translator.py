"""`Translator`: a trained translation model, on texts."""

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
from wordwave.models.encoder_decoder import BOS_ID, EOS_ID, EncoderDecoder, translation_model
from wordwave.models.utils import eval_mode
from wordwave.progress import track
from wordwave.tasks.config import TranslationConfig
from wordwave.tasks.run import TextModel
from wordwave.tasks.run_folder import load_model, reading
from wordwave.text.batching import by_length
from wordwave.text.encoder import Encoded, TextEncoder
from wordwave.text.tokenizers import BPETokenizer, Casing, MosesText, SpacedText
from wordwave.text.vocabulary import SPECIALS, Vocabulary

BATCH_WORDS = 1024
"""Source subwords that are translated at once."""
TOKENISER_FILE, CASING_FILE = "tokenizer.json", "casing.json"
# A space is never part of a subword, so no subword can be spelled like these.
START_AND_END = ("<the start>", "<the end>")


class SubwordEncoder:
    """Texts of both languages to ids of subwords, and back.

    One vocabulary for both: padding, unknown, start, end, then the subwords.

    Args:
        tokenizer: splits words into subwords.
        config: the languages, how texts become words, and the greatest length.
        casing: restores the case of lower-cased translations.
    """

    def __init__(
        self, tokenizer: BPETokenizer, config: TranslationConfig, casing: Casing | None = None
    ) -> None:
        self.tokenizer, self.casing = tokenizer, casing
        subwords = (word for word in tokenizer.words if word not in SPECIALS)
        self.vocabulary = Vocabulary([*SPECIALS, *START_AND_END, *subwords])
        self.source, self.target = texts_of(config)
        self.max_length = config.model.max_length
        # One more than allowed, to recognise sentences that are too long.
        self._encoder = TextEncoder(tokenizer, self.vocabulary, max_length=self.max_length + 1)

    def __len__(self) -> int:
        return len(self.vocabulary)

    def encode(self, tokenised: Iterable[str]) -> Encoded:
        """The ids of tokenised sentences, truncated to one more than the greatest length."""
        return self._encoder.encode(tokenised)

    def tokenised(self, ids: Sequence[int]) -> str:
        """Words and punctuation separated by spaces. Shape: (L,)"""
        return self.tokenizer.decode([self.vocabulary.words[i] for i in ids]).strip()

    def detokenised(self, tokenised: str) -> str:
        """Plain text, with its case restored."""
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
            with reading(file, "does not hold spellings"):
                forms = read_json(file)
                conform(forms, dict[str, str], where="it")
                casing = Casing(forms)
        elif config.text.lower_case:
            raise WordwaveError(f"'{file}' is missing: it is needed to restore upper case")
        return cls(BPETokenizer.load(folder / TOKENISER_FILE), config, casing)


def texts_of(config: TranslationConfig) -> tuple[MosesText | SpacedText, MosesText | SpacedText]:
    """How source and target texts are tokenised into words."""
    kind = MosesText if config.text.words == "moses" else SpacedText
    source, target = (
        kind(language, lower_case=config.text.lower_case)
        for language in (config.data.source_language, config.data.target_language)
    )
    return source, target


@dataclass(frozen=True)
class BeamConfig:
    """How translations are searched for."""

    beam: int = 5
    """Beam width; 1 is greedy search."""
    n_best: int = 1
    """Translations of each sentence."""
    length_penalty: float = 1.0
    """Exponent of the length that scores are divided by: 0 prefers short translations, with 1 the
    score is nearly the mean log-probability of a subword."""

    def __post_init__(self) -> None:
        check_search(beam=self.beam, n_best=self.n_best, length_penalty=self.length_penalty)


@dataclass(frozen=True)
class Translation:
    """A translation and its score."""

    text: str
    tokenised: str
    """Words and punctuation separated by spaces."""
    score: float
    log_probability: float
    ids: tuple[int, ...] = ()
    """Its subwords, unless it was read from a file."""

    def plain(self) -> dict[str, Any]:
        """JSON values, without the ids."""
        return {name: value for name, value in asdict(self).items() if name != "ids"}


class Translator(TextModel):
    """Translates sentences.

    Args:
        model: computes logits from ids of subwords.
        subwords: turns texts into ids, and ids into texts.
        config: how it was trained.
    """

    task = "translate"
    config_class = TranslationConfig
    model: EncoderDecoder
    config: TranslationConfig

    def __init__(
        self, model: EncoderDecoder, subwords: SubwordEncoder, config: TranslationConfig
    ) -> None:
        self.model, self.subwords, self.config = model, subwords, config

    def translate(self, texts: Sequence[str], *, beam: int = 5) -> list[str]:
        """The best translation of each text."""
        return [best[0].text for best in self.translations(texts, BeamConfig(beam=beam))[0]]

    def translations(
        self, texts: Sequence[str], beam: BeamConfig | None = None
    ) -> tuple[list[list[Translation]], int]:
        """The n best translations of each text, and the number of texts that were truncated to
        `max_length` subwords. The translation of an empty text is empty."""
        beam = beam or BeamConfig()
        tokenised = [self.subwords.source.tokenised(text) for text in texts]
        worded = [i for i, words in enumerate(tokenised) if words]
        sources, _ = self.subwords.encode(tokenised[i] for i in worded)
        most = self.subwords.max_length
        n_truncated = int((sources.lengths > most).sum())
        found = [[Translation("", "", 0.0, 0.0)] for _ in texts]
        batches = by_length(sources.lengths, BATCH_WORDS) if worded else []
        for rows in track(batches, f"translating {len(texts):,} sentences", len(batches)):
            with eval_mode(self.model) as device:
                hypotheses = beam_search(
                    self.model,
                    sources.padded(rows)[:, :most].to(device),
                    max_lengths=[min(2 * n + 20, most) for n in sources.lengths[rows].tolist()],
                    beam=beam.beam,
                    n_best=beam.n_best,
                    length_penalty=beam.length_penalty,
                )
            for row, best in zip(rows.tolist(), hypotheses, strict=True):
                found[worded[row]] = [self._translation(hypothesis) for hypothesis in best]
        return found, n_truncated

    def _translation(self, found: Hypothesis) -> Translation:
        tokenised = self.subwords.tokenised(found.ids)
        text = self.subwords.detokenised(tokenised)
        return Translation(text, tokenised, found.score, found.log_probability, tuple(found.ids))

    def attention(
        self, text: str, translation: str | Translation
    ) -> tuple[list[str], list[str], Tensor]:
        """Source subwords, target subwords, and the cross-attention weights between them.

        Shape: (layers, T, S), T including the end of the sentence
        """
        source = self._ids(self.subwords.source.tokenised(text))
        if isinstance(translation, Translation):
            target = torch.tensor([translation.ids], dtype=torch.long)
        else:
            target = self._ids(self.subwords.target.tokenised(translation))
        before = torch.cat([torch.full((1, 1), BOS_ID), target], dim=1)
        with eval_mode(self.model) as device:
            weights = self.model.attention_map(source.to(device), before.to(device))[0].cpu()
        after = [*target[0].tolist(), EOS_ID]
        return self._names(source[0].tolist()), self._names(after), weights

    def _ids(self, tokenised: str) -> Tensor:
        """Shape: (1, L)"""
        return self.subwords.encode([tokenised])[0].padded([0])[:, : self.subwords.max_length]

    def _names(self, ids: list[int]) -> list[str]:
        """Subwords for people; one that starts a word starts with a space."""
        decode = self.subwords.tokenizer.decode
        words = self.subwords.vocabulary.words
        return ["END" if i == EOS_ID else decode(["Ġ", words[i]]) for i in ids]

    def save_vocabulary(self, folder: Path) -> None:
        self.subwords.save(folder)

    @classmethod
    def load_parts(cls, folder: Path, config: TranslationConfig) -> Translator:
        subwords = SubwordEncoder.load(folder, config)
        model = load_model(folder, lambda: translation_model(config.model, len(subwords)))
        return cls(model, subwords, config)
