"""Run all cases, tell the failures by cause, and write each with the command that repeats it."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import shlex
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from tests.fuzz import base as made
from tests.fuzz.cases import AREAS, area_of
from tests.fuzz.judge import failures
from tests.fuzz.run import SETTINGS, Ended, Running, poll, remove, start


def main() -> int:
    options = _options()
    os.environ.update(SETTINGS)
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="wordwave-fuzz-") as name:
        root = Path(name)
        base = _base(root / "base")
        if options.case is not None:
            return _one(options, base, root)
        return _all(options, base, root)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=10_000, help="in process")
    parser.add_argument("--processes", type=int, default=300, help="of them as real processes too")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=Path("out/fuzz"), help="gets failures.jsonl")
    parser.add_argument("--area", choices=[*AREAS], help="only these of the cases")
    parser.add_argument("--case", type=int, help="repeat this one, and tell all of it")
    parser.add_argument("--process", action="store_true", help="repeat it as a real process")
    parser.add_argument("--keep", type=Path, help="repeat it in this folder, which stays")
    return parser.parse_args()


def _import_all(names: list[str]) -> None:
    """Import what cases need before any is forked."""
    for name in names:
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def _base(folder: Path) -> Path:
    """The base, made by a process of its own, so that this one stays as it is."""
    folder.mkdir()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT)
            os.dup2(log, 1)
            os.dup2(log, 2)
            made.make(folder)
            (folder / "modules").write_text(json.dumps([*sys.modules]))
            code = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    if os.waitpid(pid, 0)[1]:
        sys.exit(f"the base could not be made:\n{(folder / 'log').read_text()}")
    _import_all(json.loads((folder / "modules").read_text()))
    return folder


def _one(options: argparse.Namespace, base: Path, root: Path) -> int:
    scratch = options.keep.resolve() if options.keep else root / "case"
    running = start(base, options.seed, options.case, scratch, as_process=options.process)
    while (ended := poll(running)) is None:
        time.sleep(0.005)
    case = ended.case
    print(f"area     {case.area}")
    print(f"damaged  {'; '.join(case.notes) or '-'}")
    print(f"command  {_command(ended)}")
    print(f"ended    {ended.code}, {ended.seconds:.2f} s, {ended.memory / 1e6:.0f} MB")
    print(f"stdout   {ended.out.decode('utf-8', 'replace')[-3000:]}")
    print(f"stderr   {ended.err[-6000:]}")
    wrong = failures(ended)
    for kind, cause in wrong:
        print(f"WRONG    {kind}: {cause}")
    return bool(wrong)


def _all(options: argparse.Namespace, base: Path, root: Path) -> int:
    areas = {n: area_of(options.seed, n) for n in range(options.cases)}
    plan = [(n, False) for n, area in areas.items() if options.area in (None, area)]
    commands = [n for n, _ in plan if areas[n] != "api"]
    step = max(1, len(commands) // max(1, options.processes))
    plan += [(n, True) for n in commands[::step]][: options.processes]
    options.out.mkdir(parents=True, exist_ok=True)
    told = Told(options, len(plan))
    waiting, running = iter(plan), []
    with (options.out / "failures.jsonl").open("w", encoding="utf-8") as file:
        while True:
            while len(running) < options.jobs and (next_one := next(waiting, None)):
                number, as_process = next_one
                scratch = root / f"{number}{'p' if as_process else ''}"
                running.append(start(base, options.seed, number, scratch, as_process=as_process))
            if not running:
                break
            still: list[Running] = []
            for one in running:
                ended = poll(one)
                if ended is None:
                    still.append(one)
                    continue
                for record in told.tell(ended):
                    file.write(json.dumps(record, ensure_ascii=True) + "\n")
                    file.flush()
                remove(one.scratch)
            running = still
            time.sleep(0.001)
    return told.summary()


class Told:
    """What has been found so far."""

    def __init__(self, options: argparse.Namespace, n: int) -> None:
        self.options, self.n, self.began = options, n, time.monotonic()
        self.done: Counter[str] = Counter()
        self.codes: dict[str, Counter[int]] = defaultdict(Counter)
        self.seconds: Counter[str] = Counter()
        self.slowest, self.largest = 0.0, 0
        self.causes: dict[tuple[str, str], list[str]] = defaultdict(list)

    def tell(self, ended: Ended) -> list[dict[str, Any]]:
        case = ended.case
        area = "processes" if ended.as_process else case.area
        self.done[area] += 1
        self.codes[area][ended.code] += 1
        self.seconds[area] += ended.seconds  # type: ignore[assignment]
        self.slowest = max(self.slowest, ended.seconds)
        self.largest = max(self.largest, ended.memory)
        again = f"python -m tests.fuzz --seed {self.options.seed} --case {case.number}"
        again += " --process" if ended.as_process else ""
        records = []
        for kind, cause in failures(ended):
            if not self.causes[kind, cause]:
                print(
                    f"{kind}: {cause}\n    {'; '.join(case.notes)[:200]}\n"
                    f"    {_command(ended)[:300]}\n    {again}",
                    flush=True,
                )
            self.causes[kind, cause].append(again)
            records.append(
                {
                    "kind": kind,
                    "cause": cause,
                    "again": again,
                    "area": case.area,
                    "damaged": case.notes,
                    "command": _command(ended)[:5000],
                    "code": ended.code,
                    "seconds": round(ended.seconds, 2),
                    "memory": ended.memory,
                    "stderr": ended.err[-3000:],
                }
            )
        total = sum(self.done.values())
        if total % 500 == 0:
            print(
                f"… {total:,} of {self.n:,} cases, {time.monotonic() - self.began:.0f} s",
                flush=True,
            )
        return records

    def summary(self) -> int:
        print()
        for area, n in sorted(self.done.items()):
            codes = ", ".join(f"{m:,} × {code}" for code, m in self.codes[area].most_common())
            each = 1000 * self.seconds[area] / n
            print(f"{area:<10}{n:>8,} cases, {each:>6.0f} ms each; exit codes {codes}")
        print(f"slowest {self.slowest:.1f} s, largest {self.largest / 1e9:.2f} GB")
        print(f"seed {self.options.seed}, {time.monotonic() - self.began:.0f} s")
        for (kind, cause), where in sorted(self.causes.items(), key=lambda c: -len(c[1])):
            print(f"{len(where):>5} × {kind}: {cause}\n        {where[0]}")
        n = sum(map(len, self.causes.values()))
        print(f"{n} failures of {len(self.causes)} kinds")
        return bool(n)


def _command(ended: Ended) -> str:
    case = ended.case
    if case.source:
        return case.source
    return "wordwave " + " ".join(shlex.quote(word) for word in case.words)


if __name__ == "__main__":
    sys.exit(main())
