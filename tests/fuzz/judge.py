"""Was the answer to a case right, and if not, what is the cause?"""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

from tests.fuzz.run import MEMORY, SECONDS, Ended

LONGEST_REFUSAL = 1000
FRAME = re.compile(r'File "([^"]+)", line (\d+),? in (\S+)')
"""In tracebacks of Python and of faulthandler."""
PROGRAMS = ("wordwave: ", "experiments: ")
NOTES = ("unknown characters", "Type ", "Written: ")
"""What may be told on standard error before a refusal."""


def failures(ended: Ended) -> list[tuple[str, str]]:
    """Each thing that is wrong: its kind, and its cause as far as it can be told."""
    found = []
    if ended.hung:
        return [("hang", _where(ended))]
    if ended.memory > MEMORY:
        found.append(("memory", f"{ended.memory / 1e9:.1f} GB; {' '.join(ended.case.words[:2])}"))
    if ended.seconds > SECONDS:
        found.append(("slow", f"{ended.seconds:.0f} s; {' '.join(ended.case.words[:2])}"))
    if ended.code < 0 and not (ended.interrupted and ended.code == -signal.SIGINT):
        name = signal.Signals(-ended.code).name
        return [*found, ("crash", f"{name} {_where(ended)}")]
    if "Traceback (most recent call last)" in ended.err:
        return [*found, ("traceback", _raised(ended.err))]
    # Python dies of an interrupt that comes while it ends.
    if ended.code not in (0, 2, *((130, -signal.SIGINT) if ended.interrupted else ())):
        last = ended.err.strip().splitlines()[-1:] or [""]
        return [*found, ("exit code", f"{ended.code}: {last[0][:100]}")]
    if ended.case.source:
        return found  # Python shows warnings, and an error as it likes
    if ended.code == 2:
        found += _of_refusal(ended)
    elif ended.code == 0 and ended.case.must_refuse:
        file, name, way = re.match(r"(\S+): (\w*)\S* (.*)", ended.case.notes[-1]).groups()
        found.append(("accepted", f"{file} with a tensor of {name} {way}"))
    elif "Warning: " in ended.err:
        found.append(("warning", _warning(ended.err)))
    return found + _of_files(ended)


def _of_refusal(ended: Ended) -> list[tuple[str, str]]:
    lines = [line for line in ended.err.splitlines() if not line.startswith(NOTES)]
    is_box = any(line.startswith("╭") for line in lines)  # tyro explains flags in a box
    if is_box:
        return []
    if not lines:
        return [("refusal", "nothing on standard error")]
    if len(lines) > 1:
        shown = next((x for x in lines if not x.startswith(PROGRAMS)), lines[-1])
        return [("refusal", f"more than one line: {_masked(shown)[:100]}")]
    if not lines[0].startswith(PROGRAMS):
        return [("refusal", f"not ours: {_masked(lines[0])[:100]}")]
    if len(lines[0]) > LONGEST_REFUSAL + max(map(len, ended.case.words), default=0):
        return [("refusal", f"{len(lines[0])} characters: {_masked(lines[0])[:100]}")]
    if len(lines[0].strip()) < len("wordwave: ") + 4:
        return [("refusal", f"says nothing: {lines[0]!r}")]
    return []


def _of_files(ended: Ended) -> list[tuple[str, str]]:
    """JSON must be what every tool can read; no half-written file may stay behind."""
    verb = " ".join(ended.case.words[:1])
    texts = {}
    if ended.code == 0 and (verb == "predict" or "--json" in ended.case.words):
        texts["standard output"] = [r for r in ended.out.splitlines() if r.startswith(b"{")]
    for path in ended.made:
        if path.name.endswith(".new"):
            return [("files", f"left behind: {re.sub('[0-9a-f]{32}', '…', path.name)}")]
        if path.suffix == ".json" and path.is_file() and ended.code == 0:
            texts[path.name] = [path.read_bytes()]
        if path.suffix == ".jsonl" and path.is_file() and ended.code == 0:
            texts[path.name] = path.read_bytes().splitlines()
    for name, pieces in texts.items():
        for piece in pieces:
            try:
                json.loads(piece, parse_constant=_refuse)
            except (ValueError, RecursionError) as problem:
                return [("invalid JSON", f"{verb}, {name}: {problem}"[:150])]
    return []


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _raised(err: str) -> str:
    """The exception and the innermost place of ours that it came from."""
    last = [
        line for line in err.splitlines() if re.match(r"[\w.]+(Error|Exception|Interrupt)", line)
    ]
    said = _masked(last[-1] if last else err.strip().splitlines()[-1])[:110]
    return f"{said} @ {_place(FRAME.findall(err))}"


def _where(ended: Ended) -> str:
    faults = ended.scratch / "faults"
    text = faults.read_text() if faults.exists() else ""
    return f"@ {_place(FRAME.findall(text or ended.err)[::-1])}"


def _place(frames: list[tuple[str, str, str]]) -> str:
    """The last frame that is in wordwave."""
    for file, line, function in reversed(frames):
        if "/wordwave/" in file and "/tests/" not in file:
            return f"{file.rsplit('/wordwave/', 1)[1]}:{line} {function}"
    return f"{Path(frames[-1][0]).name}:{frames[-1][1]}" if frames else "?"


def _warning(err: str) -> str:
    line = next(line for line in err.splitlines() if "Warning: " in line)
    return _masked(line.rsplit("/", 1)[-1])[:120]


def _masked(text: str) -> str:
    """Without what differs from case to case."""
    text = re.sub(r"'[^']*'|\"[^\"]*\"", "'…'", text)
    return re.sub(r"-?\d[\d.e+]*", "N", text)
