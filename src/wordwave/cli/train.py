"""`wordwave train`: from examples to a run folder."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from wordwave.cli.options import parsed
from wordwave.plain import from_plain, read_yaml
from wordwave.recipes import read_recipe
from wordwave.tasks.config import ClassifyConfig
from wordwave.tasks.examples import load_examples

AS_IT_IS: dict[str, Any] = {"markup": False, "highlight": False, "soft_wrap": True}


@dataclass(frozen=True)
class ClassifyOptions(ClassifyConfig):
    """Train a text classifier: embedding → encoder → read-out → classes.

    Stop it with Ctrl-C or kill it: the same command goes on where it was. On several processes or
    machines: accelerate launch -m wordwave train classify …
    """

    config: str | None = None
    """A YAML file with any of the settings below (the config.yaml of a run is one), or a recipe
    that comes along: fasttext, cnn, lstm, transformer. Flags count more."""
    out: Path | None = None
    """The run folder; by default runs/DATA-ENCODER-EMBEDDING."""
    save_every: float = 60.0
    """Seconds between two saved states; Ctrl-C always saves one."""
    threads: int = 1
    """Threads of this process; more than one pays only for large models."""


def classify(args: list[str], prog: str) -> None:
    """`wordwave train classify`"""
    options = parsed(
        ClassifyOptions,
        args,
        prog,
        default=defaults_from(args),
        config=(tyro.conf.OmitArgPrefixes,),
    )
    if options.threads < 1:
        raise ValueError(f"threads must be at least 1, got {options.threads}")
    config = ClassifyConfig(options.data, options.text, options.model, options.training)
    folder = options.out or default_folder(config)
    import torch
    from rich.console import Console

    from wordwave.cli.progress import training_bar
    from wordwave.tasks.classify import check_same_run, prepare, train
    from wordwave.tasks.run_folder import finished
    from wordwave.training.loop import make_accelerator
    from wordwave.training.run import Stopped

    torch.set_num_threads(options.threads)
    accelerator = make_accelerator()
    console = Console(quiet=not accelerator.is_main_process)
    check_same_run(config, folder)
    result, parts = finished(folder), load_examples(config.data)
    if result is not None:
        if result.get("examples") != parts.fingerprint():
            raise ValueError(
                f"'{folder}' holds a finished run on other examples than '{config.data.data}' has "
                "now: choose another --out, or remove that folder"
            )
        console.print(f"{folder} is finished already.", **AS_IT_IS)
        show_result(result, folder, console)
        return
    prepared = prepare(config, parts)
    for note in prepared.notes:
        console.print(note, **AS_IT_IS)
    try:
        with training_bar(config.training.epochs, console) as watch:
            result = train(
                config,
                prepared,
                folder,
                accelerator=accelerator,
                save_every=options.save_every,
                watch=watch,
            )
    except Stopped:
        raise Stopped(f"stopped and saved in '{folder}'; the same command goes on") from None
    except OSError as problem:
        raise OSError(f"{problem}; mend that, and the same command goes on") from problem
    if accelerator.is_main_process:
        show_result(result, folder, console)


def defaults_from(args: list[str]) -> ClassifyOptions:
    """What the options are if no flag says otherwise: those of --config FILE, or the usual ones."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config", nargs="?")  # without a value, tyro says what is missing
    given = parser.parse_known_args(args)[0].config
    if given is None:
        return ClassifyOptions()
    path = Path(given)
    if path.is_file():
        plain = {k: v for k, v in read_yaml(path).items() if k != "version"}
        task = plain.pop("task", "classify")
        if task != "classify":
            raise ValueError(f"'{path}' is a config of {task!r}, wanted one of 'classify'")
        config = from_plain(ClassifyConfig, plain, where=f"'{path}'")
    elif path.suffix or len(path.parts) > 1:
        raise ValueError(f"there is no config file '{path}'")
    else:
        config = read_recipe(given)
    return ClassifyOptions(config.data, config.text, config.model, config.training, config=given)


def default_folder(config: ClassifyConfig) -> Path:
    """runs/DATA-ENCODER-EMBEDDING"""
    data = Path(config.data.data).name.split(".")[0]
    return Path("runs") / f"{data}-{config.model.encoder}-{config.model.embedding}"


def show_result(result: dict[str, Any], folder: Path, console: Any) -> None:
    """The figures of a finished run, and what to do with it."""
    lines = [f"dev accuracy {result['dev_accuracy']:.4f} (epoch {result['best_epoch']})"]
    if result["test"] is not None:
        low, high = result["test"]["interval"]
        lines.append(
            f"test accuracy {result['test']['accuracy']:.4f} [{low:.4f}, {high:.4f}], "
            f"macro-F1 {result['test']['macro_f1']:.4f}, {result['test']['n']} examples"
        )
    lines.append(
        f"{result['parameters']:,} parameters, {result['epoch_seconds']:.2f} s an epoch, "
        f"{result['words_per_second']:,.0f} words/s"
    )
    lines.append(f"Written: {folder}")
    lines.append(f'Next: echo "a text" | wordwave predict {folder}')
    console.print("\n".join(lines), **AS_IT_IS)
