"""An optuna study that several processes, also of several commands, run trials of at once.

A study of n trials has the slots 0 … n − 1. A worker claims the lowest slot that no finished trial
and no running worker holds, so that all workers together run n trials, and the trial of a killed
worker is run again. The values drawn for a slot depend on the seed, the slot and the trials so far;
those of slot 0 may be given.
"""

from __future__ import annotations

import json
import os
import random
import re
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from filelock import FileLock, Timeout

from wordwave.errors import WordwaveError
from wordwave.files import check_regular, locked, naming
from wordwave.grid import Share, fits
from wordwave.migrate import upgrade_flat

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial, Trial


JOURNAL = "study.journal"
FIRST_EVALUATED = 33
"""Percent of a training after which a trial may be pruned: good ones may start slowly."""
_NAME = "search"


class SharedStudy:
    """The trials of a search folder.

    Args:
        folder: of `study.journal`; created if it does not exist.
        settings: those that all trials share; a study that was begun with others is refused.
        drawn: the names of the settings that each trial draws; any by default.
        defaults: of settings that are missing in a study because it is older than they are.
        seed: of the draws.
    """

    def __init__(
        self,
        folder: Path,
        settings: dict[str, Any],
        *,
        drawn: Collection[str] | None = None,
        defaults: dict[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        import optuna
        from optuna.storages.journal import JournalStorage

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.seed = folder, seed
        # Locks of the operating system end with their process, so a kill leaves none behind.
        self._claiming = FileLock(folder / ".claim.lock")
        writing: Any = FileLock(folder / ".journal.lock")  # has acquire and release, for optuna
        path = folder / JOURNAL
        for sign in folder.glob(".worker-*.lock"):
            _is_alive(sign)
        with writing, _readable(path):
            _remove_torn_line(path)
        with self._claiming, _readable(path):
            there: dict[str, Any] | None = None
            storage = JournalStorage(_journal(path, writing))
            pruner = optuna.pruners.MedianPruner(n_warmup_steps=FIRST_EVALUATED)
            options: Any = {"study_name": _NAME, "storage": storage, "pruner": pruner}
            if _NAME in optuna.get_all_study_names(storage):
                self.study = optuna.load_study(**options)
                there = self._settings(drawn)
                if there != settings and not self._held():
                    optuna.delete_study(study_name=_NAME, storage=storage)  # nothing is lost
                    there = None
            if there is None:
                self.study = optuna.create_study(direction="maximize", **options)
                self.study.set_user_attr("settings", there := settings)
        there = {**(defaults or {}), **there}
        for name, here in settings.items():
            if there.get(name) != here:
                raise WordwaveError(
                    f"'{folder}' holds a search with {name} {there.get(name)!r}, here it is "
                    f"{here!r}: choose another --out, or remove that folder"
                )

    def finished(self) -> list[FrozenTrial]:
        """The trials that are complete or were pruned, by slot."""
        return sorted(self._trials("COMPLETE", "PRUNED"), key=lambda t: t.user_attrs["slot"])

    def _trials(self, *states: str) -> list[FrozenTrial]:
        return [t for t in self.study.get_trials(deepcopy=False) if t.state.name in states]

    def _settings(self, drawn: Collection[str] | None) -> dict[str, Any]:
        """The settings that all trials share, after a check of all that was read."""
        for trial in self.finished():
            parts = (
                (trial.user_attrs["slot"], int),
                (trial.user_attrs.get("stopped", ""), str),
                (list(trial.intermediate_values), list[int]),
                (list(trial.intermediate_values.values()), list[Share]),
                (trial.value, Share if trial.state.name == "COMPLETE" else Share | None),
                (list(trial.params.values()), list[str | float | bool | None]),
            )
            if not all(fits(part, kind) for part, kind in parts):
                raise WordwaveError(f"trial {trial.number}")
            if drawn is not None and set(trial.params) != set(drawn):
                raise WordwaveError(f"trial {trial.number} draws {', '.join(trial.params)}")
        settings = self.study.user_attrs.get("settings", {})
        if not fits(settings, dict):
            raise WordwaveError("settings")
        return upgrade_flat(settings)

    def ranked(self) -> list[FrozenTrial]:
        """The complete trials, best first."""
        ended = [trial for trial in self.finished() if trial.state.name == "COMPLETE"]
        return sorted(ended, key=lambda trial: -(trial.value or 0.0))

    def claim(
        self, space: dict[str, Any], n: int, worker: str, first: dict[str, Any] | None = None
    ) -> Trial | None:
        """A new trial with its values drawn, `None` while there is no free slot.

        Args:
            space: optuna's distribution of each setting.
            n: number of slots.
            worker: its name from `alive`.
            first: the values of slot 0, which are drawn if `None`.
        """
        import optuna
        from numpy.random import SeedSequence

        with self._claiming:
            held = self._held()
            slot = next((i for i in range(n) if i not in held), None)
            if slot is None:
                return None
            seed = int(SeedSequence((self.seed, slot)).generate_state(1)[0])
            # The constant liar keeps workers from trying the same promising values at once.
            self.study.sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
            # A trial waits if its worker was killed after it had enqueued it.
            if slot == 0 and first is not None and not self._trials("WAITING"):
                self.study.enqueue_trial(first)
            trial = self._ask(space, random.Random(seed))
            trial.set_user_attr("worker", worker)
            trial.set_user_attr("slot", slot)
            return trial

    def _ask(self, space: dict[str, Any], rng: random.Random) -> Trial:
        """A trial whose values differ from those of all others, as long as there are any."""
        from optuna.trial import TrialState

        trial: Trial = self.study.ask(space)
        others = self._trials("COMPLETE", "PRUNED", "RUNNING")
        tried = [t.params for t in others if t.number != trial.number]
        if trial.params in tried and all(hasattr(d, "choices") for d in space.values()):
            grid = product(*(d.choices for d in space.values()))
            combinations = [dict(zip(space, values, strict=True)) for values in grid]
            if untried := [values for values in combinations if values not in tried]:
                self.study.tell(trial, state=TrialState.FAIL)
                self.study.enqueue_trial(rng.choice(untried))
                trial = self.study.ask(space)
        return trial

    def abandoned(self) -> list[int]:
        """The slots of trials whose workers were killed and that no other worker has claimed."""
        slots = (trial.user_attrs.get("slot") for trial in self._dead())
        return sorted(slot for slot in slots if slot is not None)

    def _dead(self) -> list[FrozenTrial]:
        """The trials whose workers were killed."""
        running = self._trials("RUNNING")
        return [t for t in running if not _is_alive(_sign(self.folder, t.user_attrs.get("worker")))]

    def _held(self) -> set[int]:
        """The slots of finished trials and running workers; trials of killed workers fail."""
        from optuna.trial import TrialState

        for trial in self._dead():
            self.study.tell(trial.number, state=TrialState.FAIL)
        return {t.user_attrs["slot"] for t in self._trials("RUNNING", "COMPLETE", "PRUNED")}


@contextmanager
def alive(folder: Path) -> Iterator[str]:
    """The name of a new worker, which counts as alive until the block or its process ends."""
    name = uuid4().hex
    with locked(_sign(folder, name)):
        yield name


def _is_alive(sign: Path) -> bool:
    """Whether the worker of a lock file is alive; the file of a dead one is removed."""
    if not sign.exists():
        return False
    try:
        with locked(sign, timeout=0):
            return False
    except Timeout:
        return True


def _sign(folder: Path, worker: object) -> Path:
    return folder / f".worker-{re.sub(r'[^0-9a-f]', '', str(worker))}.lock"


def _journal(path: Path, lock: Any) -> Any:
    """optuna's journal, which a full disk leaves unchanged, with an error that names the file."""
    from optuna.storages.journal import JournalFileBackend

    class Journal(JournalFileBackend):
        def append_logs(self, logs: list[dict[str, Any]]) -> None:
            with naming(path), lock:
                before = path.stat().st_size
                try:
                    super().append_logs(logs)
                except OSError:
                    os.truncate(path, before)
                    raise

    return Journal(str(path), lock_obj=lock)


@contextmanager
def _readable(journal: Path) -> Iterator[None]:
    """Refuse a journal that optuna cannot parse, whatever it raises."""
    try:
        yield
    except OSError:
        raise
    except Exception as problem:
        reason = " ".join(f"{type(problem).__name__}: {problem}".split())[:200]
        raise WordwaveError(
            f"'{journal}' is not a journal of optuna for this search ({reason}): choose another "
            "--out, or remove that folder"
        ) from problem


def _remove_torn_line(journal: Path) -> None:
    """Cut off a last line that a full disk or a power cut left half written."""
    if not journal.exists():
        return
    check_regular(journal)
    text = journal.read_bytes()
    whole = text[: text.rfind(b"\n") + 1]
    for line in whole.splitlines():
        json.loads(line)["op_code"]
    if whole != text:
        with journal.open("rb+") as file:
            file.truncate(len(whole))
