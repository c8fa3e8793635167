"""The files of a run folder: config.yaml, model.safetensors, result.json, a lock, a signature.

The config of a run names the files and Hugging Face data sets that it was trained on, and a run
folder may come from a stranger. Training therefore signs these names with a key in the user's state
folder, and without a valid signature they are opened only if the user says so. A signed run may be
moved; other users and machines do not accept its signature.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import torch
from filelock import Timeout
from torch import Tensor, nn

from wordwave import __version__
from wordwave.config_io import REPLACING, dump_yaml, from_dict, run_config, to_dict
from wordwave.errors import WordwaveError, unknown
from wordwave.files import (
    check_inside,
    check_writable,
    locked,
    naming,
    read_text,
    remove_unfinished,
    write_text,
)
from wordwave.migrate import upgrade_run, upgrade_weights
from wordwave.tensor_files import TensorFile, check_like

C = TypeVar("C")
M = TypeVar("M", bound=nn.Module)

WEIGHTS, RESULT, SIGNATURE, LOCK = "model.safetensors", "result.json", "made-here", ".training.lock"
Precision = Literal["float32", "float16"]
TABLES, TIMES_POSITION = ("embedding.", "ngrams."), ("frequenc", "damping")
"""Tables of words, bigrams and n-grams, which may be stored as float16; but not those that are
multiplied by positions, which would multiply their rounding."""
KEY, KEY_SIZE = "runs.key", 32
WRITTEN = (
    *("config.yaml", "vocab.json", "tokenizer.json", "casing.json", SIGNATURE, "metrics.jsonl"),
    *("tensorboard", "state", "state/state.safetensors", WEIGHTS, "test.jsonl", RESULT, LOCK),
    REPLACING,
)
"""All that training may write to a run folder."""
EXPORTED = ("model.onnx", "model.onnx.json", "model.onnx.tokenizer.json")
"""What `wordwave export` writes to a run folder."""
REMOVED = (
    *(RESULT, WEIGHTS, "estimator.json", *EXPORTED),
    *(name for name in WRITTEN if name[0] != "."),
)
"""What is removed of a run that is replaced; `estimator.json` is of `WaveClassifier.save`."""


def save_config(folder: Path, task: str, config: Any) -> None:
    """Write config.yaml."""
    about = {"task": task, "version": __version__, **to_dict(config)}
    write_text(folder / "config.yaml", dump_yaml(about))


def read_config(folder: Path, task: str, kind: type[C]) -> C:
    """The config of a run of a task."""
    plain = run_config(folder)
    found = plain.pop("task")
    plain.pop("version", None)
    if found != task:
        uses = dict.fromkeys(("classify", "match"), "predict")
        uses |= {"embed": "encode", "translate": "translate", "lm": "generate"}
        hint = f"; use it with wordwave {uses[found]}" if found in uses else ""
        raise WordwaveError(f"'{folder}' is a run of {found!r}, expected one of {task!r}{hint}")
    return from_dict(kind, upgrade_run(plain, task), where=f"'{folder / 'config.yaml'}'")


@contextmanager
def reading(path: Path, refusal: str) -> Iterator[None]:
    """Name the file in any error of reading it, with what it should have been."""
    try:
        yield
    except (OSError, WordwaveError) as problem:
        raise WordwaveError(f"'{path}' {refusal}: {problem}") from None


def load_model(folder: Path, build: Callable[[], M]) -> M:
    """The model of a run, in evaluation mode.

    Args:
        build: makes the model that config.yaml describes, with any weights. It is called on a real
            device, where it takes memory, only after the weights have been found to fit.
    """
    path = folder / WEIGHTS
    with reading(path, "does not hold this model"):
        file = TensorFile(path)
        with torch.device("meta"):
            wanted = build().state_dict()
        found = upgrade_weights(file.meta)
        half = stored(wanted, "float16")
        is_half = {name for name in half if name in found and found[name].dtype == torch.float16}
        check_like(found, {name: (half if name in is_half else wanted)[name] for name in wanted})
        weights = upgrade_weights(file.load())
        if is_half:  # of tables, only those may be float32 that float16 cannot hold
            check_like(weights, stored(weights, "float16"))
    model = build()
    model.load_state_dict(weights)  # which makes float16 float32 again
    return model.eval()


def stored(weights: Mapping[str, Tensor], dtype: Precision) -> dict[str, Tensor]:
    """Weights as a file holds them: of float16, the tables whose values it can hold, and all else
    as it is. The n-grams of a word of hundreds of letters have squares that are too large."""
    if dtype not in get_args(Precision):
        raise unknown("dtype", dtype, get_args(Precision))
    found = dict(weights)
    for name, tensor in weights.items():
        is_table = name.startswith(TABLES) and tensor.dim() == 2 and tensor.is_floating_point()
        if dtype == "float32" or not is_table or any(part in name for part in TIMES_POSITION):
            continue
        half = tensor.half()
        if tensor.is_meta or half.isfinite().all():
            found[name] = half
    return found


@contextmanager
def locked_folder(folder: Path, *, replaces: bool = False) -> Iterator[None]:
    """Keep other processes from training in the same folder.

    Args:
        replaces: remove the run that it holds. A file marks that, which the caller removes once the
            new run has begun: a kill at any moment leaves the old run or an unfinished new one.
    """
    path = folder / LOCK
    check_writable(path)
    check_inside(folder, WRITTEN)
    with ExitStack() as held:
        try:
            with naming(folder):
                folder.mkdir(parents=True, exist_ok=True)
                held.enter_context(locked(path, timeout=0))
        except Timeout:
            raise WordwaveError(
                f"another process is training in '{folder}': wait for it, or choose another --out"
            ) from None
        if replaces or (folder / REPLACING).exists():
            write_text(folder / REPLACING, "")
            for name in REMOVED:
                path = folder / name
                with naming(path):
                    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        if (folder / RESULT).exists():
            raise WordwaveError(f"another process has just finished the run in '{folder}'")
        remove_unfinished(folder)
        remove_unfinished(folder / "state")
        yield


def clean_up(folder: Path) -> None:
    """Remove what a training has left that was killed after it wrote its result."""
    if (folder / "state").exists() or (folder / LOCK).exists():
        # The folder may be locked or read-only: nothing depends on this.
        with suppress(OSError), locked(folder / LOCK, timeout=0):
            remove_unfinished(folder)
            shutil.rmtree(folder / "state", ignore_errors=True)


def sign(folder: Path, names: Sequence[str]) -> None:
    """Sign the data that a run's config names, if the key can be stored."""
    with suppress(OSError):
        write_text(folder / SIGNATURE, _signature(_key(create=True), names) + "\n")


def is_signed(folder: Path, names: Sequence[str]) -> bool:
    """Whether a run has this user's signature of these names."""
    try:
        found = read_text(folder / SIGNATURE, most=1000).strip()
        return hmac.compare_digest(found.encode(), _signature(_key(create=False), names).encode())
    except (OSError, WordwaveError):
        return False


def _signature(key: bytes, names: Sequence[str]) -> str:
    return hmac.new(key, json.dumps(list(names)).encode(), "sha256").hexdigest()


def _key(*, create: bool) -> bytes:
    """The key of this user, created once."""
    from platformdirs import user_state_path

    path = user_state_path("wordwave") / KEY
    if create and not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".{KEY}.{secrets.token_hex(8)}")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(KEY_SIZE))
        with suppress(FileExistsError):  # another process was first
            os.link(new, path)
        new.unlink()
    key = path.read_bytes()
    if len(key) != KEY_SIZE:
        raise OSError(f"'{path}' is not a key")
    return key
