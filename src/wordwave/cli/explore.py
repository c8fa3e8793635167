"""`wordwave explore`: a classifier in the browser, live or as one HTML file."""

from __future__ import annotations

import threading
import webbrowser
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from wordwave.cli.console import Console, Threads, parsed
from wordwave.cli.progress import Display
from wordwave.cli.train import TrainingDisplay
from wordwave.config_io import with_settings
from wordwave.errors import WordwaveError
from wordwave.limits import THREADS, check_limits

if TYPE_CHECKING:
    from wordwave.tasks.classifier import TextClassifier

GENERAL = (
    ("dog bites man", "man bites dog"),
    ("not good at all", "at all not good"),
    ("good , not bad", "bad , not good"),
)
"""Examples for any run, as far as it has their words: the same words in two orders."""


@dataclass(frozen=True)
class ExploreOptions:
    """See the waves of a trained classifier in the browser: drag words, and watch the classes.

    A page opens on this machine only (127.0.0.1), for any encoder; Ctrl-C ends it. Without RUN, a
    small built-in model is trained in seconds, beside its twin with added positions (tpe).

    With --html, the page of a bag of waves is written as one file that works
    offline: the model travels inside, with rounded weights.

    wordwave explore RUN --html page.html
    """

    run: Annotated[Path | None, tyro.conf.Positional] = None
    """The folder of a run of train classify; by default the built-in model."""
    html: Path | None = None
    """Write one self-contained page to this file, instead of serving it."""
    twin: Path | None = None
    """A run to show beside it, with the same classes; if the folder does not exist, a classifier
    with added positions (tpe) is trained there, on the data of the run."""
    trust_data: bool = False
    """For --twin: open the data that the run's config.yaml names even if the run was not trained
    here."""
    examples: tuple[str, ...] = ()
    """Sentences to choose from."""
    port: int = 0
    """The port on 127.0.0.1; 0 for a free one."""
    browser: bool = True
    """Open the page in a browser."""
    threads: Threads = 1

    def __post_init__(self) -> None:
        check_limits(self, {"port": (0, 65535), "threads": THREADS})
        if self.html is not None and self.html.suffix.lower() not in (".html", ".htm"):
            raise WordwaveError(f"--html must end in .html, got '{self.html}'")
        if self.run is None and self.twin is not None:
            raise WordwaveError("--twin goes with a run; the built-in model has its own")


def explore(args: list[str], prog: str) -> None:
    """`wordwave explore`"""
    options = parsed(ExploreOptions, args, prog)
    console = Console()
    import torch

    from wordwave.text.tokenizers import import_extra

    if options.html is None:
        import_extra("starlette")  # before anything is trained
        import_extra("uvicorn")
    torch.set_num_threads(options.threads)
    classifier, twin, name, examples = _models(options, console)
    if options.html is not None:
        from wordwave.explore.page import export_page

        done = export_page(classifier, options.html, twin=twin, name=name, examples=examples)
        console.print(
            f"Checked: {done.n_checked} random sentences, largest difference from PyTorch with the "
            f"same rounded weights {done.difference:.1e}\n"
            f"Rounding to {done.precision} changes a probability by at most {done.loss:.1e}\n"
            f"Written: {done.path} ({done.n_bytes / 1e6:,.2f} MB)"
        )
        return
    from wordwave.explore.server import serve
    from wordwave.explore.session import Session

    def ready(address: str) -> None:
        console.print(f"Explorer of {name}: {address} (Ctrl-C ends it)")
        if options.browser:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    session = Session(classifier, twin, name=name, examples=examples)
    try:
        serve(session, port=options.port, ready=ready)
    except KeyboardInterrupt:
        console.print("The explorer has ended.")


def _models(
    options: ExploreOptions, console: Console
) -> tuple[TextClassifier, TextClassifier | None, str, list[str]]:
    """The classifier, its twin, its name and examples."""
    from wordwave.tasks.classifier import TextClassifier

    if options.run is None:
        from platformdirs import user_cache_path

        from wordwave.explore.built_in import EXAMPLES, built_in

        folder = user_cache_path("wordwave") / "explore"
        classifier, twin = (
            built_in(kind, folder, console.print) for kind in ("complex-order", "tpe")
        )
        return classifier, twin, "built-in", list(options.examples or EXAMPLES)
    classifier = TextClassifier.load(options.run)
    if classifier.multi_label:
        raise WordwaveError(
            f"'{options.run}' predicts several labels: the explorer shows one class"
        )
    beside = None
    if options.twin is not None:
        if not (options.twin / "result.json").exists():
            _train_twin(options, classifier, console)
        beside = TextClassifier.load(options.twin)
    name = options.run.resolve().name
    return classifier, beside, name, list(options.examples) or _examples(classifier)


def _examples(classifier: TextClassifier) -> list[str]:
    """The same words in two orders, first those whose order changes the probabilities most; or the
    most frequent words of a model that does not have these."""
    vocabulary = classifier.encoder.vocabulary
    pairs = list(GENERAL)
    if classifier.encoder.tokenizer.kind != "bpe":
        pairs = [pair for pair in GENERAL if all(word in vocabulary for word in pair[0].split())]
    if not pairs:
        return [" ".join(vocabulary.words[2:8])]
    texts = [text for pair in pairs for text in pair]
    found = classifier.probabilities(texts).unflatten(0, (-1, 2))
    change = (found[:, 0] - found[:, 1]).abs().amax(1)
    return [text for i in change.argsort(descending=True).tolist() for text in pairs[i]]


def _train_twin(options: ExploreOptions, classifier: TextClassifier, console: Console) -> None:
    """Train the same classifier with added positions, on the same data, in a run folder."""
    from wordwave.tasks.classification_job import ClassificationJob
    from wordwave.tasks.config import IN_MEMORY
    from wordwave.tasks.run_folder import is_signed

    assert options.run is not None
    assert options.twin is not None
    config, names = classifier.config, classifier.config.data.files
    if config.data.data == IN_MEMORY:
        raise WordwaveError(
            f"'{options.run}' was trained in memory: train its twin there too, and name its folder"
        )
    if names and not options.trust_data and not is_signed(options.run, names):
        shown = ", ".join(repr(name[:200]) for name in names)
        raise WordwaveError(
            f"'{options.run}' was not trained here, and its config.yaml names {shown}: nothing is "
            "opened; open that with --trust-data"
        )
    changes: dict[str, Any] = {"embedding": "tpe", "views": ("start",), "readout": "concat"}
    if hasattr(config.model, "n_bigrams"):
        changes["n_bigrams"] = 0  # pairs of neighbours would tell orders apart
    model = with_settings(config.model, **changes)
    job = ClassificationJob(replace(config, model=model))
    job.check_config(options.twin)
    console.print(f"Training the twin (tpe) in {options.twin}")
    with Display(console) as display:
        job.prepare(job.load_data())
        job.train(options.twin, watch=TrainingDisplay(job, display).watch)
