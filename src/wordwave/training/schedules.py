"""The learning rate over a training: functions of the step alone, so there is no state to keep."""

from __future__ import annotations

import math

from wordwave.training.settings import Schedule


def rate_share(schedule: Schedule, step: int, n_steps: int, warm_up: float) -> float:
    """The share of the highest learning rate at a step, counted from 0.

    It rises evenly for `warm_up` of the steps; what follows is the schedule's.
    """
    rising = max(int(n_steps * warm_up), 1)
    if step < rising:
        return (step + 1) / rising
    over = min((step - rising) / max(n_steps - rising, 1), 1.0)
    if schedule == "constant":
        return 1.0
    if schedule == "inverse-sqrt":
        return math.sqrt(rising / (step + 1))
    falling = 1 - over if schedule == "one-cycle" else (1 + math.cos(math.pi * over)) / 2
    return max(falling, 1e-3)
