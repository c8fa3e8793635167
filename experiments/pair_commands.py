"""`python -m experiments pairs`, `acceptability`, `enrich`, `encoder` and `checklist`: on sentence
pairs, not in the paper."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

from wordwave.cli.console import parsed
from wordwave.errors import WordwaveError
from wordwave.grid import check_grid
from wordwave.limits import COUNT, Limited
from wordwave.search.baselines import check_installed

if TYPE_CHECKING:
    from wordwave.grid import Record

PairSet = Literal["paws-wiki", "paws-qqp", "sts-b", "sick"]
AcceptabilitySet = Literal["cola", "cola-vectors", "cola-pretrained", "blimp"]
ClassifierRow = Literal[
    "waves", "waves-vectors", "tfidf", "tfidf-char", "fasttext-library", "tpe", "none"
]
ChecklistRow = Literal["waves", "waves-context", "none", "cnn", "tfidf", "fasttext-library"]
EnrichVariant = Literal["frozen", "plain", "enriched", "replaced"]


ACCEPTABILITY_ROWS = (
    *("sum of words", "sum with sinusoids", "sum of words and hashed bigrams", "DCT"),
    *("sum of waves", "sum of waves, 3 views and context"),
    *("CNN", "BiLSTM", "Transformer with RoPE"),
)


@dataclass(frozen=True)
class PairsOptions:
    """Sentence pairs: sums of words and of waves, and their rivals, under the same head.

    Every row gets the same search on the validation pairs and the same seeds. The test pairs are
    read with --score-test only. Run the same command again to resume.
    """

    data: PairSet = "paws-wiki"
    """Sentence pairs in the data home."""
    rows: tuple[str, ...] = ()
    """Rows to train now, by their names or the start of them; by default all but the models from
    elsewhere (all-MiniLM, WordLlama, fastText), which need packages of their own."""
    ablation: bool = False
    """Instead of the table: what each part of the bag of waves brings, on the validation pairs."""
    score_test: bool = False
    """Score the test pairs, once for each seed of what was chosen, and list it."""
    jobs: int = 2
    """Trainings at once, one thread each."""
    out: Path = Path("results/pairs")
    """Folder of records and tables."""
    weights: Path = Path("out/pairs")
    """Folder of the weights that --score-test needs."""
    report_only: bool = False
    """Train nothing; show what was trained before."""


@dataclass(frozen=True)
class AcceptabilityOptions:
    """Acceptable sentences: CoLA, and BLiMP's pairs of the same words without training on them.

    Rows, search and seeds as in pairs. The test sentences are read with --score-test only. Run the
    same command again to resume.
    """

    data: AcceptabilitySet = "cola"
    """cola: from random vectors; cola-vectors: from those of word2vec (googlenews300);
    blimp: trained to recognize reordered sentences; cola-pretrained: from the weights of these."""
    rows: tuple[str, ...] = ()
    """Rows to train now, by their names or the start of them; by default nine."""
    score_test: bool = False
    """Score the test sentences, once for each seed of what was chosen, and list it."""
    jobs: int = 2
    """Trainings at once, one thread each."""
    out: Path = Path("results/acceptability")
    """Folder of records and tables."""
    weights: Path = Path("out/acceptability")
    """Folder of the weights that --score-test needs."""
    report_only: bool = False
    """Train nothing; show what was trained before."""


@dataclass(frozen=True)
class EnrichOptions:
    """A pretrained encoder fine-tuned on PAWS pairs: as it is, with waves added to its word vectors
    (ww.enrich), with waves in place of its position table, and frozen with a trained head.

    Learning rate and epoch are selected on validation pairs. Run the same command again to resume.
    """

    data: Literal["paws-wiki", "paws-wiki-qqp"] = "paws-wiki"
    """Training pairs: those of PAWS-Wiki that are not held out, or those of PAWS-QQP too."""
    model: str = "all-MiniLM-L6-v2"
    """Name of the encoder in the records."""
    weights: str | None = None
    """Folder of the encoder and its tokenizer; by default sentence-transformers/MODEL of the
    Hugging Face hub."""
    variants: tuple[EnrichVariant, ...] = ("frozen", "plain", "enriched", "replaced")
    """What to train."""
    learning_rates: tuple[float, ...] = (5e-5, 1e-4)
    """Peak learning rates of the pretrained weights, the same for all variants; those of the head
    and the waves are 20 times as high."""
    pairs: int = 0
    """Training pairs, a random subset; 0 for all."""
    epochs: int = 2
    """Passes over the training pairs."""
    max_length: int = 64
    """Subwords of a text; what follows is truncated."""
    seeds: int = 1
    """Number of seeds: 0, 1, …"""
    jobs: int = 1
    """Trainings at once, one thread each."""
    out: Path = Path("results/pairs")
    """Folder of enrich.jsonl, run folders and the table."""
    score_test: bool = False
    """Score the test pairs once, by the learning rate and the epoch that were selected for each
    variant; trains nothing."""
    estimate_only: bool = False
    """Print how long it would take, and stop."""
    report_only: bool = False
    """Train nothing; show what was trained before."""

    def __post_init__(self) -> None:
        for name, low in (("pairs", 0), ("epochs", 1), ("max_length", 3)):
            if getattr(self, name) < low:
                raise WordwaveError(f"{name} must be at least {low}, got {getattr(self, name)}")
        for name in ("variants", "learning_rates"):
            given = getattr(self, name)
            if len(set(given)) < max(len(given), 1):
                shown = " ".join(map(str, given)) or "none"
                raise WordwaveError(f"{name} must name at least one, and each once, got {shown}")
        if not all(0 < rate < 1 for rate in self.learning_rates):
            shown = " ".join(map(str, self.learning_rates))
            raise WordwaveError(f"learning_rates must be above 0 and below 1, got {shown}")
        check_grid(len(self.variants) * len(self.learning_rates), self.seeds, self.jobs)


@dataclass(frozen=True)
class EncoderOptions:
    """The sentence encoder of the package: train it, and score its cosines.

    Sentences are read from sentences/ in the data home. Run the same command again to resume.
    """

    encoder: str | None = None
    """An encoder to score, one of the package by name, or a folder; by default one is trained."""
    teacher: str = "all-MiniLM-L6-v2"
    """A sentence-transformers model, or a .npy file with its vectors of all sentences."""
    folder: Path = Path("out/encoder")
    """Folder of the run, and of the encoder as it is shipped."""
    out: Path = Path("results/encoder")
    """Folder of scores and the table."""
    score_test: bool = False
    """Score the test pairs too, once."""
    probes: bool = False
    """Instead of pairs: train probes of word order and word content on the vectors of the encoder,
    and of CBOW and CMOW."""
    report_only: bool = False
    """Train and score nothing; show what was scored before."""


@dataclass(frozen=True)
class ChecklistOptions(Limited):
    """Negation and word order: the checklist of minimal pairs, after training on SST-2's phrases.

    All rows have default settings. Held-out templates and words are scored with --score-held-out
    only. Run the same command again to resume.
    """

    rows: tuple[ChecklistRow, ...] = get_args(ChecklistRow)
    """Rows to train; tfidf is trained once, the others with each seed."""
    seeds: Annotated[int, (1, 1000)] = 3
    """Number of seeds: 0, 1, …"""
    score_held_out: bool = False
    """Score the held-out templates and words as well: once, at the end."""
    phrases: Annotated[int, COUNT] = 0
    """Training phrases, a random sample, for a first look; 0 for all."""
    epochs: Annotated[int | None, (1, 10_000)] = None
    """Epochs of all rows but tfidf and fasttext-library; by default those of a classifier."""
    jobs: Annotated[int, (1, 1024)] = 2
    """Trainings at once, one thread each."""
    out: Path = Path("results/checklist")
    """Folder of records and tables."""
    report_only: bool = False
    """Train nothing; show what was trained before."""


@dataclass(frozen=True)
class ClassifierOptions(Limited):
    """The default classifier beside TF-IDF and fastText, from 60 texts to all of a data set.

    All rows have default settings and the same draws of training texts. Without --score-test, the
    validation parts of mr, subj and trec are scored, on which the defaults were chosen. Run the
    same command again to resume.
    """

    rows: tuple[ClassifierRow, ...] = ("waves", "tfidf", "tfidf-char", "fasttext-library")
    """Rows to train; tpe and none: ours with sinusoids added to word vectors, and without."""
    data: tuple[str, ...] = ()
    """Data sets: mr, subj, trec, and with --score-test cr, mpqa, sst2-sentences and imdb; by
    default all of these. precedence: a generated task, scored alone."""
    train_sizes: tuple[int, ...] = (60, 200, 600, 2000, 0)
    """Numbers of training texts; 0 for all."""
    draws: Annotated[int, (1, 1000)] = 10
    """Draws of at most 600 training texts; of more, at most 3."""
    score_test: bool = False
    """Score the test parts instead: once, with defaults that do not change any more."""
    jobs: Annotated[int, (1, 1024)] = 2
    """Trainings at once, one thread each."""
    out: Path = Path("results/classifier")
    """Folder of records and tables."""
    report_only: bool = False
    """Train nothing; show what was trained before."""


def run_pairs(args: list[str], prog: str) -> None:
    """`python -m experiments pairs`"""
    options = parsed(PairsOptions, args, prog)
    check_grid(1, 1, options.jobs)
    from experiments.launch import show
    from experiments.pairs import ABLATION, PairCell, PairTable
    from experiments.sentence_rows import ROWS
    from wordwave.cli.console import Console
    from wordwave.cli.progress import run_grid, say_skipped

    console = Console()
    rows = rows_named(options.rows)
    table = PairTable(options.data, options.out, options.weights, rows)
    bag = "sum of waves, 3 views and context"
    changes = [
        PairCell(options.data, bag, change=change)
        for change in ABLATION
        if options.data == "paws-wiki" or "PAWS" not in change
    ]
    n_rounds = 0 if options.report_only else 1 if options.ablation else len(table.rounds())
    for i in range(n_rounds):  # what is tried next depends on the records of the rounds before
        cells = changes if options.ablation else table.rounds()[i]
        run_grid(table.grid(cells), console, n_jobs=options.jobs)
    if n_rounds:
        table.score_cosines("validation")
    say_skipped(table.store, console)
    if options.score_test:
        table.score_test()
        table.score_cosines("test")
    table = replace(table, rows=tuple(ROWS))
    shown = table.ablation() if options.ablation else table.table()
    show([shown], options.out, [], console)


def run_acceptability(args: list[str], prog: str) -> None:
    """`python -m experiments acceptability`"""
    options = parsed(AcceptabilityOptions, args, prog)
    check_grid(1, 1, options.jobs)
    from experiments.acceptability import AcceptabilityTable
    from experiments.launch import show
    from experiments.sentence_rows import OWN_ROWS, ROWS
    from wordwave.cli.console import Console
    from wordwave.cli.progress import run_grid, say_skipped

    console = Console()
    rows = rows_named(options.rows) if options.rows else ACCEPTABILITY_ROWS
    if outside := [row for row in rows if ROWS[row].outside]:
        raise WordwaveError(f"{outside[0]!r} is a row of pairs only")
    table = AcceptabilityTable(options.data, options.out, options.weights, rows)
    for i in range(0 if options.report_only else len(table.rounds())):
        run_grid(table.grid(table.rounds()[i]), console, n_jobs=options.jobs)
    say_skipped(table.store, console)
    if options.score_test:
        table.score_test()
    table = replace(table, rows=OWN_ROWS)
    more = [table.phenomena()] if options.data == "blimp" and table.tests.records() else []
    show([table.table(), *more], options.out, [], console)


def rows_named(starts: tuple[str, ...]) -> tuple[str, ...]:
    """Rows by the start of their names; by default all of wordwave's own."""
    from experiments.sentence_rows import OWN_ROWS, ROWS

    if unknown := [start for start in starts if not any(r.startswith(start) for r in ROWS)]:
        raise WordwaveError(f"there is no row {unknown[0]!r}; known: {', '.join(ROWS)}")
    chosen = {row for s in starts for row in ([s] if s in ROWS else ROWS) if row.startswith(s)}
    return tuple(row for row in ROWS if row in chosen) if starts else OWN_ROWS


