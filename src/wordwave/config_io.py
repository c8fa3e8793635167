"""Configs as YAML and back, and figures as JSON: bounded, and checked against their types.

These files may come from a stranger. No value of theirs is shown whole in an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, asdict, fields, is_dataclass, replace
from functools import cache, partial
from math import inf
from pathlib import Path
from reprlib import repr as clipped
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from wordwave.errors import WordwaveError, suggestion
from wordwave.files import read_text
from wordwave.migrate import upgrade_config

C = TypeVar("C")

MOST_YAML, MOST_JSON = 100_000, 64 * 2**20
"""Bytes of a file that is read."""
MOST_NODES, MOST_DEPTH, LONGEST_SCALAR, MOST_DIGITS = 10_000, 20, 4096, 100
"""Of a YAML file: the nodes, how deep they are nested, the characters and the digits of one."""
_EXPONENT = re.compile(r"[-+]?\d+\.?\d*[eE][-+]?\d+")


def to_dict(config: Any) -> dict[str, Any]:
    """A config as dictionaries, lists, strings and numbers."""
    return json.loads(json.dumps(asdict(config)))  # JSON has no tuples


def from_dict(kind: type[C], given: Any, *, where: str = "config", default: C | None = None) -> C:
    """A config from dictionaries; an unknown key is an error that suggests the nearest one.

    A string in the place of a config that has a `kind` is its kind.

    Args:
        where: the place to name in an error.
        default: has the values of all settings that are not given.
    """
    if isinstance(given, str) and _has_kind(kind):
        given = {"kind": given}
    if not isinstance(given, dict):
        raise WordwaveError(f"{where} must hold names and values, got {clipped(given)}")
    known = {f.name: f for f in fields(kind)}  # type: ignore[arg-type]
    hints = _hints(kind)  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            hint = suggestion(name, known) or f"; known: {', '.join(known)}"
            raise WordwaveError(f"{where} has an unknown key {clipped(name)}{hint}")
        if not is_dataclass(hints[name]):
            values[name] = conform(value, hints[name], where=f"{where}: {name}")
            continue
        make = known[name].default_factory
        usual = None if make is MISSING else make()
        usual = usual if default is None else getattr(default, name)
        values[name] = from_dict(hints[name], value, where=f"{where}: {name}", default=usual)
    try:
        return kind(**values) if default is None else replace(default, **values)  # type: ignore[type-var]
    except (TypeError, ValueError) as problem:  # a field without a default is missing, or refused
        raise WordwaveError(f"{where}: {problem}") from problem


def flatten(config: Any) -> dict[str, Any]:
    """All settings of a config by the names of their flags, as `to_dict` spells their values."""
    return flat(to_dict(config))


def flat(plain: dict[str, Any]) -> dict[str, Any]:
    """Settings by the names of their flags: without the names of parts, whose `kind` has the name
    of the part."""
    found: dict[str, Any] = {}
    for name, value in plain.items():
        if isinstance(value, dict):
            found |= {name if k == "kind" else k: v for k, v in flat(value).items()}
        else:
            found[name] = value
    return found


def with_settings(config: C, /, **settings: Any) -> C:
    """A config with some settings changed, by the names of their flags."""
    where = type(config).__name__
    return from_dict(type(config), nested(type(config), settings), where=where, default=config)


def nested(kind: type, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by the names of their flags, as the parts of a config hold them."""
    left = dict(settings)
    found = _taken(kind, left)
    for name in left:
        hint = suggestion(name, flatten(kind()))
        raise WordwaveError(f"{kind.__name__} has no setting {name!r}{hint}")
    return found


