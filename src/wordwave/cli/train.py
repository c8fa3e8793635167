"""What `wordwave train …` does whatever is trained: settings, a run folder, a bar, figures."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import tyro

from wordwave.cli.console import parsed
from wordwave.config_io import from_dict, read_yaml
from wordwave.errors import WordwaveError
from wordwave.limits import THREADS, check_limits
from wordwave.recipes import C, read_recipe
from wordwave.tasks.config import (
    ClassificationConfig,
    LanguageModelConfig,
    TranslationConfig,
    load_pairs,
    name_of,
)

if TYPE_CHECKING:
    from wordwave.cli.console import Console
    from wordwave.training.run import Watch


@dataclass(frozen=True)
class RunOptions:
    """Where a training is kept and what it may use."""

    config: str | None = None
    """A YAML file with any of the settings below (the config.yaml of a run is one), or a recipe by
    name. Flags count more."""
    out: Path | None = None
    """The run folder; by default one in runs/, named after data and model."""
    save_every: float = 60.0
    """Seconds between two saved states; Ctrl-C always saves one."""
    threads: int = 1
    """Threads of this process; more than one pays only for large models."""

    def __post_init__(self) -> None:
        check_limits(self, {"save_every": (0, float("inf")), "threads": THREADS})


O = TypeVar("O", bound=RunOptions)  # noqa: E741


def options_from(
    args: Sequence[str], prog: str, options: type[O], config: type[C], task: str
) -> tuple[O, C]:
    """The options and the config among them: flags, then --config, then the usual values."""
    default = options(**defaults_from(args, config, task))
    given = parsed(options, args, prog, default=default, config=(tyro.conf.OmitArgPrefixes,))
    return given, config(**{field.name: getattr(given, field.name) for field in fields(config)})


def defaults_from(args: Sequence[str], config: type[C], task: str) -> dict[str, Any]:
    """What the options are if no flag says otherwise, as far as --config says it."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config", nargs="?")  # without a value, tyro says what is missing
    given = parser.parse_known_args(args)[0].config
    if given is None:
        return {}
    found = read_config(given, config, task)
    return {"config": given, **{f.name: getattr(found, f.name) for f in fields(found)}}


def read_config(given: str, config: type[C], task: str) -> C:
    """The settings in a YAML file, or in a recipe that comes along."""
    path = Path(given)
    if not path.is_file():
        if path.suffix or len(path.parts) > 1:
            raise WordwaveError(f"there is no config file '{path}'")
        return read_recipe(given, config)
    plain = {k: v for k, v in read_yaml(path).items() if k != "version"}
    found = plain.pop("task", task)
    if found != task:
        raise WordwaveError(f"'{path}' is a config of {found!r}, wanted one of {task!r}")
    return from_dict(config, plain, where=f"'{path}'")


def carry_out(
    options: RunOptions,
    config: C,
    folder: Path,
    *,
    task: Any,
    load: Callable[[], Any],
    prepare: Callable[[Any], Any],
    bar: Callable[[Console], AbstractContextManager[Watch]],
    show: Callable[[dict[str, Any], Path, Console], None],
) -> None:
    """Train in a run folder to the end, and show what came out of it.

    Args:
        task: the module of the task, with `check_same_run` and `Result`.
        load: gives the examples, which have a fingerprint.
        prepare: makes of them what `train` wants.
        bar: shows progress.
        show: shows the figures of a finished run.
    """
    import torch

    from wordwave.cli.console import Console
    from wordwave.tasks.run import finished, remove_remains, train
    from wordwave.training.distributed import launched_processes
    from wordwave.training.run import Stopped

    torch.set_num_threads(options.threads)
    processes = launched_processes()
    console = Console(quiet=not processes.is_main_process)
    task.check_same_run(config, folder)
    result = finished(folder, task.Result)
    if result is not None:
        _check_examples(result, folder, load)
        console.print(f"{folder} is finished already.")
        if processes.is_main_process:
            remove_remains(folder)
        show(result, folder, console)
        return
    prepared = prepare(load())
    for note in prepared.notes:
        console.print(note)
    if (folder / "state").exists():
        console.print(f"Going on in {folder}.")
    try:
        with bar(console) as watch:
            result = train(
                prepared,
                folder,
                processes=processes,
                save_every=options.save_every,
                watch=watch,
            )
    except Stopped:
        raise Stopped(f"stopped and saved in '{folder}'; the same command goes on") from None
    if processes.is_main_process:
        show(result, folder, console)