def run_enrich(args: list[str], prog: str) -> None:
    """`python -m experiments enrich`"""
    options = parsed(EnrichOptions, args, prog)
    from experiments.enrich import Enrich, enrich_table
    from experiments.launch import show, spelled
    from wordwave.cli.console import Console
    from wordwave.cli.progress import completed

    table = Enrich(
        options.out,
        options.data,
        options.model,
        options.weights or f"sentence-transformers/{options.model}",
        options.variants,
        options.learning_rates,
        options.pairs,
        options.epochs,
        options.max_length,
        options.seeds,
    )
    console = Console()
    grid = table.test_grid if options.score_test else table.grid
    missing = list(grid.missing().values())
    if missing and not (options.report_only or options.score_test):
        left = table.estimated_seconds(missing) / options.jobs
        console.print(
            f"{len(missing)} of {len(grid.cells)} trainings are missing: about {spelled(left)} "
            f"with {options.jobs} at once, on a core each. "
            f"Metrics: {table.out}/runs/*/metrics.jsonl"
        )
    if options.estimate_only:
        return
    with completed(
        grid,
        console,
        report_only=options.report_only,
        n_jobs=options.jobs,
        on_record=lambda r: console.print(_enrich_line(r)),
    ):
        show([enrich_table(table)], table.out, [], console)


