"""`wordwave train`: from examples to a run folder."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from wordwave.plain import from_plain, read_yaml
from wordwave.tasks.config import ClassifyConfig

if TYPE_CHECKING:
    from wordwave.data.splits import Parts
    from wordwave.data.tables import Examples
    from wordwave.tasks.config import DataSettings


@dataclass(frozen=True)
class ClassifyOptions(ClassifyConfig):
    """Train a text classifier: embedding → encoder → read-out → classes.

    Stop it with Ctrl-C or kill it: the same command goes on where it was. On several processes or
    machines: accelerate launch -m wordwave train classify …
    """

    config: Path | None = None
    """A YAML file with any of the settings below (the config.yaml of a run is one); flags count
    more."""
    out: Path | None = None
    """The run folder; by default runs/DATA-ENCODER-EMBEDDING."""
    save_every: float = 60.0
    """Seconds between two saved states; Ctrl-C always saves one."""
    threads: int = 1
    """Threads of this process; more than one pays only for large models."""


def classify(args: list[str], prog: str) -> None:
    """`wordwave train classify`"""
    options = tyro.cli(
        ClassifyOptions,
        prog=prog,
        args=args,
        default=_defaults(args),
        config=(tyro.conf.OmitArgPrefixes,),
    )
    config = ClassifyConfig(options.data, options.text, options.model, options.training)
    folder = options.out or default_folder(config)
    import torch
    from accelerate import Accelerator
    from rich.console import Console

    from wordwave.cli.progress import training_bar
    from wordwave.tasks.classify import check_same, finished, prepare, train
    from wordwave.training.run import Stopped

    torch.set_num_threads(options.threads)
    accelerator = Accelerator()
    console = Console(quiet=not accelerator.is_main_process)
    check_same(config, folder)
    result = finished(folder)
    if result is not None:
        console.print(f"{folder} is finished already.")
        show_result(result, folder, console)
        return
    prepared = prepare(config, load_examples(config.data))
    for note in prepared.notes:
        console.print(note, highlight=False)
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
    show_result(result, folder, console)


def _defaults(args: list[str]) -> ClassifyOptions:
    """What the options are if no flag says otherwise: those of --config FILE, or the usual ones."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config", type=Path)
    path = parser.parse_known_args(args)[0].config
    if path is None:
        return ClassifyOptions()
    if not path.is_file():
        raise ValueError(f"there is no config file '{path}'")
    plain = {k: v for k, v in read_yaml(path).items() if k not in ("task", "version")}
    config = from_plain(ClassifyConfig, plain, where=f"'{path}'")
    return ClassifyOptions(config.data, config.text, config.model, config.training, config=path)


def default_folder(config: ClassifyConfig) -> Path:
    """runs/DATA-ENCODER-EMBEDDING"""
    data = Path(config.data.data).name.split(".")[0]
    return Path("runs") / f"{data}-{config.model.encoder}-{config.model.embedding}"


def load_examples(data: DataSettings) -> Parts:
    """Training, dev and test examples: a data set by name, or files of one's own."""
    from wordwave.data.catalogue import CATALOGUE
    from wordwave.data.splits import Parts, cut_dev, load_parts
    from wordwave.data.tables import read_examples

    if data.data in CATALOGUE:
        if data.dev or data.test:
            raise ValueError(f"--dev and --test go with files of your own, not with {data.data!r}")
        return load_parts(data.data, fold=data.fold)

    def read(file: str) -> Examples:
        return read_examples(file, text=data.text, label=data.label)

    train, test = read(data.data), read(data.test) if data.test else None
    if data.dev:
        return Parts(train, read(data.dev), test)
    return Parts(*cut_dev(train), test)


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
    console.print("\n".join(lines), highlight=False, soft_wrap=True)
