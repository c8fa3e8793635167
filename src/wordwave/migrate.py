"""Files and flags of earlier versions, in the names of this one. Needs no torch.

This is the one place that knows former names. Everything that reads a config, a flag, a record of
results, a saved state or weights passes it through here first; files are never rewritten.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from wordwave.errors import WordwaveError

V = TypeVar("V")
Plain = dict[str, Any]

SETTINGS: dict[str, dict[str, str]] = {
    "data": {"judge_on": "eval_chars", "score_on": "test_chars"},
    "text": {"tokeniser": "tokenizer"},
    "model": {
        "farthest": "clamp_len",
        "wave_period": "max_wave_position",
        "evaluation_memory": "eval_memory_length",
        "norm": "norm_first",
    },
    "training": {
        "judge_every": "eval_every",
        "warm_up": "warmup_fraction",
        "accumulate": "grad_accumulation",
        "frequency_rate": "frequency_lr_scale",
        "frequency_decay": "frequency_weight_decay",
        "clip": "max_grad_norm",
        "judge_bleu": "eval_bleu",
    },
}
"""Former names of settings, by part."""
RENAMED = {old: new for part in SETTINGS.values() for old, new in part.items()}
RENAMED |= {"pool": "space", "search_pool": "search_space"}  # of a search
EMBEDDING = (
    "share_frequency",
    "share_amplitude",
    "phase",
    "damping",
    "frequency_init",
    "frequency_range",
    "freeze_frequency",
    "word_scale",
    "position_scale",
)
"""Settings of the model that are settings of its embedding now."""
NEW_IN_EMBEDDING: Plain = {
    "share_amplitude": None,
    "share_phase": None,
    "damping": False,
    "views": ["start"],
    "frequency_scale": 1.0,
    "train_sinusoids": False,
    "layers": "complex",
    "word_scale": None,
    "position_scale": 1.0,
}
"""What models without these settings did."""
NEW_IN_MODEL: Plain = {"embedding_dropout": None, "max_norm": 0.0, "normalization": "layer"}
"""The same of models of sentences; see also `padding_of`."""
NEW_IN_TRAINING: Plain = {"vector_lr_scale": 1.0}


TABLE: Plain = {"table": {"delimiter": None, "encoding": "utf-8", "skip_bad_rows": False}}
"""How all tables were read before there were settings for it."""
FORMER_DEFAULTS: dict[str, Plain] = {
    "classify": {"max_length": 512, "padding": "narrow", "ngrams": False, "select": "accuracy"},
    "match": {"padding": "narrow", "unknown_words": "shared"},
}
"""What trainings did, by task, that did not ask for what is the default now."""
PAIR_DATA = {"dev_share", "test", "text_a", "text_b", "similarity"}
"""Settings that the config of a run on pairs has; one that a user writes has a few of them."""
WITH_VALIDATION = ("built-in", "paws-qqp", "sts-b", "sick")
"""Pairs by name that have a validation set."""
WEIGHTS = (
    (r"^optimiser\.", "optimizer."),
    (r"\b((?:en|de)coder\.\d+)\.shortcuts\.(\d)\.norm\.", r"\1.norms.\2."),
    (r"\bto_source\.", "cross_attention."),
    (r"\bto_words\.", "readout."),
)
"""Former names of tensors, as patterns; all parameters among them are of translation models."""


def upgrade_config(plain: Any, where: str = "config") -> Any:
    """The settings of a config file, a recipe or a run; what is none is left as it is."""
    if not isinstance(plain, dict):
        return plain
    parts = dict(plain)
    for part, names in SETTINGS.items():
        if isinstance(parts.get(part), dict):
            parts[part] = _renamed(parts[part], names, f"{where}: {part}")
    match parts:  # where a share was ignored
        case {"data": {"dev": dev, "data": name, **data}} if data.keys() >= PAIR_DATA:
            if dev or name in WITH_VALIDATION:
                parts["data"] = {**parts["data"], "dev_share": None}
    if isinstance(parts.get("model"), dict):
        model = parts["model"] = _nested(parts["model"], f"{where}: model")
        if model.get("encoder") == "cnn" and {"widths", "max_length"} <= model.keys():
            model.setdefault("padding", padding_of("cnn"))  # a run's, which has all settings
    return parts


def upgrade_run(plain: Plain, task: str) -> Plain:
    """The settings of a run, which says nothing of settings that are newer than itself."""
    plain = dict(plain)
    if task == "classify" and isinstance(data := plain.get("data"), dict):
        plain["data"] = {"dev_share": 0.1, **data}
    if task == "match" and isinstance(text := plain.get("text"), dict):
        plain["text"] = {"unknown_words": "shared", **text}
    if task in ("match", "classify") and isinstance(model := plain.get("model"), dict):
        plain["model"] = {"padding": padding_of(model.get("encoder")), **model}
        if model.get("encoder") == "bag":
            plain["model"] = {"ngrams": False, **plain["model"]}
            if isinstance(training := plain.get("training"), dict):
                plain["training"] = {"select": "accuracy", **training}
    return plain


def may_be_default(settings: Plain, task: str) -> list[str]:
    """Which settings of a run, by the names of their flags, the command that began it may not have
    given, although they differ from the defaults of now."""
    former = FORMER_DEFAULTS.get(task, {})
    found = [name for name in former if name in settings and settings[name] == former[name]]
    return [*found, *(["dev_share"] if "dev_share" in settings else [])]


def padding_of(encoder: Any) -> str:
    """The windows of models without this setting; without a CNN it has no meaning."""
    return "narrow" if encoder == "cnn" else "wide"


def upgrade_flat(settings: Plain) -> Plain:
    """Settings by the names of their flags, as studies keep them."""
    padding = padding_of(settings.get("encoder"))
    return {"padding": padding, **as_default(_renamed(settings, RENAMED, "settings"))}


def as_default(settings: Plain) -> Plain:
    """Settings with n-grams as by default, if they have them: both train the same model, and the
    default was True once."""
    return {**settings, "ngrams": None} if settings.get("ngrams") is True else settings


def upgrade_record(record: Plain) -> Plain:
    """A record of results: the settings in `config` (all of a run), `how` (those that were set)
    and `trials` (those that a search tried)."""
    new = dict(record)
    for name in ("config", "how"):
        if isinstance(record.get(name), dict):
            new[name] = upgrade_config(record[name])
    match record:
        case {"config": {"model": {"embedding": str() | dict()}}}:
            # It had no names for some settings.
            model = new["config"]["model"]
            model["embedding"] = {**NEW_IN_EMBEDDING, **model["embedding"]}
            if "encoder" in model:
                padding = padding_of(model["encoder"])
                new["config"]["model"] = {**NEW_IN_MODEL, "padding": padding, **model}
            new["config"]["model"] = as_default(new["config"]["model"])
            if isinstance(training := new["config"].get("training"), dict):
                new["config"]["training"] = {**NEW_IN_TRAINING, **training}
            if isinstance(text := new["config"].get("text"), dict) and "tokenizer" in text:
                new["config"]["text"] = {"unknown_words": "shared", **text}
    match record:
        case {"config": {"data": {"dev": _, "label": _, **data}}} if "dev_share" not in data:
            new["config"]["data"] = {"dev_share": None, **TABLE, **new["config"]["data"]}
    match record:
        case {"config": {"data": {"dev": _, "label": _, **data}}} if "text_a" not in data:
            new["config"]["data"] = {"multi_label": None, **new["config"]["data"]}
    match record:
        case {"how": {"cells": dict(cells)}}:
            new["how"]["cells"] = {name: upgrade_config(cell) for name, cell in cells.items()}
    if isinstance(record.get("trials"), list):
        new["trials"] = [
            {**trial, "settings": upgrade_config(trial["settings"])}
            if isinstance(trial, dict) and "settings" in trial
            else trial
            for trial in record["trials"]
        ]
    return new


def upgrade_progress(progress: Any) -> Any:
    """The progress of a training, in the header of its saved state."""
    if not isinstance(progress, dict):
        return progress
    return _renamed(progress, {"since_judged": "since_eval"}, "progress")


def upgrade_weights(tensors: Mapping[str, V]) -> dict[str, V]:
    """Tensors of model.safetensors or of a saved state, by the names of this version.

    In a saved state, the names of parameters follow `model.`, `best.`, `optimizer.KEY.` and, for
    weights to be averaged, `task.N.`.
    """
    upgraded = {}
    for name, tensor in tensors.items():
        for former, now in WEIGHTS:
            name = re.sub(former, now, name)
        upgraded[name] = tensor
    return upgraded


def upgrade_flags(args: Sequence[str], warn: Callable[[str], object]) -> list[str]:
    """A command line with former flags replaced; each is warned of once."""
    new, warned = [], set[str]()
    rest = iter(args)
    for word in rest:
        flag, equals, value = word.partition("=")
        name = flag.removeprefix("--").replace("-", "_")
        if not flag.startswith("--") or name not in RENAMED:
            new.append(word)
            continue
        if name == "norm":  # it had a value, and is a switch now
            value = value if equals else next(rest, "")
            if value not in ("pre", "post"):
                raise WordwaveError(f"--norm must be one of pre, post, got {value!r}")
            now = "--norm-first" if value == "pre" else "--no-norm-first"
            flag, equals, value = f"--norm {value}", "", ""
        else:
            now = "--" + RENAMED[name].replace("_", "-")
        if now not in warned:
            warned.add(now)
            warn(f"{flag} is now {now}")
        new.append(now + equals + value)
    return new


def _renamed(settings: Plain, names: Mapping[str, str], where: str) -> Plain:
    found: Plain = {}
    for name, value in settings.items():
        new = names.get(name, name)
        if new in found or (new != name and new in settings):
            raise WordwaveError(f"{where} has both {new!r} and its former name")
        if new == "norm_first" and name == "norm":
            if value not in ("pre", "post"):
                raise WordwaveError(f"{where}: norm must be one of pre, post")
            value = value == "pre"
        found[new] = value
    return found


def _nested(model: Plain, where: str) -> Plain:
    """A model whose settings of the embedding are in a part of their own."""
    flat = {name: model[name] for name in EMBEDDING if name in model}
    embedding = model.get("embedding", {})
    if isinstance(embedding, str):
        embedding = {"kind": embedding}
    if not isinstance(embedding, dict) or not (flat or embedding):
        return dict(model)
    for name in flat.keys() & embedding.keys():
        raise WordwaveError(f"{where} has {name!r} both in the model and in its embedding")
    rest = {name: value for name, value in model.items() if name not in (*EMBEDDING, "embedding")}
    return {"embedding": {**embedding, **flat}, **rest}
