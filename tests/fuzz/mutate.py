"""How values, bytes, JSON, YAML and safetensors are damaged; all by one seeded `Random`."""

from __future__ import annotations

import gzip
import json
import math
import struct
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

NUMBERS = (
    *(0, 1, -1, 2, 3, 7, 255, 65536, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64),
    *(10**30, -(2**63), 0.5, -0.5, 1.5, 1e-300, 1e38, 1e308, -0.0),
    *(math.inf, -math.inf, math.nan),
)
TEXTS = (
    *("", " ", "x", "nan", "inf", "None", "null", "true", "0", "-1", "1e999", "1_000"),
    *("0x10", "１２"),
    *("\x00", "a\x00b", "\n", "a\r\nb", "\t", "\u2028", "\ufeff", "é", "漢字", "🙂", "\u202e"),
    *("[/b]", "[bold]x[/]", "[red", "a[lr=1]", "{", "{0}", "%s", "%", "\\", "'", '"'),
    *("`id`", "\x1b[31m"),
    *("..", "../..", "/", "/dev/null", "~", "C:\\x", "-", "--", "$HOME", "a" * 300, "x" * 20_000),
)
SURROGATE = "\ud800"
"""JSON may hold half a character, which no file in UTF-8 can."""
BOMB = "data:\n- &a [x]\n" + "".join(
    f"- &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in pairwise("abcdefghi")
)
"""Each line has nine times the one before it."""
YAML = (
    *("", "[]", "x", "1", "null", "---\n---\n", "a: [", "a: b: c", "\ta: 1"),
    *("!!python/none ''", "? a\n: b"),
    *("&a [*a]", "a: &a {b: *a}", BOMB, "? [a]\n: 1", "1: 2", "null: 1", "a: 2001-13-01"),
    *("%YAML 9.9\n--- {}",),
    *("x: !!python/object/apply:os.getcwd []", "x: !!bool y", "[" * 3000, "{" * 3000, "- " * 3000),
)
NODES = (
    *("!!bool x", "!!int x", "!!float x", "!!timestamp x", "!!binary x", "!!set {a, b}"),
    *("!!omap [a: 1]",),
    *("2001-01-01", "1e3", "1_0", "0o7", "0b1", ".nan", ".inf", "-.inf", "~", "yes", "'1'"),
    *("*a", "&a 1"),
    *("[classify]", "{a: 1}", "[]", "{}", "<<", "=", "!x 1", "!!str", "|", "9" * 5000, "[" * 200),
)
"""Values that YAML understands in its own way."""


def value(rng: Random) -> Any:
    """Anything that JSON can hold, and the numbers that only Python's does."""
    kind = rng.randrange(10)
    if kind < 4:
        return rng.choice(NUMBERS)
    if kind < 7:
        return rng.choice((*TEXTS, SURROGATE))
    if kind == 7:
        return rng.choice((None, True, False))
    if kind == 8:
        return [value(rng) for _ in range(rng.randrange(4))]
    return {rng.choice(TEXTS): value(rng) for _ in range(rng.randrange(3))}


def damaged(content: bytes, rng: Random) -> tuple[bytes, str]:
    """Bytes, changed anywhere; and what was done."""
    n = len(content)
    at, end = sorted((rng.randrange(n + 1), rng.randrange(n + 1)))
    noise = rng.randbytes(rng.choice((1, 2, 8, 64, 1000)))
    ways: dict[str, Callable[[], bytes]] = {
        "cut": lambda: content[:at],
        "cut at the start": lambda: content[at:],
        "without a part": lambda: content[:at] + content[end:],
        "noise put in": lambda: content[:at] + noise + content[at:],
        "noise in the place of": lambda: content[:at] + noise + content[at + len(noise) :],
        "noise": lambda: noise,
        "empty": lambda: b"",
        "NULs": lambda: b"\x00" * rng.choice((1, n, 5000)),
        "NUL put in": lambda: content[:at] + b"\x00" + content[at:],
        "twice": lambda: content * 2,
        "BOM": lambda: b"\xef\xbb\xbf" + content,
        "two BOMs": lambda: b"\xef\xbb\xbf" * 2 + content,
        "UTF-16": lambda: _encoded(content, "utf-16"),
        "UTF-32": lambda: _encoded(content, "utf-32"),
        "Latin-1": lambda: _encoded(content, "latin-1"),
        "Windows line ends": lambda: content.replace(b"\n", b"\r\n"),
        "Macintosh line ends": lambda: content.replace(b"\n", b"\r"),
        "no line ends": lambda: content.replace(b"\n", b""),
        "blank lines": lambda: content.replace(b"\n", b"\n\n \n"),
        "quotes": lambda: content.replace(b" ", b' "', 1 + rng.randrange(3)),
        "tabs": lambda: content.replace(b" ", b"\t"),
        "commas": lambda: content.replace(b" ", b","),
        "a long line": lambda: content[:at] + b"w" * 2_000_000 + content[at:],
        "many words in a line": lambda: content[:at] + b"w " * 200_000 + content[at:],
        "many lines": lambda: content + b"a b\n" * 5000,
        "odd text put in": lambda: content[:at] + rng.choice(TEXTS).encode() + content[at:],
        "lines shuffled": lambda: b"\n".join(
            rng.sample(content.split(b"\n"), content.count(b"\n") + 1)
        ),
        "packed": lambda: gzip.compress(content, mtime=0),
        "packed and cut": lambda: gzip.compress(content, mtime=0)[:-5],
        "packed and damaged": lambda: gzip.compress(content, mtime=0)[:20] + noise,
        "packed, of zeros": lambda: gzip.compress(b"0" * 300_000_000, 1, mtime=0),
        "one bit": lambda: _flipped(content, at),
    }
    way = rng.choice(sorted(ways))
    return ways[way](), way


