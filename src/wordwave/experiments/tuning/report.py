"""What a search has found: tables, and files that other commands take."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wordwave.experiments.tuning.search import Search
from wordwave.experiments.tuning.study import SharedStudy
from wordwave.files import write_text
from wordwave.plain import dump_yaml, to_plain

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial
    from rich.table import Table


def best_table(trials: list[FrozenTrial]) -> Table:
    """The best trials and their settings."""
    from rich.table import Table

    table = Table("trial", "dev accuracy", "epochs", "settings", title="Best trials")
    for trial in trials:
        settings = ", ".join(f"{name} {_short(value)}" for name, value in trial.params.items())
        epochs = len(trial.intermediate_values)
        table.add_row(str(_number(trial)), f"{trial.value:.4f}", str(epochs), settings)
    return table


def importances(shared: SharedStudy) -> str:
    """How much of the differences between trials each setting explains; "" for too few trials."""
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    values = {trial.value for trial in shared.ranked()}
    if len(shared.ranked()) < 10 or len(values) < 2:
        return ""
    weights = get_param_importances(shared.study, evaluator=PedAnovaImportanceEvaluator())
    return ", ".join(f"{name} {weight:.0%}" for name, weight in weights.items())


def write_files(plan: Search, shared: SharedStudy) -> list[Path]:
    """best.yaml, which `wordwave train classify --config` takes, and trials.csv."""
    ranked, paths = shared.ranked(), [plan.folder / name for name in ("best.yaml", "trials.csv")]
    if not ranked:
        return []
    best = ranked[0]
    about = f"# Trial {_number(best)} of pool {plan.pool}: dev accuracy {best.value:.4f}\n"
    write_text(paths[0], about + dump_yaml(to_plain(plan.config_of(best))))
    write_text(paths[1], trials_csv(shared.finished()))
    return paths


def trials_csv(trials: list[FrozenTrial]) -> str:
    """A line for each trial; `stopped` says why one did not come to its end."""
    text = io.StringIO()
    rows: list[dict[str, Any]] = [
        {
            "trial": _number(trial),
            "dev_accuracy": max(trial.intermediate_values.values(), default=None),
            "percent_trained": max(trial.intermediate_values, default=0),
            "seconds": round(trial.duration.total_seconds(), 1) if trial.duration else None,
            "stopped": trial.user_attrs.get("stopped", ""),
            **trial.params,
        }
        for trial in trials
    ]
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _number(trial: FrozenTrial) -> int:
    return int(trial.user_attrs["slot"]) + 1


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
