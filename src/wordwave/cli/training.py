"""What `wordwave train …` does whatever is trained: settings, a run folder, a bar, figures."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import tyro

from wordwave.cli.options import parsed
from wordwave.limits import THREADS, check_limits
from wordwave.plain import from_plain, read_yaml
from wordwave.recipes import C, read_recipe

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
            raise ValueError(f"there is no config file '{path}'")
        return read_recipe(given, config)
    plain = {k: v for k, v in read_yaml(path).items() if k != "version"}
    found = plain.pop("task", task)
    if found != task:
        raise ValueError(f"'{path}' is a config of {found!r}, wanted one of {task!r}")
    return from_plain(config, plain, where=f"'{path}'")


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
    from wordwave.tasks.prepared import remove_remains, train
    from wordwave.tasks.run_folder import finished
    from wordwave.training.processes import launched_processes
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
        raise ValueError(
            f"'{folder}' holds a finished run on other examples than its data has now: choose "
            "another --out, or remove that folder"
        )