def _check_examples(result: dict[str, Any], folder: Path, load: Callable[[], Any]) -> None:
    """Refuse to take a finished run for one on the examples as they are now, if they are there."""
    try:
        found = load().fingerprint()
    except (OSError, ValueError):
        return
    if result.get("examples") not in (None, found):
        raise WordwaveError(
            f"'{folder}' holds a finished run on other examples than its data has now: choose "
            "another --out, or remove that folder"
        )


@dataclass(frozen=True)
class ClassifyOptions(RunOptions, ClassificationConfig):
    """Train a text classifier: embedding → encoder → read-out → classes.

    Stop it with Ctrl-C or kill it: the same command goes on where it was. On several processes or
    machines: accelerate launch -m wordwave train classify …

    Recipes for --config: fasttext, cnn, lstm, transformer.
    """


def classify(args: list[str], prog: str) -> None:
    """`wordwave train classify`"""
    options, config = options_from(args, prog, ClassifyOptions, ClassificationConfig, "classify")
    from wordwave.cli.progress import OF_WORDS, training_bar
    from wordwave.tasks import classification as task

    carry_out(
        options,
        config,
        options.out or _classifier_folder(config),
        task=task,
        load=lambda: task.load_examples(config.data),
        prepare=lambda parts: task.prepare(config, parts),
        bar=lambda console: training_bar(console, OF_WORDS, config.training.epochs),
        show=_show_classifier,
    )


def _classifier_folder(config: ClassificationConfig) -> Path:
    """runs/DATA-ENCODER-EMBEDDING"""
    data = Path(config.data.data).name.split(".")[0]
    return Path("runs") / f"{data}-{config.model.encoder}-{config.model.embedding}"


def _show_classifier(result: dict[str, Any], folder: Path, console: Any) -> None:
    """The figures of a finished run, and what to do with it."""
    lines = [f"dev accuracy {result['dev_accuracy']:.4f} (epoch {result['best_epoch']})"]
    if result["test"] is not None:
        low, high = result["test"]["interval"]
        lines.append(
            f"test accuracy {result['test']['accuracy']:.4f} [{low:.4f}, {high:.4f}], "
            f"macro-F1 {result['test']['macro_f1']:.4f}, {result['test']['n']} examples"
        )
    speed = ""
    if result["epoch_seconds"] is not None and result["words_per_second"] is not None:
        words = f"{result['words_per_second']:,.0f} words/s"
        speed = f", {result['epoch_seconds']:.2f} s an epoch, {words}"
    lines.append(f"{result['parameters']:,} parameters{speed}")
    lines.append(f"Written: {folder}")
    lines.append(f'Next: echo "a text" | wordwave predict {folder}')
    console.print("\n".join(lines))


@dataclass(frozen=True)
class TranslateOptions(RunOptions, TranslationConfig):
    """Train a translation model: words → pieces → encoder → decoder → words.

    Without options: English to German on built-in user-interface sentences, nothing is downloaded.
    Stop it with Ctrl-C or kill it: the same command goes on where it was. On several processes or
    machines: accelerate launch -m wordwave train translate …

    Recipes for --config: translate-tiny-real, -tiny-complex, -tiny-complex-chosen, -tiny-aed,
    -paper-real, -paper-complex.
    """


def translate(args: list[str], prog: str) -> None:
    """`wordwave train translate`"""
    options, config = options_from(args, prog, TranslateOptions, TranslationConfig, "translate")
    from wordwave.cli.progress import OF_WORDS, training_bar
    from wordwave.tasks import translation as task

    carry_out(
        options,
        config,
        options.out or _translator_folder(config),
        task=task,
        load=lambda: load_pairs(config.data),
        prepare=lambda pairs: task.prepare(config, pairs),
        bar=lambda console: training_bar(console, OF_WORDS),
        show=_show_translator,
    )


