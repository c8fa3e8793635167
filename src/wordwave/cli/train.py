"""`wordwave train`: from examples to a run folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wordwave.cli.training import RunOptions, carry_out, options_from
from wordwave.tasks.config import ClassifyConfig
from wordwave.tasks.examples import load_examples


@dataclass(frozen=True)
class ClassifyOptions(RunOptions, ClassifyConfig):
    """Train a text classifier: embedding → encoder → read-out → classes.

    Stop it with Ctrl-C or kill it: the same command goes on where it was. On several processes or
    machines: accelerate launch -m wordwave train classify …

    Recipes for --config: fasttext, cnn, lstm, transformer.
    """


def classify(args: list[str], prog: str) -> None:
    """`wordwave train classify`"""
    options, config = options_from(args, prog, ClassifyOptions, ClassifyConfig, "classify")
    from wordwave.cli.progress import OF_WORDS, training_bar
    from wordwave.tasks import classify as task

    carry_out(
        options,
        config,
        options.out or default_folder(config),
        task=task,
        load=lambda: load_examples(config.data),
        prepare=lambda parts: task.prepare(config, parts),
        bar=lambda console: training_bar(console, OF_WORDS, config.training.epochs),
        show=show_result,
    )


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
    speed = ""
    if result["epoch_seconds"] is not None and result["words_per_second"] is not None:
        words = f"{result['words_per_second']:,.0f} words/s"
        speed = f", {result['epoch_seconds']:.2f} s an epoch, {words}"
    lines.append(f"{result['parameters']:,} parameters{speed}")
    lines.append(f"Written: {folder}")
    lines.append(f'Next: echo "a text" | wordwave predict {folder}')
    console.print("\n".join(lines))
