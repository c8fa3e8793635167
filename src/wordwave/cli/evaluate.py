"""`wordwave evaluate`: how good a trained model is."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from wordwave.cli.evaluate_lm import evaluate_lm
from wordwave.cli.evaluate_translation import evaluate_translation
from wordwave.tasks.config import IN_MEMORY
from wordwave.tasks.kind import task_of

if TYPE_CHECKING:
    from wordwave.data.tables import Examples
    from wordwave.tasks.classifier import TextClassifier


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
    from wordwave.cli.score_tables import class_table, confusion_table
    from wordwave.files import write_text
    from wordwave.tasks.classifier import TextClassifier
    from wordwave.tasks.classify import class_numbers
    from wordwave.tasks.classify import evaluate as evaluated
    from wordwave.tasks.sentences import Labelled

    classifier = TextClassifier.load(options.run)
    examples = _examples(options, classifier)
    sentences, n_cut = classifier.encoder.encode(examples.texts)
    targets = class_numbers(examples.labels, classifier.labels, examples.name)
    scores = evaluated(classifier, Labelled(sentences, targets))
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
    from wordwave.cli.options import say_opened
    from wordwave.data.tables import read_examples
    from wordwave.tasks.examples import load_examples
    from wordwave.tasks.made_here import check_made_here

    data = classifier.config.data
    if options.data is None:
        if options.text or options.label:
            raise ValueError("--text and --label name columns of --data FILE, which is missing")
        if data.data == IN_MEMORY:
            raise ValueError(f"'{options.run}' was trained in memory: name examples with --data")
        check_made_here(options.run, data.files, trusted=options.trust_data)
        say_opened(options.run, data.files or (data.data,))
        try:
            parts = load_examples(data)
        except FileNotFoundError as problem:
            raise ValueError(f"{problem}; --data names other examples") from None
        if parts.test is not None:
            return parts.test
        assert parts.dev is not None  # training cuts one
        return replace(parts.dev, name=f"{parts.dev.name} (which chose the weights: optimistic)")
    return read_examples(
        options.data, text=options.text or data.text, label=options.label or data.label
    )
