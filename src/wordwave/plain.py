"""Configs as YAML and back, checked."""

from __future__ import annotations

from dataclasses import asdict, fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

C = TypeVar("C")


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
            near = get_close_matches(str(name), known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
            raise ValueError(f"{where} has an unknown key {name!r}; {hint}")
        if is_dataclass(hints[name]):
            value = from_plain(hints[name], value, where=f"{where}: {name}")
        elif isinstance(value, list):
            value = tuple(value)
        if not _fits(value, hints[name]):
            raise ValueError(f"{where}: {name} must be {_spelled(hints[name])}, got {value!r}")
        values[name] = value
    try:
        return kind(**values)
    except TypeError as problem:  # a field without a default is missing
        raise ValueError(f"{where}: {problem}") from problem


def _fits(value: Any, hint: Any) -> bool:
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, part) for part in get_args(hint))
    if origin is Literal:
        return value in get_args(hint)
    if origin is tuple:
        return isinstance(value, tuple)
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
    except (yaml.YAMLError, UnicodeDecodeError) as problem:
        reason = " ".join(str(problem).split())[:200]
        raise ValueError(f"'{path}' is not a YAML file: {reason}") from problem
    if not isinstance(plain, dict):
        raise ValueError(f"'{path}' must hold names and values, got {type(plain).__name__}")
    return plain
