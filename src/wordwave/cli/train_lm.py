"""`wordwave train lm`: from a text to a run folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wordwave.cli.training import RunOptions, carry_out, options_from
from wordwave.tasks.lm_config import LmConfig


@dataclass(frozen=True)
class LmOptions(RunOptions, LmConfig):
    """Train a language model of characters: Transformer-XL, real or with waves.

    Without any option it learns from the help texts that come with Python, some minutes on one
    core. Stop it with Ctrl-C or kill it: the same command goes on where it was. On several
    processes or machines: accelerate launch -m wordwave train lm …

    Recipes for --config: lm-small-complex, lm-small-real, lm-paper, lm-paper-complex.
    """


def lm(args: list[str], prog: str) -> None:
    """`wordwave train lm`"""
    options, config = options_from(args, prog, LmOptions, LmConfig, "lm")
    from wordwave.cli.progress import OF_CHARACTERS, training_bar
    from wordwave.data.corpora import load_text
    from wordwave.tasks import language_model as task

    carry_out(
        options,
        config,
        options.out or default_folder(config),
        task=task,
        load=lambda: load_text(config.data.data, config.data.unit),
        prepare=lambda parts: task.prepare(config, parts),
        bar=lambda console: training_bar(console, OF_CHARACTERS),
        show=show_result,
    )


def default_folder(config: LmConfig) -> Path:
    """runs/DATA-lm-EMBEDDING"""
    data = Path(config.data.data).name.split(".")[0]
    kind = {"none": "real"}.get(config.model.embedding, config.model.embedding)
    position = "" if config.model.position == "relative" else f"-{config.model.position}"
    return Path("runs") / f"{data}-lm-{kind}{position}"


def show_result(result: dict[str, Any], folder: Path, console: Any) -> None:
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
