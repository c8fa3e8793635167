"""`wordwave evaluate`: score a trained model of any task."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from wordwave.cli.console import Console, UseRun, parsed
from wordwave.cli.progress import Display
from wordwave.cli.stream import InputFormat
from wordwave.errors import WordwaveError
from wordwave.files import write_text
from wordwave.limits import COUNT
from wordwave.tables import ResultTable
from wordwave.tasks.config import task_of

MOST_COLUMNS = 12
MOST_CONFUSIONS = 15


@dataclass(frozen=True)
class EvaluateOptions(UseRun):
    """The options for runs of any task."""

    trust_data: bool = False
    """Open the data that the run's config.yaml names even if the run was not trained here."""
    json: Path | None = None
    """Write the scores to this file as well."""

    files: ClassVar[tuple[str, ...]] = ("data",)
    """The options that name data: arguments of `Job.read_data`."""
    settings: ClassVar[tuple[str, ...]] = ()
    """The options that are arguments of `Job.evaluate`."""

    def extras(self, text_model: Any, scores: dict[str, Any]) -> list[Any]:
        """What else is shown."""
        return []


@dataclass(frozen=True)
class EvaluateClassifier(EvaluateOptions):
    """Score a trained model. Classifiers: accuracy, scores of each class, confusion matrix.

    Language models are scored in bits per character, translation models by BLEU and chrF: see
    evaluate RUN --help.
    """

    data: Path | None = None
    """Labelled examples: .csv, .tsv or .jsonl, also .gz; by default the run's own test set, or its
    validation set if there is none."""
    text: str | None = None
    """The column of texts; by default as in training."""
    label: str | None = None
    """The column of labels; by default as in training."""
    checklist: bool = False
    """Instead of data, score minimal pairs of English texts that differ by a negation or by word
    order: good, not good."""
    checklist_classes: tuple[str, str] | None = None
    """The negative and the positive class; by default those called negative and positive, neg and
    pos, 0 and 1 or bad and good."""
    checklist_words: tuple[Path, Path] | None = None
    """Files of words of the negative and of the positive class, one per line, in place of the
    built-in adjectives. Words that the model does not have in its vocabulary are left out."""
    checklist_noun: str = "film"
    """What the texts of the checklist are about."""
    checklist_part: Literal["all", "open"] = "all"
    """open: without the templates and words that are held out, for models in development."""
    table: InputFormat = field(default_factory=InputFormat)

    files = ("data", "text", "label", "table")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.data is None and (self.text or self.label):
            raise WordwaveError("--text and --label name columns of --data FILE, which is missing")
        if self.checklist and self.data is not None:
            raise WordwaveError("--checklist has texts of its own: leave out --data")
        if self.checklist:
            self.table.check_unused("--data FILE, not with --checklist")
            return
        for name in ("classes", "words", "noun", "part"):
            option = f"checklist_{name}"
            if getattr(self, option) != getattr(EvaluateClassifier, option):
                raise WordwaveError(f"--checklist-{name} must go with --checklist")
        if self.data is None:
            self.table.check_unused("--data FILE")

    def score_checklist(self, classifier: Any) -> tuple[dict[str, Any], list[Any]]:
        """The scores of the checklist, and how they are shown."""
        from wordwave.tasks.checklist import (
            Checklist,
            builtin_templates,
            builtin_words,
            find_classes,
            known_words,
            read_words,
        )

        classes = find_classes(classifier.labels, self.checklist_classes)
        parts: tuple[Any, ...] = ("open",) if self.checklist_part == "open" else ()
        words = builtin_words(*parts)
        if self.checklist_words is not None:
            words = read_words(self.checklist_words[0]), read_words(self.checklist_words[1])
        negative, positive = (known_words(some, classifier.encoder) for some in words)
        templates, noun = builtin_templates(*parts), self.checklist_noun
        made = Checklist(classes, (negative, positive), templates, noun)
        scores = made.evaluate(classifier.predict).plain()
        n_known, n = len(negative) + len(positive), sum(map(len, words))
        lines = [f"{n_known} of {n} words are in the vocabulary of the model"] * (n_known < n)
        lines += checklist_lines(scores)
        return scores, [checklist_table(scores, noun).to_rich(), "\n".join(lines)]

    def extras(self, text_model: Any, scores: dict[str, Any]) -> list[Any]:
        tables = [class_table(scores)]
        if "confusion" in scores:
            tables.append(confusion_table(scores))
        return [table.to_rich() for table in tables]


