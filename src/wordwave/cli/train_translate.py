"""`wordwave train translate`: from pairs of sentences to a run folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wordwave.cli.training import RunOptions, carry_out, options_from
from wordwave.tasks.translate_config import TranslateConfig, load_pairs, name_of


@dataclass(frozen=True)
class TranslateOptions(RunOptions, TranslateConfig):
    """Train a translation model: words → pieces → encoder → decoder → words.

    Without options: English to German on built-in user-interface sentences, nothing is downloaded.
    Stop it with Ctrl-C or kill it: the same command goes on where it was. On several processes or
    machines: accelerate launch -m wordwave train translate …

    Recipes for --config: translate-tiny-real, -tiny-complex, -tiny-complex-chosen, -tiny-aed,
    -paper-real, -paper-complex.
    """


def translate(args: list[str], prog: str) -> None:
    """`wordwave train translate`"""
    options, config = options_from(args, prog, TranslateOptions, TranslateConfig, "translate")
    from wordwave.cli.progress import OF_WORDS, training_bar
    from wordwave.tasks import translate as task

    carry_out(
        options,
        config,
        options.out or default_folder(config),
        task=task,
        load=lambda: load_pairs(config.data),
        prepare=lambda pairs: task.prepare(config, pairs),
        bar=lambda console: training_bar(console, OF_WORDS),
        show=show_result,
    )


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