def _enrich_line(record: Record) -> str:
    scores = f"{record['part']} AUC {record['auc']:.4f}, accuracy {record['accuracy']:.4f}"
    return f"{record['variant']}, learning rate {record['learning_rate']:g}: {scores}"


def run_encoder(args: list[str], prog: str) -> None:
    """`python -m experiments encoder`"""
    options = parsed(EncoderOptions, args, prog)
    from experiments.encoder import EncoderExperiment, train
    from experiments.launch import show
    from wordwave.cli.console import Console
    from wordwave.tasks.sentence_encoder import PRETRAINED, SentenceEncoder

    console, looks, folder = Console(), options.out.parent / "pairs", options.folder / "encoder"
    if options.encoder is not None:
        folder = PRETRAINED / options.encoder
        folder = folder if folder.is_dir() else Path(options.encoder)
    elif not options.report_only:
        with console.status("training the encoder, some minutes after the teacher"):
            train(options.folder, options.teacher)
    experiment = EncoderExperiment(folder, options.out, looks)
    if options.probes:
        from experiments.probes import ProbeTable

        probes = ProbeTable(options.out, SentenceEncoder.load(folder), experiment.sha256)
        for model in () if options.report_only else probes.models():
            with console.status(f"probes: {model}"):
                probes.run(model)
        show([probes.table()], options.out, [], console)
        return
    if not options.report_only:
        for part in ("dev", "test") if options.score_test else ("dev",):
            experiment.score(part)
    show([experiment.table()], options.out, [], console)


