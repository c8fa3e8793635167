"""What the trained models of all tasks have in common: they go to a folder and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor, nn

from wordwave.files import check_place
from wordwave.tasks.run_folder import WEIGHTS, save_weights


class Trained(ABC):
    """A model and all it takes to use it: how texts become ids, how it was trained.

    A class that derives from it has a `load` that reads what `save` wrote.
    """

    task: ClassVar[str]
    """What `wordwave train` calls it."""
    model: nn.Module
    config: Any

    def save(self, folder: Path) -> None:
        """Write files that other tools can read: config.yaml, words as JSON, weights as
        safetensors."""
        check_place(folder / WEIGHTS)
        # Weights of an earlier model must not be taken for those of these words.
        (folder / WEIGHTS).unlink(missing_ok=True)
        self.save_all_but_weights(folder)
        self.save_weights(folder)

    @abstractmethod
    def save_all_but_weights(self, folder: Path) -> None:
        """What is known before training."""

    def save_weights(self, folder: Path, weights: dict[str, Tensor] | None = None) -> None:
        """The model's weights, or others of the same shapes, such as the best so far."""
        save_weights(folder, self.task, self.model, weights)