def _encoded(content: bytes, encoding: str) -> bytes:
    return content.decode("utf-8", "replace").encode(encoding, "replace")


def _flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes(b ^ 1 for b in content[at : at + 1]) + content[at + 1 :]


def restructured(plain: Any, rng: Random) -> tuple[Any, str]:
    """JSON, changed at one place; and what was done."""
    places = list(_places(plain, ()))
    path = rng.choice(places)
    new = value(rng)
    way = rng.choice(("replace", "replace", "replace", "delete", "rename", "add", "twice", "nest"))
    if not path:
        if way == "nest":
            return [plain], "the whole in a list"
        return (new, f"the whole is {_short(new)}") if rng.random() < 0.2 else (plain, "nothing")
    plain = json.loads(json.dumps(plain))
    inner = plain
    for step in path[:-1]:
        inner = inner[step]
    key, told = path[-1], ".".join(map(str, path))
    if way == "delete":
        del inner[key]
    elif way == "rename" and isinstance(inner, dict):
        inner[rng.choice(TEXTS)] = inner.pop(key)
    elif way == "add" and isinstance(inner, dict):
        inner[rng.choice(TEXTS)] = new
    elif way == "add":
        inner.insert(key, new)
    elif way == "twice" and isinstance(inner[key], (str, list)):
        inner[key] = inner[key] * rng.choice((0, 2, 2, 1000))
    elif way == "nest":
        inner[key] = rng.choice(([inner[key]], {"a": inner[key]}, str(inner[key])))
    else:
        inner[key], way = new, f"is {_short(new)}"
    return plain, f"{told} {way}"


def _places(plain: Any, path: tuple[Any, ...]) -> Any:
    yield path
    if isinstance(plain, (dict, list)):
        inner = plain.items() if isinstance(plain, dict) else enumerate(plain)
        for key, part in list(inner)[:40]:
            yield from _places(part, (*path, key))


def _short(thing: Any) -> str:
    return repr(thing)[:60]


def json_file(content: bytes, rng: Random) -> tuple[bytes, str]:
    """A JSON file with other values."""
    if rng.random() < 0.05:
        return b"[" * 100_000, "100,000 brackets"
    plain, way = restructured(json.loads(content), rng)
    return json.dumps(plain).encode("utf-8", "surrogatepass"), way


def jsonl_file(content: bytes, rng: Random) -> tuple[bytes, str]:
    """One line of several, with other values."""
    lines = content.splitlines() or [b"{}"]
    at = rng.randrange(len(lines))
    extra = rng.random()
    if extra < 0.25:
        new = rng.choice(("{}", "[]", "0", "null", '"x"', "{", "NaN", json.dumps(value(rng))))
        lines.insert(at, new.encode("utf-8", "surrogatepass"))
        return b"\n".join(lines) + b"\n", f"line {at} is {new[:60]}"
    lines[at], way = json_file(lines[at], rng)
    return b"\n".join(lines) + b"\n", f"line {at}: {way}"


def yaml_file(content: bytes, rng: Random) -> tuple[bytes, str]:
    """A YAML file with other values, or with what only YAML has."""
    import yaml

    kind = rng.random()
    if kind < 0.15:
        text = rng.choice(YAML)
        return text.encode(), f"is {text[:60]!r}"
    if kind < 0.25:
        return content + rng.choice(YAML).encode(), "something added"
    if kind < 0.5:
        lines = content.decode().splitlines()
        at = rng.randrange(len(lines))
        node = rng.choice(NODES)
        lines[at] = lines[at].split(":")[0] + ": " + node
        return "\n".join(lines).encode() + b"\n", lines[at][:100]
    plain, way = restructured(yaml.safe_load(content), rng)
    try:
        return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True).encode(), way
    except (ValueError, yaml.YAMLError):
        return content, "nothing"


def tensors_file(path: Path, rng: Random) -> str:
    """A safetensors file with other tensors, another header or other bytes; what was done."""
    kind = rng.random()
    if kind < 0.15:
        content, way = damaged(path.read_bytes(), rng)
        path.write_bytes(content)
        return way
    if kind < 0.4:
        return _header(path, rng)
    return _tensors(path, rng)