def _taken(kind: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """The settings that a config has, which are taken out of the given ones."""
    hints, found = _hints(kind), {}
    for name in (f.name for f in fields(kind)):
        if not is_dataclass(hints[name]):
            if name in settings:
                found[name] = settings.pop(name)
            continue
        if _has_kind(hints[name]) and name in settings:
            settings["kind"] = settings.pop(name)
        if part := _taken(hints[name], settings):
            found[name] = part
    return found


def _has_kind(config: Any) -> bool:
    return any(f.name == "kind" for f in fields(config))


def conform(value: Any, hint: Any, *, where: str) -> Any:
    """The value as one of a type; any other is refused, naming the place.

    Keys that a `TypedDict` does not name may hold anything.
    """
    for schema in filter(is_typeddict, (hint, *get_args(hint))):
        if isinstance(value, dict):
            found = dict(value)
            for name, part in _hints(schema).items():
                if name in value:
                    found[name] = conform(value[name], part, where=f"{where}: {name}")
                elif name in schema.__required_keys__:
                    raise WordwaveError(f"{where} has no {name!r}")
            return found
        if schema is hint:
            raise WordwaveError(f"{where} must hold names and values, got {clipped(value)}")
    if get_origin(hint) is tuple and isinstance(value, list):
        value = tuple(value)
    try:
        return _converted(value, hint)
    except TypeError:
        raise WordwaveError(f"{where} must be {_spelled(hint)}, got {clipped(value)}") from None


def fits(value: Any, hint: Any) -> bool:
    """Whether a value that was read from JSON has a type; all numbers must be finite.

    Args:
        hint: a type, or one with a rule, such as `Annotated[int, lambda n: n >= 1]`.
    """
    with suppress(TypeError, WordwaveError):
        _converted(value, hint, strict=True)
        return True
    return False


def _converted(value: Any, hint: Any, *, strict: bool = False) -> Any:
    """The value as one of a type: YAML and JSON have no tuples, and YAML takes 1e-3 for a string.

    Raises `TypeError` for any other value; if `strict`, also for such strings, for infinite numbers
    and for integers of more than 64 bits.
    """
    origin, parts = get_origin(hint), get_args(hint)
    converted = partial(_converted, strict=strict)
    if hint is Any:
        return value
    if isinstance(hint, type) and is_dataclass(hint):
        return from_dict(hint, value)
    if origin is Annotated:
        if parts[1](value := converted(value, parts[0])):
            return value
    elif origin in (Union, UnionType):
        for part in parts:
            with suppress(TypeError, WordwaveError):
                return converted(value, part)
    elif origin is Literal:
        if value in parts:
            return value
    elif is_typeddict(hint):
        if isinstance(value, dict) and hint.__required_keys__ <= value.keys():
            named = {k: part for k, part in _hints(hint, include_extras=True).items() if k in value}
            return value | {k: converted(value[k], part) for k, part in named.items()}
    elif origin is tuple and isinstance(value, (list, tuple)):
        parts = parts[:1] * len(value) if parts[-1] is Ellipsis else parts
        if len(parts) == len(value):
            return tuple(map(converted, value, parts))
    elif origin is list and isinstance(value, list):
        return [converted(v, parts[0]) for v in value]
    elif origin is dict and isinstance(value, dict):
        return {converted(k, parts[0]): converted(v, parts[1]) for k, v in value.items()}
    elif hint is float and isinstance(value, str) and not strict and _EXPONENT.fullmatch(value):
        return float(value)
    elif isinstance(value, bool):  # no number
        if hint is bool:
            return value
    elif isinstance(value, (int, float) if hint is float else origin or hint) and value == value:
        limit = inf if isinstance(value, float) else 2**63
        if not (strict and isinstance(value, (int, float))) or abs(value) < limit:
            return value  # NaN is no number either
    raise TypeError


@cache
def _hints(schema: Any, *, include_extras: bool = False) -> dict[str, Any]:
    return get_type_hints(schema, include_extras=include_extras)


def _spelled(hint: Any) -> str:
    """A type as a user would say it."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return " or ".join(_spelled(part) for part in get_args(hint))
    if origin is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    if origin is tuple:
        n = "" if get_args(hint)[-1] is Ellipsis else f"{len(get_args(hint))} "
        return f"a list of {n}{_spelled(get_args(hint)[0])}"
    if origin in (list, dict):
        of_what = " to ".join(map(_spelled, get_args(hint)))
        return f"a {'list' if origin is list else 'mapping'} of {of_what}"
    if is_typeddict(hint):
        return "names and values"
    return "null" if hint is NoneType else getattr(hint, "__name__", str(hint))


def dump_yaml(plain: dict[str, Any]) -> str:
    import yaml

    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)


def read_yaml(path: Path) -> dict[str, Any]:
    """The names and values in a YAML file: plain ones, without anchors, aliases and tags."""
    import yaml

    try:
        plain = yaml.load(read_text(path, most=MOST_YAML), _yaml_loader())  # noqa: S506 (a safe one)
    except (yaml.YAMLError, ValueError) as problem:  # ValueError: not UTF-8, or a 13th month
        reason = " ".join(str(problem).split())[:200]
        raise WordwaveError(f"'{path}' is not a YAML file: {reason}") from problem
    if not isinstance(plain, dict):
        raise WordwaveError(f"'{path}' must hold names and values, got {type(plain).__name__}")
    return plain


def read_settings(path: Path) -> dict[str, Any]:
    """The settings in a YAML file of this or an earlier version."""
    return upgrade_config(read_yaml(path), f"'{path}'")


def task_of(folder: Path) -> str:
    """The task of a run: classify, match, embed, translate or lm."""
    return str(run_config(folder)["task"])


REPLACING = ".replacing"
"""A file in a run folder while its run is removed, to make room for another one."""


def run_config(folder: Path) -> dict[str, Any]:
    """The content of config.yaml in a run folder: a task, and its settings."""
    path = folder / "config.yaml"
    if (folder / REPLACING).exists():
        raise WordwaveError(
            f"'{folder}' holds no run yet: its former one was being replaced when the command was "
            "stopped; run the same command again, with --overwrite"
        )
    if not folder.is_dir() or not path.exists():
        raise WordwaveError(f"'{folder}' is not a run folder: it has no config.yaml")
    plain = read_settings(path)
    conform(plain.get("task"), str, where=f"'{path}': task")
    return plain


@cache
def _yaml_loader() -> Any:
    """PyYAML's safe loader, without what lets a small file become a large or a strange value."""
    import yaml

    class PlainLoader(yaml.SafeLoader):  # type: ignore[misc]
        n_nodes = depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            event = self.peek_event()
            if event.anchor is not None:
                raise yaml.YAMLError("anchors and aliases (&, *) are not accepted: spell it out")
            if event.tag is not None:
                raise yaml.YAMLError("tags (!) are not accepted: write the value without one")
            self.n_nodes += 1
            if self.n_nodes > MOST_NODES:
                raise yaml.YAMLError(f"it holds more than {MOST_NODES:,} values")
            if self.depth >= MOST_DEPTH:
                raise yaml.YAMLError("it is nested too deeply to be read")
            if len(getattr(event, "value", "")) > LONGEST_SCALAR:
                raise yaml.YAMLError(f"a value has more than {LONGEST_SCALAR:,} characters")
            self.depth += 1
            node = super().compose_node(parent, index)
            self.depth -= 1
            if node.tag == "tag:yaml.org,2002:int" and len(node.value) > MOST_DIGITS:
                raise yaml.YAMLError(f"a number has more than {MOST_DIGITS} digits")
            return node

    return PlainLoader


def read_json(path: Path) -> Any:
    """The value in a JSON file."""
    return parse_json(read_text(path, most=MOST_JSON))


def parse_json(text: str) -> Any:
    """The value that JSON spells; nothing that could not be written again as UTF-8."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise WordwaveError("it is nested too deeply to be read") from None
    except ValueError as problem:
        raise WordwaveError(str(problem)) from None
    if "\\u" in text:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise WordwaveError("it holds half a surrogate pair, which is no character") from None
    return value
