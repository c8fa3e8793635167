"""Language modelling from a text to a run folder: data + model + loss + figures."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import torch

from wordwave.data.characters import Alphabet, Text, read_text
from wordwave.data.corpora import TextParts, load_text
from wordwave.files import write_text
from wordwave.models.classifier import count_parameters
from wordwave.models.transformer_xl import TransformerXL
from wordwave.plain import to_plain
from wordwave.tasks.lm_config import LmConfig
from wordwave.tasks.streams import StreamTask
from wordwave.tasks.writer import Writer, read_lm_run
from wordwave.training.journal import read_journal
from wordwave.training.loop import Training
from wordwave.training.run import Watch, train_in

if TYPE_CHECKING:
    from accelerate import Accelerator


@dataclass(frozen=True)
class Prepared:
    """All that a training needs, and what the user should know of it."""

    writer: Writer
    task: StreamTask
    parts: TextParts
    notes: list[str]


def prepare(config: LmConfig) -> Prepared:
    """Find the text, number its characters and make the model.

    The alphabet is that of the training part. The model depends on the config and the data alone,
    not on the global random state.
    """
    parts, unit = load_text(config.data.data, config.data.unit)
    alphabet = Alphabet.of(parts.train, unit)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.training.seed)
        model = TransformerXL(config.model, len(alphabet))
    judged = _head(parts.valid, config.data.judge_on)
    notes = [
        f"{len(parts.train):,} {unit}s to learn from, {len(alphabet)} different ones; "
        f"{count_parameters(model):,} parameters"
    ]
    if unknown := alphabet.n_unknown(judged):
        notes.append(
            f"{unknown:,} of the {len(judged):,} {unit}s scored in training are never seen in it"
        )
    task = StreamTask(parts.train, judged, alphabet, length=config.model.segment_length)
    return Prepared(Writer(model, alphabet, config), task, parts, notes)


def train(
    config: LmConfig,
    prepared: Prepared,
    folder: Path,
    *,
    accelerator: Accelerator | None = None,
    save_every: float = 60.0,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """Train in a run folder, from where it was left; the figures of the finished run.

    The test part is scored once, with the weights that the valid part selected.
    """
    options = {} if accelerator is None else {"accelerator": accelerator}
    writer = prepared.writer
    training = Training(writer.model, prepared.task, config.training, **options)
    is_main = training.accelerator.is_main_process
    if is_main:
        writer.save_alphabet(folder)
    try:
        train_in(folder, training, save_every=save_every, watch=watch)
    except KeyboardInterrupt:
        if is_main and training.best:
            writer.save_weights(folder, training.best)
        raise
    if is_main:
        writer.save_weights(folder)
    result = _result(training, prepared, read_journal(folder / "metrics.jsonl"))
    if is_main:
        write_text(folder / "result.json", json.dumps(result, indent=2) + "\n")
        shutil.rmtree(folder / "state", ignore_errors=True)
    return result


def check_same_lm(config: LmConfig, folder: Path) -> None:
    """Refuse to go on with a run that was begun with other settings."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"'{folder}' is a file, not the folder of a run: choose another --out")
    if not (folder / "config.yaml").exists():
        return
    there, here = to_plain(read_lm_run(folder)), to_plain(config)
    for part, settings in here.items():
        for name, value in settings.items():
            if there[part][name] != value:
                raise ValueError(
                    f"'{folder}' holds a run with {name} {there[part][name]!r}, here it is "
                    f"{value!r}: choose another --out, or remove that folder"
                )


def evaluate_language_model(
    run: Path,
    file: Path | None = None,
    *,
    memory_length: int | None = None,
    characters: int = 0,
    batch_size: int = 16,
) -> dict[str, Any]:
    """Bits per character of a run on any file, by default on its own test part.

    Args:
        characters: how many are scored, from the start; 0 for all.
    """
    writer = Writer.load(run)
    unit = writer.alphabet.unit
    text = (
        load_text(writer.config.data.data, unit)[0].test if file is None else read_text(file, unit)
    )
    text = _head(text, characters)
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


def _result(
    training: Training, prepared: Prepared, journal: list[dict[str, Any]]
) -> dict[str, Any]:
    writer, progress = prepared.writer, training.progress
    score_on = writer.config.data.score_on
    valid, test = (_head(part, score_on) for part in (prepared.parts.valid, prepared.parts.test))
    return {
        "judged_bpc": -progress.best_score,
        "judged_characters": len(prepared.task.valid or ()),
        "valid_bpc": writer.bits(valid).per_character,
        "valid_characters": len(valid),
        "test_bpc": writer.bits(test).per_character,
        "test_characters": len(test),
        "best_step": progress.best_step,
        "steps": progress.step,
        "parameters": count_parameters(writer.model),
        "characters_read": progress.n_words,
        "seconds": round(sum(r["seconds"] for r in journal), 1),
        "characters_per_second": median(r["words_per_second"] for r in journal),
    }


def _head(text: Text, n: int) -> Text:
    if not n or n >= len(text):
        return text
    return text.part(0, n, f"the first {n:,} characters of {text.name}")