def _translator_folder(config: TranslationConfig) -> Path:
    """runs/DATA-ARCHITECTURE-EMBEDDING"""
    model = config.model
    return Path("runs") / f"{name_of(config.data)}-{model.architecture}-{model.embedding}"


def _show_translator(result: dict[str, Any], folder: Path, console: Any) -> None:
    """The figures of a finished run, and what to do with it."""
    weights = "the average of the last looks" if result["averaged"] else "one look"
    lines = [
        f"dev likelihood {result['dev_likelihood']:.4f}"
        + (f", BLEU {result['dev_bleu']:.1f}" if "dev_bleu" in result else "")
        + f" (weights of {weights}, {result['steps']:,} steps)"
    ]
    if result["test"] is not None:
        lines += figure_lines(result["test"])
    speed = result["words_per_second"]
    speed = "" if speed is None else f", {speed:,.0f} words/s, {result['seconds']:,.0f} s"
    lines.append(f"{result['parameters']:,} parameters{speed}")
    lines.append(f"Written: {folder}")
    lines.append(f'Next: echo "a sentence" | wordwave translate {folder}')
    console.print("\n".join(lines))


def figure_lines(scores: dict[str, Any]) -> list[str]:
    """Each figure with its interval and signature."""
    names = {
        "bleu": "BLEU",
        "tokenised_bleu": "BLEU, lower-case tokens",
        "chrf": "chrF",
    }
    lines = []
    for key, name in names.items():
        figure = scores[key]
        low, high = figure["interval"]
        lines.append(
            f"{name} {figure['value']:.2f} [{low:.2f}, {high:.2f}] on {scores['n']:,} sentences, "
            f"{figure['signature']}"
        )
    return lines


@dataclass(frozen=True)
class LmOptions(RunOptions, LanguageModelConfig):
    """Train a language model of characters: Transformer-XL, real or with waves.

    Without any option it learns from the help texts that come with Python, some minutes on one
    core. Stop it with Ctrl-C or kill it: the same command goes on where it was. On several
    processes or machines: accelerate launch -m wordwave train lm …

    Recipes for --config: lm-small-complex, lm-small-real, lm-paper, lm-paper-complex.
    """


def lm(args: list[str], prog: str) -> None:
    """`wordwave train lm`"""
    options, config = options_from(args, prog, LmOptions, LanguageModelConfig, "lm")
    from wordwave.cli.progress import OF_CHARACTERS, training_bar
    from wordwave.data.corpora import load_text
    from wordwave.tasks import language_modelling as task

    carry_out(
        options,
        config,
        options.out or _lm_folder(config),
        task=task,
        load=lambda: load_text(config.data.data, config.data.unit),
        prepare=lambda parts: task.prepare(config, parts),
        bar=lambda console: training_bar(console, OF_CHARACTERS),
        show=_show_lm,
    )


def _lm_folder(config: LanguageModelConfig) -> Path:
    """runs/DATA-lm-EMBEDDING"""
    data = Path(config.data.data).name.split(".")[0]
    kind = {"none": "real"}.get(config.model.embedding, config.model.embedding)
    position = "" if config.model.position == "relative" else f"-{config.model.position}"
    return Path("runs") / f"{data}-lm-{kind}{position}"


def _show_lm(result: dict[str, Any], folder: Path, console: Any) -> None:
    """The figures of a finished run, and what to do with it."""
    from wordwave.data.characters import UNIT_NAMES

    unit = UNIT_NAMES[result.get("unit", "char")]
    scored = [p for p in ("valid", "test") if {f"{p}_bpc", f"{p}_characters"} <= result.keys()]
    bits = ", ".join(f"{part} {result[f'{part}_bpc']:.4f}" for part in scored)
    lengths = " and ".join(f"{result[f'{part}_characters']:,}" for part in scored)
    speed = result["characters_per_second"]
    speed = "" if speed is None else f", {speed:,.0f} {unit}s/s in training"
    lines = [
        f"{bits} bits per {unit} ({lengths} {unit}s; weights of step {result['best_step']:,})",
        f"{result['parameters']:,} parameters{speed}",
        f"Written: {folder}",
        f'Next: wordwave generate {folder} --prompt "The "',
    ]
    console.print("\n".join(lines))
