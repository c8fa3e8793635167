"""`wordwave train lm`: from a text to a run folder."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from wordwave.cli.options import parsed
from wordwave.plain import from_plain, read_yaml
from wordwave.recipes import FOLDER
from wordwave.tasks.lm_config import LmConfig

if TYPE_CHECKING:
    from rich.console import Console

    from wordwave.training.task import Epoch, Step

AS_IT_IS: dict[str, Any] = {"markup": False, "highlight": False, "soft_wrap": True}


@dataclass(frozen=True)
class LmOptions(LmConfig):
    """Train a language model of characters: Transformer-XL, real or with waves.

    Without any option it learns from the help texts that come with Python, some minutes on one
    core. Stop it with Ctrl-C or kill it: the same command goes on where it was. On several
    processes or machines: accelerate launch -m wordwave train lm …
    """

    config: str | None = None
    """A YAML file with any of the settings below (the config.yaml of a run is one), or a recipe
    that comes along: lm-small-complex, lm-small-real, lm-paper. Flags count more."""
    out: Path | None = None
    """The run folder; by default runs/DATA-lm-EMBEDDING, with the position after it if it is not
    relative."""
    save_every: float = 60.0
    """Seconds between two saved states; Ctrl-C always saves one."""
    threads: int = 1
    """Threads of this process; more than one pays only for large models."""


def lm(args: list[str], prog: str) -> None:
    """`wordwave train lm`"""
    options = parsed(
        LmOptions, args, prog, default=defaults_from(args), config=(tyro.conf.OmitArgPrefixes,)
    )
    if options.threads < 1:
        raise ValueError(f"threads must be at least 1, got {options.threads}")
    config = LmConfig(options.data, options.model, options.training)
    folder = options.out or default_folder(config)
    import torch
    from rich.console import Console

    from wordwave.tasks.language_model import prepare, train
    from wordwave.tasks.run_folder import check_same, finished
    from wordwave.training.loop import make_accelerator
    from wordwave.training.run import Stopped

    torch.set_num_threads(options.threads)
    accelerator = make_accelerator()
    console = Console(quiet=not accelerator.is_main_process)
    check_same(folder, "lm", config)
    result = finished(folder)
    if result is not None:
        console.print(f"{folder} is finished already.", **AS_IT_IS)
        show_result(result, folder, console)
        return
    prepared = prepare(config)
    for note in prepared.notes:
        console.print(note, **AS_IT_IS)
    try:
        with character_bar(console) as watch:
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


def defaults_from(args: list[str]) -> LmOptions:
    """What the options are if no flag says otherwise: those of --config, or the usual ones."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config", nargs="?")  # without a value, tyro says what is missing
    given = parser.parse_known_args(args)[0].config
    if given is None:
        return LmOptions()
    config = read_lm_config(given)
    return LmOptions(config.data, config.model, config.training, config=given)


def read_lm_config(name: str) -> LmConfig:
    """The settings in a YAML file, or in a recipe that comes along."""
    path = Path(name)
    if not path.is_file():
        if path.suffix or len(path.parts) > 1:
            raise ValueError(f"there is no config file '{path}'")
        path = FOLDER / f"{name}.yaml"
        if not name.startswith("lm-") or not path.is_file():
            known = ", ".join(sorted(p.stem for p in FOLDER.glob("lm-*.yaml")))
            raise ValueError(f"there is no recipe {name!r} for lm; there are: {known}")
    plain = {k: v for k, v in read_yaml(path).items() if k != "version"}
    task = plain.pop("task", "lm")
    if task != "lm":
        raise ValueError(f"'{path}' is a config of {task!r}, wanted one of 'lm'")
    return from_plain(LmConfig, plain, where=f"'{path}'")


def default_folder(config: LmConfig) -> Path:
    """runs/DATA-lm-EMBEDDING"""
    data = Path(config.data.data).name.split(".")[0]
    kind = {"none": "real"}.get(config.model.embedding, config.model.embedding)
    position = "" if config.model.position == "relative" else f"-{config.model.position}"
    return Path("runs") / f"{data}-lm-{kind}{position}"


@contextmanager
def character_bar(console: Console) -> Iterator[Callable[[Step | Epoch], None]]:
    """A bar over the steps of a training, and a line for each look at the valid part."""
    import math

    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from wordwave.training.task import Step

    columns = (
        TextColumn("step"),
        MofNCompleteColumn(),
        BarColumn(),
        TextColumn("{task.fields[bits]:.3f} bits  {task.fields[speed]:,.0f} characters/s"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None, bits=float("nan"), speed=0.0)
        began, n_read = time.monotonic(), 0

        def watch(report: Step | Epoch) -> None:
            nonlocal began, n_read
            speed = n_read / max(time.monotonic() - began, 1e-9)
            if isinstance(report, Step):
                n_read += report.n_words
                bits = report.loss / math.log(2)
                bar.update(
                    task, total=report.n_steps, completed=report.step, bits=bits, speed=speed
                )
                return
            said = f"step {report.step:>6}  training {report.loss / math.log(2):.4f} bits"
            if report.scores:
                said += f"  valid {-report.scores['minus_bpc']:.4f} bits per character"
            best = "  best" if report.is_best else ""
            console.print(f"{said}  {speed:,.0f} characters/s{best}", **AS_IT_IS)
            began, n_read = time.monotonic(), 0

        yield watch


def show_result(result: dict[str, Any], folder: Path, console: Any) -> None:
    """The figures of a finished run, and what to do with it."""
    lines = [
        f"valid {result['valid_bpc']:.4f}, test {result['test_bpc']:.4f} bits per character "
        f"({result['valid_characters']:,} and {result['test_characters']:,} characters; "
        f"weights of step {result['best_step']:,})",
        f"{result['parameters']:,} parameters, "
        f"{result['characters_per_second']:,.0f} characters/s in training",
        f"Written: {folder}",
        f'Next: wordwave generate {folder} --prompt "The "',
    ]
    console.print("\n".join(lines), **AS_IT_IS)
