"""`wordwave compare`: which encoder and embedding scores highest on a data set."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from wordwave.cli.console import Console, parsed
from wordwave.cli.progress import completed
from wordwave.cli.stream import check_files
from wordwave.data.splits import DataConfig
from wordwave.embedding.config import PAPER_EMBEDDINGS, EmbeddingKind
from wordwave.errors import WordwaveError
from wordwave.grid import Grid, Store, check_grid
from wordwave.models.config import ENCODERS, ClassifierConfig, EncoderKind
from wordwave.recipes import read_recipe, recipe_names
from wordwave.search import compare as comparing
from wordwave.search.baselines import Baseline, check_installed
from wordwave.tasks.config import ClassificationConfig


@dataclass(frozen=True)
class CompareOptions:
    """Train and test encoders × embeddings × seeds, and baselines, on one data set.

    All embeddings with an encoder share the recipe of that encoder, or the default settings if the
    pretrained vectors of the recipe are not available. Weights are selected on the validation set,
    and the test set (by default a tenth of the examples) is scored once. Baselines have fixed
    settings, and the same training and test set. Records are appended as they come: run the same
    command again to resume.
    """

    encoders: tuple[EncoderKind, ...] = ("bag", *ENCODERS)
    """Encoders to train."""
    baselines: tuple[Baseline, ...] = ("tfidf", "tfidf-char")
    """Other models beside them: TF-IDF of words and bigrams, or of 2 to 5 characters, with logistic
    regression; fastText with bigrams, 25 epochs, which needs the extra anchors."""
    embeddings: tuple[EmbeddingKind, ...] = PAPER_EMBEDDINGS
    """Embeddings to combine them with; rope and alibi go with the transformer only."""
    seeds: int = 1
    """Repetitions, with seeds 0, 1, …"""
    recipes: Path | None = None
    """A folder with ENCODER.yaml for each encoder; by default the included recipes. The bag needs
    none: it has default settings."""
    vectors: str | None = None
    """Pretrained vectors instead of those of the recipes; "none" for none."""
    out: Path = Path("out/compare")
    """Folder for records and tables."""
    jobs: int = 2
    """Trainings at once, one thread each."""
    report_only: bool = False
    """Train nothing; report the trainings that have records."""
    data: DataConfig = field(default_factory=DataConfig)


def compare(args: list[str], prog: str) -> None:
    """`wordwave compare`"""
    options = parsed(CompareOptions, args, prog)
    check_files(options.data)
    kinds = options.encoders, options.embeddings, options.baselines
    n_kinds = len(comparing.candidates(*kinds, seeds=1))
    check_grid(n_kinds, options.seeds, options.jobs)
    if not n_kinds:
        raise WordwaveError("nothing to train: these encoders and embeddings do not combine")
    if not options.report_only:
        for name in options.baselines:
            check_installed(name, "leave it out of --baselines")
    console = Console()
    parts = comparing.examples_to_compare_on(options.data)
    recipes = {encoder: _settings(encoder, options, console) for encoder in options.encoders}
    comparison = comparing.Comparison(options.data, recipes, parts.fingerprint())
    store = Store(options.out / "records.jsonl", comparing.KEY, comparing.is_record)
    wanted = comparing.candidates(*kinds, seeds=options.seeds)
    grid = Grid(store, wanted, comparison.key, comparison.run, "trainings")
    report_only, n_jobs = options.report_only, options.jobs
    with completed(grid, console, report_only=report_only, n_jobs=n_jobs) as (records, note):
        table = comparing.result_table(records, f"Accuracy on {Path(options.data.data).name}", note)
        console.print(table.to_rich())
        written = comparing.write_files(records, table, options.out)
        console.print("Written: " + ", ".join(map(str, (store.path, *written))))


def _settings(
    encoder: EncoderKind, options: CompareOptions, console: Console
) -> ClassificationConfig:
    """The recipe of an encoder, or the default settings if its vectors are not available."""
    from wordwave.tasks.sentence_job import find_vectors

    recipe = ClassificationConfig(model=ClassifierConfig(encoder=encoder))
    if encoder in recipe_names(ClassificationConfig, options.recipes) or encoder != "bag":
        recipe = read_recipe(encoder, ClassificationConfig, options.recipes)
    if options.vectors is not None:
        recipe = replace(recipe, text=replace(recipe.text, vectors=options.vectors))
    if recipe.text.vectors is None:
        return recipe
    try:
        find_vectors(recipe.text.vectors)
    except ValueError:
        if options.vectors is not None and options.vectors != "none":
            raise
        console.print(f"{encoder}: no pretrained vectors, so the default settings, not its recipe")
        return ClassificationConfig(model=ClassifierConfig(encoder=encoder))
    return recipe