@dataclass(frozen=True)
class EvaluateMatcher(EvaluateOptions):
    """Score a matcher: accuracy, F1, AUC and average precision; of scores, Pearson and Spearman."""

    data: Path | None = None
    """Labelled pairs: .csv, .tsv or .jsonl, also .gz; by default the run's own test set, or its
    validation set if there is none."""
    text_a: str | None = None
    """The column of first sentences; by default as in training."""
    text_b: str | None = None
    """The column of second sentences; by default as in training."""
    label: str | None = None
    """The column of labels or scores; by default as in training."""
    table: InputFormat = field(default_factory=InputFormat)

    files = ("data", "text_a", "text_b", "label", "table")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.data is None and (self.text_a or self.text_b or self.label):
            raise WordwaveError(
                "--text-a, --text-b and --label name columns of --data FILE, which is missing"
            )
        if self.data is None:
            self.table.check_unused("--data FILE")


@dataclass(frozen=True)
class EvaluateEncoder(EvaluateOptions):
    """Compare the cosines of sentence pairs with labels or similarities: AUC and average precision
    of the second of two labels in alphabetical order, or Pearson's r and Spearman's ρ."""

    data: Path | None = None
    """Pairs of sentences: .csv, .tsv or .jsonl, also .gz."""
    text_a: str = "text_a"
    """The column of first sentences."""
    text_b: str = "text_b"
    """The column of second sentences."""
    label: str = "label"
    """The column of two labels."""
    similarity: str | None = None
    """A column of numbers to compare with, instead of labels."""
    table: InputFormat = field(default_factory=InputFormat)
    order_weight: Annotated[float | None, (0, 1)] = None
    """Weight α of the order part in the cosine, from 0 to 1; by default that of the run."""

    files = ("data", "text_a", "text_b", "label", "similarity", "table")
    settings = ("order_weight",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.data is None:
            raise WordwaveError("name pairs of sentences to score: wordwave evaluate RUN FILE")


@dataclass(frozen=True)
class EvaluateTranslator(EvaluateOptions):
    """Translate sentences and compare with references: BLEU and chrF."""

    source: Path | None = None
    """Sentences, one per line, also .gz; by default the run's own test set."""
    target: Path | None = None
    """Their translations, line by line."""
    beam: int = 5
    """Beam width; 1 is greedy search."""
    length_penalty: float = 1.0
    """0 prefers short translations, higher values prefer long ones."""

    files = ("source", "target")
    settings = ("beam", "length_penalty")

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.source is None) != (self.target is None):
            raise WordwaveError("source and target go together: name both files, or none")


@dataclass(frozen=True)
class EvaluateLanguageModel(EvaluateOptions):
    """Score a language model on a text: bits per character, over all but the first.

    Exact: each character is predicted from the same number of characters before it, however the
    text is divided into batches.
    """

    data: Path | None = None
    """A text file, also .gz and .xz; by default the run's own test set."""
    characters: Annotated[int, COUNT] = 0
    """Characters to score, from the start; 0 for all."""
    memory: Annotated[int | None, COUNT] = None
    """Characters that each one attends to; by default the run's eval_memory_length."""
    batch_size: Annotated[int, (1, 10**9)] = 16
    """Streams in which the text is processed; does not change the scores."""
    picture: Path | None = None
    """Plot the learnt frequencies of the characters: .png, .svg or .pdf."""

    settings = ("characters", "memory_length", "batch_size")

    @property
    def memory_length(self) -> int | None:
        return self.memory

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.picture is not None:
            from wordwave.plotting import check_format

            check_format(self.picture)

    def extras(self, text_model: Any, scores: dict[str, Any]) -> list[Any]:
        if self.picture is None:
            return []
        from wordwave.plotting import draw_frequencies

        return [f"Written: {draw_frequencies(text_model, self.picture)}"]


OPTIONS: dict[str, type[EvaluateOptions]] = {
    "classify": EvaluateClassifier,
    "match": EvaluateMatcher,
    "embed": EvaluateEncoder,
    "translate": EvaluateTranslator,
    "lm": EvaluateLanguageModel,
}


