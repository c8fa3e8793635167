"""Figures of a classifier as tables for a terminal."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from wordwave.errors import WordwaveError
from wordwave.tasks.config import IN_MEMORY, task_of

if TYPE_CHECKING:
    from rich.table import Table

    from wordwave.data.parallel import ParallelSentences
    from wordwave.data.tables import Examples
    from wordwave.tasks.classification import Scores
    from wordwave.tasks.classifier import TextClassifier
    from wordwave.tasks.config import TranslationConfig


MOST_COLUMNS = 12
MOST_CONFUSIONS = 15


def class_table(scores: Scores) -> Table:
    """How good each class is told."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("class")
    for name in ("examples", "precision", "recall", "F1"):
        table.add_column(name, justify="right")
    for label, one in zip(scores.labels, scores.classes, strict=True):
        figures = (f"{x:.4f}" for x in (one.precision, one.recall, one.f1))
        table.add_row(Text(label), f"{one.n:,}", *figures)
    return table


def confusion_table(scores: Scores) -> Table:
    """Rows are the true classes, columns the predicted ones; of many classes, the worst pairs."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    if len(scores.labels) <= MOST_COLUMNS:
        table = Table(title="true ↓ predicted →", box=box.SIMPLE_HEAD)
        table.add_column("")
        for label in scores.labels:
            table.add_column(Text(label), justify="right")
        for label, row in zip(scores.labels, scores.confusion, strict=True):
            table.add_row(Text(label), *(f"{n:,}" if n else "·" for n in row))
        return table
    table = Table("true", "predicted", title="most frequent confusions", box=box.SIMPLE_HEAD)
    table.add_column("examples", justify="right")
    taken = [
        (n, true, said)
        for i, true in enumerate(scores.labels)
        for j, said in enumerate(scores.labels)
        if i != j and (n := scores.confusion[i][j])
    ]
    for n, true, said in sorted(taken, key=lambda c: -c[0])[:MOST_CONFUSIONS]:
        table.add_row(Text(true), Text(said), f"{n:,}")
    return table


@dataclass(frozen=True)
class EvaluateLmOptions:
    """Score a language model on a text: bits per character, every character after the first.

    Exact: each character is predicted from the same number of characters before it, however the
    text is cut for reading.
    """

    run: Annotated[Path, tyro.conf.Positional]
    """The folder of a run of train lm."""
    data: Path | None = None
    """A text file, also .gz and .xz; by default the run's own test part."""
    characters: int = 0
    """How many are scored, from the start; 0 for all."""
    memory: int | None = None
    """Characters that each one looks back to; by default the run's eval_memory_length."""
    batch_size: int = 16
    """Places of the text that are read in parallel; does not change the figures."""
    trust_data: bool = False
    """Without --data: open what the run's config.yaml names, though it was not trained here."""
    picture: Path | None = None
    """Draw the learnt frequencies of the characters: .png, .svg or .pdf."""
    json: Path | None = None
    """Write the figures here as well."""


def evaluate_lm(args: list[str], prog: str) -> None:
    """`wordwave evaluate` of a run of train lm"""
    options = tyro.cli(EvaluateLmOptions, prog=prog, args=args)
    for name, least in (("characters", 0), ("memory", 0), ("batch_size", 1)):
        value = getattr(options, name)
        if value is not None and value < least:
            raise WordwaveError(f"{name} must be at least {least}, got {value}")
    from wordwave.cli.console import Console, say_opened
    from wordwave.data.characters import UNIT_NAMES
    from wordwave.files import write_text
    from wordwave.tasks.config import LanguageModelConfig
    from wordwave.tasks.language_modelling import evaluate_language_model
    from wordwave.tasks.made_here import check_made_here
    from wordwave.tasks.run import read_config

    console = Console()
    if options.picture is not None:
        from wordwave.plotting import draw_frequencies
        from wordwave.tasks.language_model import LanguageModel

        draw_frequencies(LanguageModel.load(options.run), options.picture)
        console.print(f"Written: {options.picture}")
    if options.data is None:
        data = read_config(options.run, "lm", LanguageModelConfig).data
        check_made_here(options.run, data.files, trusted=options.trust_data)
        say_opened(options.run, (data.data,))
    with console.status("reading …"):
        figures = evaluate_language_model(
            options.run,
            options.data,
            memory_length=options.memory,
            characters=options.characters,
            batch_size=options.batch_size,
            trusted=options.trust_data,
        )
    unit = UNIT_NAMES[figures["unit"]]
    console.print(
        f"{figures['text']}: {figures['characters']:,} {unit}s\n"
        f"{figures['bpc']:.4f} bits per {unit}, each looks back to {figures['memory_length']}"
    )
    if figures["unknown"]:
        console.print(
            f"{figures['unknown']:,} of them were never seen in training and count as unknown"
        )
    if options.json is not None:
        write_text(options.json, json.dumps(figures, indent=2, ensure_ascii=False) + "\n")
        console.print(f"Written: {options.json}")


