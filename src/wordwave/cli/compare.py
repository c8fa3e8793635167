"""`wordwave compare`: which encoder and embedding is best on a data set."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from wordwave.errors import WordwaveError
from wordwave.models.config import (
    ENCODERS,
    PAPER_EMBEDDINGS,
    EmbeddingKind,
    EncoderKind,
    ModelConfig,
)
from wordwave.tasks.config import ClassificationConfig, DataConfig

if TYPE_CHECKING:
    from wordwave.cli.console import Console


@dataclass(frozen=True)
class CompareOptions:
    """Train and score encoders × embeddings × seeds on one data set.

    All embeddings under an encoder share that encoder's recipe, or the usual settings where the
    recipe's vectors are not to be had. Dev selects, the test part (a tenth if you name none) is
    scored once. Results are appended as they come: the same command goes on.
    """

    encoders: tuple[EncoderKind, ...] = ENCODERS
    """Encoders to train."""
    embeddings: tuple[EmbeddingKind, ...] = PAPER_EMBEDDINGS
    """Embeddings to put under them; rope and alibi go with the transformer only."""
    seeds: int = 1
    """Repetitions, with seeds 0, 1, …"""
    recipes: Path | None = None
    """A folder with ENCODER.yaml for each encoder; by default the recipes that come along."""
    vectors: str | None = None
    """Pretrained vectors in the place of those of the recipes; "none" for none."""
    out: Path = Path("out/compare")
    """Folder for records and tables."""
    jobs: int = 2
    """Trainings at once, one thread each."""
    report_only: bool = False
    """Train nothing; report what is there."""
    data: Annotated[DataConfig, tyro.conf.OmitArgPrefixes] = field(default_factory=DataConfig)


def compare(args: list[str], prog: str) -> None:
    """`wordwave compare`"""
    options = tyro.cli(CompareOptions, prog=prog, args=args, config=(tyro.conf.OmitArgPrefixes,))
    from wordwave.cli.console import Console
    from wordwave.cli.progress import exhausted, incomplete, say_skipped, say_waiting, tracked
    from wordwave.grid import Store, check_grid, run_missing
    from wordwave.search.compare import (
        KEY,
        Comparison,
        examples_to_compare_on,
        is_record,
        table,
        trials,
        write_tables,
    )

    n_kinds = len(trials(options.encoders, options.embeddings, 1))
    check_grid(n_kinds, options.seeds, options.jobs)
    if not n_kinds:
        raise WordwaveError("nothing to train: these encoders and embeddings do not combine")
    console = Console()
    parts = examples_to_compare_on(options.data)
    recipes = {encoder: _settings(encoder, options, console) for encoder in options.encoders}
    comparison = Comparison(options.data, recipes, parts.fingerprint())
    wanted = trials(options.encoders, options.embeddings, options.seeds)
    store = Store(options.out / "records.jsonl", KEY, is_record)
    keys = {store.key_of(comparison.key(trial)) for trial in wanted}
    n_missing = len(keys - store.done())
    problem = None
    if n_missing and not options.report_only:
        results = run_missing(
            wanted,
            comparison.run,
            store,
            key=comparison.key,
            n_jobs=options.jobs,
            on_wait=lambda n: say_waiting(n, "trainings", console),
        )
        problem = exhausted(tracked(results, n_missing, "trainings", console))
    say_skipped(store, console)
    records = [r for r in store.records() if store.key_of(r) in keys]
    if not records:
        raise problem or ValueError(
            f"'{store.path}' holds none of these trainings; leave --report-only out"
        )
    records.sort(key=lambda r: (ENCODERS.index(r["encoder"]), r["seed"]))
    title = f"Accuracy on {Path(options.data.data).name}"
    note = incomplete(len(records), len(keys), "trainings")
    console.print(table(records, title, note))
    written = write_tables(records, options.out, title, note)
    console.print("Written: " + ", ".join(map(str, (store.path, *written))))
    if problem or note:
        raise problem or ValueError(f"{note} Run without --report-only for the others.")


def _settings(
    encoder: EncoderKind, options: CompareOptions, console: Console
) -> ClassificationConfig:
    """The recipe of an encoder, or the usual settings where its vectors are not to be had."""
    from wordwave.recipes import read_recipe
    from wordwave.tasks.classification import find_vectors

    recipe = read_recipe(encoder, folder=options.recipes)
    if options.vectors is not None:
        recipe = replace(recipe, text=replace(recipe.text, vectors=options.vectors))
    if recipe.text.vectors is None:
        return recipe
    try:
        find_vectors(recipe.text.vectors)
    except ValueError:
        if options.vectors is not None and options.vectors != "none":
            raise
        note = f"{encoder}: no pretrained vectors, so the usual settings instead of the recipe"
        console.print(note, highlight=False)
        return ClassificationConfig(model=ModelConfig(encoder=encoder))
    return recipe
