"""Language modelling from a text to a run folder: data + model + loss + figures."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, TypedDict

import torch

from wordwave.data.characters import UNIT_NAMES, Alphabet, Text, Unit, read_text
from wordwave.data.corpora import TextParts, load_text
from wordwave.models.classifier import count_parameters
from wordwave.tasks.bits import counted_before
from wordwave.tasks.footprint import check_training_fits
from wordwave.tasks.lm_config import LmConfig
from wordwave.tasks.made_here import check_made_here
from wordwave.tasks.prepared import Prepared
from wordwave.tasks.run_folder import check_same, finished
from wordwave.tasks.streams import StreamTask
from wordwave.tasks.writer import Writer, model_for
from wordwave.training.loop import Training


class _MayHave(TypedDict, total=False):
    examples: str
    unit: Unit
    valid_bpc: float
    valid_characters: int
    test_bpc: float
    test_characters: int


class Result(_MayHave):
    """What is shown of result.json."""

    best_step: int
    parameters: int
    characters_per_second: float | None


@dataclass(frozen=True)
class PreparedWriter(Prepared):
    """A language model before its training."""

    writer: Writer
    task: StreamTask
    parts: TextParts
    notes: list[str]
    fingerprint: str
    scored: tuple[str, ...] = ("valid", "test")
    """The parts that the finished model is scored on."""

    @property
    def trained(self) -> Writer:
        return self.writer

    @property
    def to_score(self) -> str:
        n = sum(len(part) for part in self._scored().values())
        named = " and the ".join(self.scored)
        return f"{n:,} {UNIT_NAMES[self.parts.unit]}s of the {named} part"

    def _scored(self) -> dict[str, Text]:
        n = self.writer.config.data.score_on
        return {name: head(getattr(self.parts, name), n) for name in self.scored}

    def result(
        self, training: Training, journal: list[dict[str, Any]], folder: Path
    ) -> dict[str, Any]:
        writer, progress = self.writer, training.progress
        figures: dict[str, Any] = {}
        for name, text in self._scored().items():
            figures[f"{name}_bpc"] = writer.bits(text).per_character
            figures[f"{name}_characters"] = len(text)
        return {
            "examples": self.fingerprint,
            "judged_bpc": -progress.best_score,
            "judged_characters": len(self.task.valid or ()),
            **figures,
            "unit": self.parts.unit,
            "best_step": progress.best_step,
            "steps": progress.step,
            "parameters": count_parameters(writer.model),
            "characters_read": progress.n_words,
            "seconds": round(sum(r["seconds"] for r in journal), 1),
            "characters_per_second": (
                median(r["words_per_second"] for r in journal) if journal else None
            ),
        }


def prepare(config: LmConfig, parts: TextParts) -> PreparedWriter:
    """Number the characters of a text and make the model.

    The alphabet is that of the training part. The model depends on the config and the data alone,
    not on the global random state.
    """
    unit = UNIT_NAMES[parts.unit]
    alphabet = Alphabet.of(parts.train, parts.unit)
    check_training_fits(
        lambda: model_for(alphabet, config.model),
        "fewer or narrower layers (--n-layers, --dim, --feed-forward-dim)",
        row_sparse=False,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.training.seed)
        model = model_for(alphabet, config.model)
    judged = head(parts.valid, config.data.judge_on)
    notes = [
        f"{len(parts.train):,} {unit}s to learn from, {len(alphabet)} different ones; "
        f"{count_parameters(model):,} parameters"
    ]
    if unknown := alphabet.n_unknown(judged):
        notes.append(
            f"{unknown:,} of the {len(judged):,} {unit}s scored in training are never seen in it"
        )
    counted = partial(counted_before, parts.train, alphabet=alphabet, config=config.model)
    task = StreamTask(
        parts.train,
        judged,
        alphabet,
        length=config.model.segment_length,
        counted=None if config.model.counts in (None, "segment") else counted,
    )
    writer = Writer(model, alphabet, config)
    return PreparedWriter(writer, task, parts, notes, parts.fingerprint())


def check_same_run(config: LmConfig, folder: Path) -> None:
    """Refuse to go on with a run that was begun with other settings."""
    check_same(folder, Writer.task, config)


def evaluate_language_model(
    run: Path,
    file: Path | None = None,
    *,
    memory_length: int | None = None,
    characters: int = 0,
    batch_size: int = 16,
    trusted: bool = False,
) -> dict[str, Any]:
    """Bits per character of a run on any file, by default on its own test part.

    Args:
        characters: how many are scored, from the start; 0 for all.
        trusted: open the file that its config names even if the run was not trained here.
    """
    writer = Writer.load(run)
    unit = writer.alphabet.unit
    if file is None:
        check_made_here(run, writer.config.data.files, trusted=trusted)
    text = _test_part(writer, run) if file is None else read_text(file, unit)
    text = head(text, characters)
    bits = writer.bits(text, memory_length=memory_length, batch_size=batch_size)
    model = writer.config.model
    return {
        "text": text.name,
        "unit": unit,
        "bpc": bits.per_character,
        "characters": bits.n,
        "unknown": writer.alphabet.n_unknown(text),
        "memory_length": model.evaluation_memory if memory_length is None else memory_length,
    }


def _test_part(writer: Writer, run: Path) -> Text:
    """The part that the run has not learnt from, if its text is still the same."""
    parts = load_text(writer.config.data.data, writer.alphabet.unit)
    if (finished(run, Result) or {}).get("examples") not in (None, parts.fingerprint()):
        raise ValueError(
            f"{writer.config.data.data!r} is not the text any more that '{run}' learnt from: "
            "--data names a text to score"
        )
    return parts.test


def head(text: Text, n: int) -> Text:
    """The first n characters of a text, all of it for 0."""
    if not n or n >= len(text):
        return text
    return text.part(0, n, f"the first {n:,} characters of {text.name}")