def run_checklist(args: list[str], prog: str) -> None:
    """`python -m experiments checklist`"""
    options = parsed(ChecklistOptions, args, prog)
    from experiments.checklist import ChecklistTable
    from experiments.launch import show
    from wordwave.cli.console import Console
    from wordwave.cli.progress import completed

    for name in () if options.report_only else options.rows:
        check_installed(name, "leave it out of --rows")
    table = ChecklistTable(
        options.out,
        options.rows,
        options.seeds,
        options.score_held_out,
        options.phrases,
        options.epochs,
    )
    console = Console()
    with completed(table.grid, console, report_only=options.report_only, n_jobs=options.jobs) as (
        records,
        note,
    ):
        show(table.tables(records, note), options.out, [], console, n_printed=1)


def run_classifier(args: list[str], prog: str) -> None:
    """`python -m experiments classifier`"""
    options = parsed(ClassifierOptions, args, prog)
    from experiments.classifier import CHOSEN_ON, DATA, PRECEDENCE, ClassifierTable
    from experiments.launch import show
    from wordwave.cli.console import Console
    from wordwave.cli.progress import completed

    known: tuple[str, ...] = DATA if options.score_test else CHOSEN_ON
    known = (PRECEDENCE,) if PRECEDENCE in options.data else known
    if wrong := sorted(set(options.data) - set(known)):
        raise WordwaveError(f"--data must be among {', '.join(known)}, got {', '.join(wrong)}")
    for name in () if options.report_only else options.rows:
        check_installed(name, "leave it out of --rows")
    table = ClassifierTable(
        options.out,
        options.rows,
        options.data or known,
        (0,) if PRECEDENCE in options.data else options.train_sizes,
        options.draws,
        options.score_test,
    )
    console = Console()
    with completed(table.grid, console, report_only=options.report_only, n_jobs=options.jobs) as (
        records,
        note,
    ):
        show(table.tables(records, note), options.out, [], console)
