"""Configs as YAML and back, checked."""

from __future__ import annotations

import re
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from wordwave.names import suggestion

C = TypeVar("C")

_EXPONENT = re.compile(r"[-+]?\d+\.?\d*[eE][-+]?\d+")


def to_plain(config: Any) -> dict[str, Any]:
    """A config as dictionaries, lists, strings and numbers."""
    plain: dict[str, Any] = _plain(asdict(config))
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(v) for key, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, (list, tuple)) else value


def from_plain(kind: type[C], given: Any, *, where: str = "config") -> C:
    """A config from dictionaries; an unknown key is an error that suggests the nearest one."""
    if not isinstance(given, dict):
        raise ValueError(f"{where} must hold names and values, got {given!r}")
    known = [f.name for f in fields(kind)]  # type: ignore[arg-type]
    hints = get_type_hints(kind)
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            hint = suggestion(name, known) or f"; known: {', '.join(known)}"
            raise ValueError(f"{where} has an unknown key {name!r}{hint}")
        if is_dataclass(hints[name]):
            value = from_plain(hints[name], value, where=f"{where}: {name}")
        value = _typed(value, hints[name])
        if not _fits(value, hints[name]):
            raise ValueError(f"{where}: {name} must be {_spelled(hints[name])}, got {value!r}")
        values[name] = value
    try:
        return kind(**values)
    except (TypeError, ValueError) as problem:  # a field without a default is missing, or refused
        raise ValueError(f"{where}: {problem}") from problem


def _typed(value: Any, hint: Any) -> Any:
    """A value that was read from YAML, which has no tuples and takes 1e-3 for a string."""
    if get_origin(hint) in (Union, UnionType):
        typed = [_typed(value, part) for part in get_args(hint)]
        fitting = (v for v, part in zip(typed, get_args(hint), strict=True) if _fits(v, part))
        return next(fitting, value)
    if get_origin(hint) is tuple and isinstance(value, (list, tuple)):
        parts = _elements(hint, len(value))
        return tuple(map(_typed, value, parts)) if len(parts) == len(value) else tuple(value)
    if hint is float and isinstance(value, str) and _EXPONENT.fullmatch(value):
        return float(value)
    return value


def _elements(hint: Any, n: int) -> tuple[Any, ...]:
    """The type of each of the n elements that a tuple may have."""
    parts = get_args(hint)
    return parts[:1] * n if parts[-1] is Ellipsis else parts


def _fits(value: Any, hint: Any) -> bool:
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, part) for part in get_args(hint))
    if origin is Literal:
        return value in get_args(hint)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        parts = _elements(hint, len(value))
        return len(parts) == len(value) and all(map(_fits, value, parts))
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, NoneType if hint is None else hint)


def _spelled(hint: Any) -> str:
    """A type as a user would say it."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return " or ".join(_spelled(part) for part in get_args(hint))
    if origin is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    if origin is tuple:
        first, last = get_args(hint)[0], get_args(hint)[-1]
        return f"a list of {'' if last is Ellipsis else f'{len(get_args(hint))} '}{_spelled(first)}"
    return "null" if hint is NoneType else getattr(hint, "__name__", str(hint))


def dump_yaml(plain: dict[str, Any]) -> str:
    import yaml

    text: str = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
    return text


def read_yaml(path: Path) -> dict[str, Any]:
    """The names and values in a YAML file."""
    import yaml

    try:
        plain = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError) as problem:  # ValueError: not UTF-8, or a 13th month
        reason = " ".join(str(problem).split())[:200]
        raise ValueError(f"'{path}' is not a YAML file: {reason}") from problem
    if not isinstance(plain, dict):
        raise ValueError(f"'{path}' must hold names and values, got {type(plain).__name__}")
    return plain
