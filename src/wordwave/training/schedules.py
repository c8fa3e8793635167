"""The learning rate over a training: functions of the step alone, so there is no state to keep."""

from __future__ import annotations

from wordwave.training.settings import Schedule


def rate_share(schedule: Schedule, step: int, n_steps: int, warm_up: float) -> float:
    """The share of the highest learning rate at a step, counted from 0.

    It rises evenly for `warm_up` of the steps; then it falls evenly to almost 0 or stays.
    """
    rising = max(int(n_steps * warm_up), 1)
    if step < rising:
        return (step + 1) / rising
    if schedule == "constant":
        return 1.0
    return max(1 - (step - rising) / max(n_steps - rising, 1), 1e-3)