@dataclass(frozen=True)
class EvaluateTranslationOptions:
    """Translate sentences and compare with how people translated them: BLEU and chrF."""

    run: Annotated[Path, tyro.conf.Positional]
    """The folder of a run of train translate."""
    source: Path | None = None
    """Sentences, one a line, also .gz; by default the run's own test part."""
    target: Path | None = None
    """Their translations, line by line."""
    trust_data: bool = False
    """Without --source: open what the run's config.yaml names, though it was not trained here."""
    beam: int = 5
    """Translations followed up at once; 1 takes the likeliest piece each time."""
    length_penalty: float = 1.0
    """0 prefers short translations, more prefers long ones."""
    json: Path | None = None
    """Write the figures here as well."""
    threads: int = 1
    """Threads of this process; more than one pays only for large models."""

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise WordwaveError(f"threads must be at least 1, got {self.threads}")
        if (self.source is None) != (self.target is None):
            raise WordwaveError("source and target go together: name both files, or none")


def evaluate_translation(args: list[str], prog: str) -> None:
    """`wordwave evaluate` of a run of train translate"""
    from wordwave.cli.console import parsed

    options = parsed(EvaluateTranslationOptions, args, prog)
    import torch

    from wordwave.cli.console import Console
    from wordwave.cli.train import figure_lines
    from wordwave.files import write_text
    from wordwave.tasks.config import first_release_targets
    from wordwave.tasks.translation import best_of, scored
    from wordwave.tasks.translator import Search, Translator

    torch.set_num_threads(options.threads)
    search = Search(options.beam, length_penalty=options.length_penalty)
    translator = Translator.load(options.run)
    pairs = _pairs(options, translator.config)
    console = Console()
    with console.status("translating …"):
        said, n_cut = best_of(translator, pairs.sources, search)
    scores = scored(translator, said, pairs.targets).plain()
    lines = [f"{pairs.name}:", *figure_lines(scores)]
    if n_cut:
        longest = translator.pieces.max_length
        lines.append(f"{n_cut:,} of {len(pairs):,} sentences were cut to {longest} pieces")
    first = first_release_targets(translator.config.data) if options.source is None else None
    if first is not None:
        scores["first_release"] = scored(translator, said, first).plain()
        lines += ["against the German sentences as they first came out:"]
        lines += figure_lines(scores["first_release"])
    console.print("\n".join(lines))
    if options.json is not None:
        write_text(options.json, json.dumps(scores, indent=2, ensure_ascii=False) + "\n")
        console.print(f"Written: {options.json}")


def _pairs(options: EvaluateTranslationOptions, config: TranslationConfig) -> ParallelSentences:
    from wordwave.cli.console import say_opened
    from wordwave.data.parallel import read_pairs
    from wordwave.tasks.config import load_pairs
    from wordwave.tasks.made_here import check_made_here

    if options.source is not None and options.target is not None:
        return read_pairs(options.source, options.target)
    check_made_here(options.run, config.data.files, trusted=options.trust_data)
    say_opened(options.run, config.data.files or (config.data.data,))
    test = load_pairs(config.data).test
    if test is None:
        raise WordwaveError(
            f"'{options.run}' has no test part: name pairs by --source and --target"
        )
    return test


