"""`wordwave train translate`: from pairs of sentences to a run folder."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from wordwave.cli.options import parsed
from wordwave.plain import from_plain, read_yaml
from wordwave.recipes.translation import read_translation_recipe
from wordwave.tasks.translate_config import TranslateConfig, load_pairs, name_of

AS_IT_IS: dict[str, Any] = {"markup": False, "highlight": False, "soft_wrap": True}


@dataclass(frozen=True)
class TranslateOptions(TranslateConfig):
    """Train a translation model: words → pieces → encoder → decoder → words.

    Without options: English to German on built-in user-interface sentences, nothing is downloaded.
    Stop it with Ctrl-C or kill it: the same command goes on where it was. On several processes or
    machines: accelerate launch -m wordwave train translate …
    """

    config: str | None = None
    """A YAML file with any of the settings below (the config.yaml of a run is one), or a recipe
    that comes along: translate-tiny-real, -tiny-complex, -tiny-aed, -paper-real, -paper-complex.
    Flags count more."""
    out: Path | None = None
    """The run folder; by default runs/DATA-ARCHITECTURE-EMBEDDING."""
    save_every: float = 60.0
    """Seconds between two saved states; Ctrl-C always saves one."""
    threads: int = 1
    """Threads of this process; more than one pays only for large models."""


def translate(args: list[str], prog: str) -> None:
    """`wordwave train translate`"""
    options = parsed(
        TranslateOptions,
        args,
        prog,
        default=defaults_from(args),
        config=(tyro.conf.OmitArgPrefixes,),
    )
    if options.threads < 1:
        raise ValueError(f"threads must be at least 1, got {options.threads}")
    config = TranslateConfig(options.data, options.text, options.model, options.training)
    folder = options.out or default_folder(config)
    import torch
    from rich.console import Console

    from wordwave.cli.progress import training_bar
    from wordwave.tasks.run_folder import check_same, finished
    from wordwave.tasks.translate import prepare, train
    from wordwave.training.loop import make_accelerator
    from wordwave.training.run import Stopped

    torch.set_num_threads(options.threads)
    accelerator = make_accelerator()
    console = Console(quiet=not accelerator.is_main_process)
    check_same(folder, "translate", config)
    result = finished(folder)
    if result is not None:
        console.print(f"{folder} is finished already.", **AS_IT_IS)
        show_result(result, folder, console)
        return
    prepared = prepare(config, load_pairs(config.data))
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


def defaults_from(args: list[str]) -> TranslateOptions:
    """What the options are if no flag says otherwise: those of --config FILE, or the usual ones."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config", nargs="?")  # without a value, tyro says what is missing
    given = parser.parse_known_args(args)[0].config
    if given is None:
        return TranslateOptions()
    path = Path(given)
    if path.is_file():
        plain = {k: v for k, v in read_yaml(path).items() if k != "version"}
        task = plain.pop("task", "translate")
        if task != "translate":
            raise ValueError(f"'{path}' is a config of {task!r}, wanted one of 'translate'")
        config = from_plain(TranslateConfig, plain, where=f"'{path}'")
    elif path.suffix or len(path.parts) > 1:
        raise ValueError(f"there is no config file '{path}'")
    else:
        config = read_translation_recipe(given)
    return TranslateOptions(config.data, config.text, config.model, config.training, config=given)


def default_folder(config: TranslateConfig) -> Path:
    """runs/DATA-ARCHITECTURE-EMBEDDING"""
    model = config.model
    return Path("runs") / f"{name_of(config.data)}-{model.architecture}-{model.embedding}"


def show_result(result: dict[str, Any], folder: Path, console: Any) -> None:
    """The figures of a finished run, and what to do with it."""
    weights = "the average of the last looks" if result["averaged"] else "one look"
    lines = [
        f"dev likelihood {result['dev_likelihood']:.4f}"
        + (f", BLEU {result['dev_bleu']:.1f}" if "dev_bleu" in result else "")
        + f" (weights of {weights}, {result['steps']:,} steps)"
    ]
    if result["test"] is not None:
        lines += figure_lines(result["test"])
    lines.append(
        f"{result['parameters']:,} parameters, {result['words_per_second']:,.0f} words/s, "
        f"{result['seconds']:,.0f} s"
    )
    lines.append(f"Written: {folder}")
    lines.append(f'Next: echo "a sentence" | wordwave translate {folder}')
    console.print("\n".join(lines), **AS_IT_IS)


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