def evaluate(args: list[str], prog: str) -> None:
    """`wordwave evaluate`"""
    folder = next((Path(a) for a in args if (Path(a) / "config.yaml").is_file()), None)
    found = "" if folder is None else task_of(folder)
    task = found if found in OPTIONS else "classify"  # which explains what is wrong with the run
    is_file_next = len(args) > 1 and not args[0].startswith("-") and not args[1].startswith("-")
    if is_file_next and task != "translate":
        args = [args[0], "--data", *args[1:]]  # as in `predict RUN FILE`
    options = parsed(OPTIONS[task], args, prog)
    from wordwave.tasks.run import job_class

    options.set_threads()
    console = Console()
    job = job_class(task).from_run(options.run)
    if isinstance(options, EvaluateClassifier) and options.checklist:
        scores, shown = options.score_checklist(job.text_model)
    else:
        scores, shown = _score_data(options, job, console)
    for part in shown:
        console.print(part)
    if options.json is not None:
        write_text(options.json, json.dumps(scores, indent=2, ensure_ascii=False) + "\n")
        console.print(f"Written: {options.json}")


def _score_data(
    options: EvaluateOptions, job: Any, console: Console
) -> tuple[dict[str, Any], list[Any]]:
    """The scores on a file, or on the run's own data, and how they are shown."""
    files, settings = (
        {name: getattr(options, name) for name in names}
        for names in (options.files, options.settings)
    )
    with Display(console):
        if files[options.files[0]] is not None:
            if "table" in files:
                files["table"] = files["table"].of(
                    files["data"], getattr(job.config.data, "table", None)
                )
            data = job.read_data(**files)
        else:
            job.check_signed(options.run, trusted=options.trust_data)
            job.check_test_data(options.run)
            names = ", ".join(job.config.data.files or (job.config.data.data,))
            console.print(f"Reading {names}, named in '{options.run / 'config.yaml'}'.")
            data = job.test_data(options.run, trusted=True)
        evaluation = job.evaluate(data, **settings)
    shown = ["\n".join(evaluation.lines), *options.extras(job.text_model, evaluation.scores)]
    return evaluation.scores, shown


def checklist_table(scores: dict[str, Any], noun: str) -> ResultTable:
    """The scores of each template of the checklist."""
    columns = ["a text", "its opposite", "pairs", "texts right", "pairs right"]
    rows: list[list[Any]] = []
    for one in scores["templates"]:
        if [one["kind"]] not in rows:
            rows.append([one["kind"]])
        slots = {"x": "x", "x2": "x2", "y": "y", "noun": noun}
        shown = [one[name].format(**slots) for name in ("same", "opposite")]
        rows.append([*shown, one["n_pairs"], one["texts"], one["pairs"]])
    return ResultTable("checklist", "", columns, rows, texts=frozenset({"its opposite"}), digits=2)


def checklist_lines(scores: dict[str, Any]) -> list[str]:
    """The figures that sum up the checklist."""
    negative, positive = scores["classes"]
    n_pairs = sum(one["n_pairs"] for one in scores["templates"])
    return [
        f"x and x2 are words of one class, y is one of the other: {negative}, {positive}",
        f"{n_pairs:,} pairs: texts right {scores['texts']:.2f}, pairs right {scores['pairs']:.2f}",
        f'"not" + {positive} word, predicted {negative}: {scores["not_positive_is_negative"]:.2f}',
        f'"not" + {negative} word, predicted {positive}: {scores["not_negative_is_positive"]:.2f}',
    ]


def class_table(scores: dict[str, Any]) -> ResultTable:
    """The scores of each class."""
    columns = ["class", "examples", "precision", "recall", "F1"]
    rows = [
        [label, *(one[name] for name in ("n", "precision", "recall", "f1"))]
        for label, one in zip(scores["labels"], scores["classes"], strict=True)
    ]
    return ResultTable("classes", "", columns, rows, digits=4)


def confusion_table(scores: dict[str, Any]) -> ResultTable:
    """The confusion matrix; of many classes, the most frequent confusions."""
    labels, confusion = scores["labels"], scores["confusion"]
    if len(labels) <= MOST_COLUMNS:
        rows = [
            [label, *(n or "·" for n in row)] for label, row in zip(labels, confusion, strict=True)
        ]
        return ResultTable("confusion", "true ↓ predicted →", ["", *labels], rows)
    wrong = [
        [labels[i], labels[j], n]
        for i, row in enumerate(confusion)
        for j, n in enumerate(row)
        if i != j and n
    ]
    most = sorted(wrong, key=lambda row: -row[2])[:MOST_CONFUSIONS]
    columns, texts = ["true", "predicted", "examples"], frozenset({"predicted"})
    return ResultTable("confusion", "most frequent confusions", columns, most, texts=texts)