def _header(path: Path, rng: Random) -> str:
    content = path.read_bytes()
    (n,) = struct.unpack("<Q", content[:8])
    header, rest = json.loads(content[8 : 8 + n]), content[8 + n :]
    if rng.random() < 0.1:
        length = rng.choice((0, 1, n + 1, n - 1, 2**31, 2**63, 2**64 - 1))
        path.write_bytes(struct.pack("<Q", length) + content[8:])
        return f"header of {length} bytes"
    progress = header.get("__metadata__", {}).get("progress")
    if progress is not None and rng.random() < 0.7:
        if rng.random() < 0.1:
            text, way = damaged(progress.encode(), rng)
            changed = text.decode("utf-8", "replace")
        else:
            plain, way = restructured(json.loads(progress), rng)
            changed = json.dumps(plain)
        header["__metadata__"]["progress"] = changed
        way = f"progress: {way}"
    else:
        header, way = restructured(dict(sorted(header.items())), rng)
    told = json.dumps(header).encode("utf-8", "surrogatepass")
    path.write_bytes(struct.pack("<Q", len(told)) + told + rest)
    return f"header: {way}"


def _tensors(path: Path, rng: Random) -> str:
    import torch
    from safetensors import safe_open
    from safetensors.torch import save_file

    with safe_open(path, framework="pt") as file:
        header = file.metadata()
        tensors = {name: file.get_tensor(name) for name in sorted(file.keys())}
    name = rng.choice(sorted(tensors))
    old, flat = tensors[name], tensors[name].flatten()
    at = rng.randrange(max(1, old.numel()))

    def with_one(number: float) -> torch.Tensor:
        new = flat.clone()
        if new.numel():
            new[at] = number if new.is_floating_point() else int(min(max(number, -9e18), 9e18))
        return new.reshape(old.shape)

    changes = {
        "of one element": lambda: flat[:1].clone(),
        "of one element more": lambda: torch.cat([flat, flat[:1]]),
        "of no element": lambda: flat[:0].clone(),
        "flat": lambda: flat.clone(),
        "transposed": lambda: old.transpose(0, -1).contiguous() if old.dim() else old[None],
        "with one dimension more": lambda: old[None].clone(),
        "a scalar": lambda: torch.tensor(1.0),
        "float64": lambda: old.double(),
        "float16": lambda: old.half(),
        "bfloat16": lambda: old.bfloat16(),
        "int64": lambda: old.long(),
        "bool": lambda: old.bool(),
        "1e38": lambda: with_one(1e38),
        "-1": lambda: with_one(-1),
        "all nan": lambda: old * math.nan if old.is_floating_point() else old - 10,
        "all 1e30": lambda: torch.full_like(old, 1e30 if old.is_floating_point() else 2**40),
        "zeros": lambda: torch.zeros_like(old),
        "long": lambda: torch.zeros(1_000_000),
        "wide": lambda: torch.zeros(*old.shape[:-1], 4096),
    }
    if old.is_floating_point():
        changes |= {"nan": lambda: with_one(math.nan), "inf": lambda: with_one(math.inf)}
    way = rng.choice((*changes, "gone", "renamed", "added", "all gone", "under another's name"))
    if way in changes:
        tensors[name] = changes[way]()
    elif way == "gone":
        del tensors[name]
    elif way == "renamed":
        tensors[rng.choice(("x", "", "optimizer.x", "best.x", "task.x", name + ".x"))] = (
            tensors.pop(name)
        )
    elif way == "added":
        new = rng.choice(("x", "best.x", "optimizer.exp_avg.x", "task.x", "model.x"))
        tensors[new] = old.clone()
    elif way == "all gone":
        prefix = name.split(".")[0]
        tensors = {k: v for k, v in tensors.items() if k.split(".")[0] != prefix}
        way = f"and all of {prefix} gone"
    else:
        tensors[name] = tensors[rng.choice(sorted(tensors))].clone()
    save_file(tensors, path, metadata=header)
    return f"{name} {way}"


STRUCTURED = {
    ".json": json_file,
    ".jsonl": jsonl_file,
    ".journal": jsonl_file,
    ".yaml": yaml_file,
}
"""By how a file's name ends."""


_WRONG = ("of one element more", "of no element", "with one dimension more", "nan", "inf", "gone")


def is_wrong(note: str) -> bool:
    """Whether a file of tensors must be refused for what `change` did to it."""
    is_one = ".safetensors: " in note and "header" not in note and " all of " not in note
    return is_one and note.endswith(_WRONG)


def change(path: Path, rng: Random) -> str:
    """Damage a file in place, as its kind allows; what was done."""
    kind = rng.random()
    if kind < 0.04:
        path.unlink()
        return f"{path.name} gone"
    if kind < 0.06:
        path.unlink()
        path.mkdir()
        return f"{path.name} a folder"
    if kind < 0.08:
        path.unlink()
        target = rng.choice((path.name, "nowhere", "/dev/null", "/dev/zero", ".."))
        path.symlink_to(target)
        return f"{path.name} a link to {target}"
    if path.suffix == ".safetensors":
        return f"{path.name}: {tensors_file(path, rng)}"
    change_it = damaged if kind < 0.25 else STRUCTURED.get(path.suffix, damaged)
    content, way = change_it(path.read_bytes(), rng)
    path.write_bytes(content)
    return f"{path.name}: {way}"
