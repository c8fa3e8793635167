"""Configs as YAML and back, and figures as JSON: bounded, and checked against their types.

These files may come from a stranger. No value of theirs is shown whole in an error.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from reprlib import repr as clipped
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

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
    plain: dict[str, Any] = _plain(asdict(config))
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(v) for key, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, (list, tuple)) else value


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
    known = [f.name for f in fields(kind)]  # type: ignore[arg-type]
    hints = get_type_hints(kind)
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            hint = suggestion(name, known) or f"; known: {', '.join(known)}"
            raise WordwaveError(f"{where} has an unknown key {clipped(name)}{hint}")
        if is_dataclass(hints[name]):
            usual = getattr(default, name) if default is not None else _default(kind, name)
            value = from_dict(hints[name], value, where=f"{where}: {name}", default=usual)
        values[name] = value = _typed(value, hints[name])
        conform(value, hints[name], where=f"{where}: {name}")
    try:
        return kind(**values) if default is None else replace(default, **values)  # type: ignore[type-var]
    except (TypeError, ValueError) as problem:  # a field without a default is missing, or refused
        raise WordwaveError(f"{where}: {problem}") from problem


def flatten(config: Any) -> dict[str, Any]:
    """All settings of a config by the names of their flags, as `to_dict` spells their values.

    Names of parts are left out; the `kind` of a part has the name of the part.
    """
    return flat(to_dict(config))


def flat(plain: dict[str, Any]) -> dict[str, Any]:
    """The same of settings that a file holds."""
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
        raise WordwaveError(
            f"{kind.__name__} has no setting {name!r}{suggestion(name, flatten(kind()))}"
        )
    return found


def _taken(kind: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """The settings that a config has, which are taken out of the given ones."""
    hints, found = get_type_hints(kind), {}
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


def _default(kind: Any, name: str) -> Any:
    """What a field that holds another config is by default, `None` if it must be given."""
    make = next(f.default_factory for f in fields(kind) if f.name == name)
    return None if make is MISSING else make()


def conform(value: Any, hint: Any, *, where: str) -> None:
    """Refuse a value that is not of a type, naming the place.

    Keys that a `TypedDict` does not name may hold anything.
    """
    if is_typeddict(hint):
        if not isinstance(value, dict):
            raise WordwaveError(f"{where} must hold names and values, got {clipped(value)}")
        for name, part in get_type_hints(hint).items():
            if name in value:
                conform(value[name], part, where=f"{where}: {name}")
            elif name in hint.__required_keys__:
                raise WordwaveError(f"{where} has no {name!r}")
    elif not _fits(_typed(value, hint), hint):
        parts = [part for part in get_args(hint) if is_typeddict(part)]
        if parts and isinstance(value, dict):
            conform(value, parts[0], where=where)
            return
        raise WordwaveError(f"{where} must be {_spelled(hint)}, got {clipped(value)}")


def _typed(value: Any, hint: Any) -> Any:
    """A value that was read from YAML, which has no tuples and takes 1e-3 for a string."""
    if get_origin(hint) in (Union, UnionType):
        typed = [_typed(value, part) for part in get_args(hint)]
        fitting = (v for v, part in zip(typed, get_args(hint), strict=True) if _fits(v, part))
        return next(fitting, value)
    if get_origin(hint) is tuple and isinstance(value, (list, tuple)):
        parts = _elements(hint, len(value))
        return tuple(map(_typed, value, parts)) if len(parts) == len(value) else tuple(value)
    if get_origin(hint) is list and isinstance(value, list):
        return [_typed(v, get_args(hint)[0]) for v in value]
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
    if origin is list:
        return isinstance(value, list) and all(_fits(v, get_args(hint)[0]) for v in value)
    if origin is dict:
        kinds = get_args(hint)
        return isinstance(value, dict) and all(
            _fits(k, kinds[0]) and _fits(v, kinds[1]) for k, v in value.items()
        )
    if is_typeddict(hint):
        return False  # `conform` says which part of it is wrong
    if hint is float:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return is_number and not math.isnan(value)
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
    if origin in (list, dict):
        of_what = " to ".join(map(_spelled, get_args(hint)))
        return f"a {'list' if origin is list else 'mapping'} of {of_what}"
    if is_typeddict(hint):
        return "names and values"
    return "null" if hint is NoneType else getattr(hint, "__name__", str(hint))


def dump_yaml(plain: dict[str, Any]) -> str:
    import yaml

    text: str = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
    return text


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
    settings: dict[str, Any] = upgrade_config(read_yaml(path), f"'{path}'")
    return settings


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