@dataclass(frozen=True)
class EvaluateOptions:
    """Score a trained model on labelled examples: accuracy, figures of each class, confusions.

    A language model is scored in bits per character, a translation model by BLEU and chrF: evaluate
    RUN --help says how.
    """

    run: Annotated[Path, tyro.conf.Positional]
    """The folder of a run."""
    data: Path | None = None
    """Labelled examples: .csv, .tsv or .jsonl, also .gz; by default the run's own test part, or its
    dev part where there is none."""
    text: str | None = None
    """The column of texts; by default as in training."""
    label: str | None = None
    """The column of labels; by default as in training."""
    trust_data: bool = False
    """Without --data: open what the run's config.yaml names, though it was not trained here."""
    json: Path | None = None
    """Write the figures here as well."""


_OTHER_TASKS = {"lm": evaluate_lm, "translate": evaluate_translation}


def evaluate(args: list[str], prog: str) -> None:
    """`wordwave evaluate`"""
    folder = next((Path(a) for a in args if (Path(a) / "config.yaml").is_file()), None)
    task = None if folder is None else task_of(folder)
    other = _OTHER_TASKS.get(task) if task is not None else None
    is_file_next = len(args) > 1 and not args[0].startswith("-") and not args[1].startswith("-")
    if is_file_next and task != "translate":
        args = [args[0], "--data", *args[1:]]  # as `predict RUN FILE`
    if other is not None:
        other(args, prog)
        return
    options = tyro.cli(EvaluateOptions, prog=prog, args=args)
    from wordwave.cli.console import Console
    from wordwave.files import write_text
    from wordwave.tasks.classification import class_numbers
    from wordwave.tasks.classification import evaluate as evaluated
    from wordwave.tasks.classifier import LabelledSentences, TextClassifier

    classifier = TextClassifier.load(options.run)
    examples = _examples(options, classifier)
    sentences, n_cut = classifier.encoder.encode(examples.texts)
    targets = class_numbers(examples.labels, classifier.labels, examples.name)
    scores = evaluated(classifier, LabelledSentences(sentences, targets))
    console = Console()
    low, high = scores.interval
    console.print(
        f"{examples.name}: {scores.n:,} examples\n"
        f"accuracy {scores.accuracy:.4f}, 95% interval {low:.4f} to {high:.4f}\n"
        f"macro-F1 {scores.macro_f1:.4f}"
    )
    if n_cut:
        longest = classifier.encoder.max_length
        console.print(f"{n_cut:,} of {scores.n:,} texts were cut to {longest} words")
    console.print(class_table(scores))
    console.print(confusion_table(scores))
    if options.json is not None:
        write_text(options.json, json.dumps(scores.plain(), indent=2, ensure_ascii=False) + "\n")
        console.print(f"Written: {options.json}")


def _examples(options: EvaluateOptions, classifier: TextClassifier) -> Examples:
    from wordwave.cli.console import say_opened
    from wordwave.data.tables import read_examples
    from wordwave.tasks.classification import load_examples
    from wordwave.tasks.made_here import check_made_here

    data = classifier.config.data
    if options.data is None:
        if options.text or options.label:
            raise WordwaveError("--text and --label name columns of --data FILE, which is missing")
        if data.data == IN_MEMORY:
            raise WordwaveError(f"'{options.run}' was trained in memory: name examples with --data")
        check_made_here(options.run, data.files, trusted=options.trust_data)
        say_opened(options.run, data.files or (data.data,))
        try:
            parts = load_examples(data)
        except FileNotFoundError as problem:
            raise WordwaveError(f"{problem}; --data names other examples") from None
        if parts.test is not None:
            return parts.test
        assert parts.dev is not None  # training cuts one
        return replace(parts.dev, name=f"{parts.dev.name} (which chose the weights: optimistic)")
    return read_examples(
        options.data, text=options.text or data.text, label=options.label or data.label
    )
