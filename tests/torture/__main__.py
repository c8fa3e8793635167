"""`python -m tests.torture`: kill and starve every command that resumes; exit 1 if any result
differs from that of an undisturbed run. Linux only; running it again continues."""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from hashlib import sha256
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from tests.torture.commands import commands
from tests.torture.processes import FileSizeLimit, FullDisk, stopping
from tests.torture.rounds import Record, Reference, disk_round, kill_round, reference

ROOT = Path(__file__).parents[2]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="kills in all, at least")
    parser.add_argument("--full-disk", type=int, default=50, help="full-disk failures in all")
    parser.add_argument("--seed", type=int, default=0, help="of all that is drawn")
    parser.add_argument("--jobs", type=int, default=2, help="rounds at once")
    parser.add_argument("--only", default="", help="commands whose name starts so")
    parser.add_argument(
        "--no-mount",
        action="store_true",
        help="limit the size of files instead of mounting a small disk; so it is without root",
    )
    parser.add_argument(
        "--output", type=Path, help="folder for the summary; by default only in out/torture"
    )
    return parser.parse_args()


def fingerprint() -> str:
    """Of the program: results of another one do not count."""
    found = find_spec("wordwave")
    assert found is not None and found.origin is not None
    digest = sha256(version("torch").encode())
    for folder in (Path(found.origin).parent, Path(__file__).parent):
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


class Suite:
    """All rounds of a seed, each recorded as it ends."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        about = (fingerprint(), str(options.seed), *options.only.split())
        self.place = ROOT / "out" / "torture" / "-".join(about)
        chosen = commands(self.place / "data").items()
        self.commands = {k: c for k, c in chosen if k.startswith(options.only)}
        self.disk = FileSizeLimit if options.no_mount or os.geteuid() != 0 else FullDisk
        self.path = self.place / "records.jsonl"
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        self.records: list[Record] = [json.loads(line) for line in lines if line.endswith("}")]
        self.references: dict[str, Reference] = {}
        self.began, self.n_before = time.monotonic(), self.n_done

    @property
    def n_done(self) -> int:
        options = self.options
        return min(count(self.records, "kills"), options.kills) + min(
            count(self.records, "full_disks"), options.full_disk
        )

    def run(self) -> None:
        with ThreadPoolExecutor(self.options.jobs) as pool:
            try:
                found = pool.map(self._reference, self.commands)
                self.references = dict(zip(self.commands, found, strict=True))
                self.began = time.monotonic()
                self._run_rounds(pool, "kills", self.options.kills, self._kill)
                self._run_rounds(pool, "full_disks", self.options.full_disk, self._starve)
            except BaseException:
                stopping.set()
                pool.shutdown(cancel_futures=True)
                raise

    def _run_rounds(
        self, pool: ThreadPoolExecutor, what: str, wanted: int, run: Callable[[int], Record]
    ) -> None:
        """Rounds 0, 1, … that are not recorded yet, until there are as many events as wanted."""
        there = {r["round"] for r in self.records if what in r}
        numbers = (n for n in range(20 * wanted) if n not in there)
        under_way: set[Future[Record]] = set()
        while count(self.records, what) < wanted or under_way:
            while count(self.records, what) < wanted and len(under_way) < self.options.jobs:
                under_way.add(pool.submit(run, next(numbers)))
            ended, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            for future in ended:
                self._keep(future.result())

    def _reference(self, name: str) -> Reference:
        place = self.place / "reference" / name.replace(" ", "-")
        found = reference(self.commands[name], place)
        say(f"undisturbed: {name}, {found.seconds:.1f} s, {len(found.events)} kinds of files")
        return found

    def _kill(self, number: int) -> Record:
        return self._round("kill", number, kill_round)

    def _starve(self, number: int) -> Record:
        return self._round("disk", number, lambda *about: disk_round(*about, self.disk))

    def _round(self, kind: str, number: int, run: Callable[..., Record]) -> Record:
        name = list(self.commands)[number % len(self.commands)]
        place = self.place / "rounds" / f"{kind}-{number}"
        rng = random.Random(f"{self.options.seed} {kind} {number}")
        began = time.monotonic()
        found = run(self.commands[name], self.references[name], place, rng)
        if not found["failure"]:
            shutil.rmtree(place, ignore_errors=True)
        record = {"round": number, "command": name, **found}
        record["seconds"] = round(time.monotonic() - began, 1)
        without_place: Record = json.loads(json.dumps(record).replace(str(place), "…"))
        return without_place

    def _keep(self, record: Record) -> None:
        self.records.append(record)
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")
        total = self.options.kills + self.options.full_disk
        spent = time.monotonic() - self.began
        left = spent / max(self.n_done - self.n_before, 1) * (total - self.n_done)
        say(f"{self.n_done:3}/{total}  {clock(spent)}, {clock(left)} left  {told(record)}")

    def summary(self) -> Iterator[str]:
        """The table, in Markdown."""
        yield "| command | undisturbed | kills | of all processes | of one | when a file appears "
        yield "| full disks | rounds | same result |\n"
        yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|\n"
        for name in (*self.commands, ""):
            mine = [r for r in self.records if name in ("", r["command"])]
            kills = [kill for r in mine for kill in r.get("kills", ())]
            everyone = sum(kill["which"] == "all" for kill in kills)
            by_file = sum(kill["n"] > 0 for kill in kills)
            seconds = f"{self.references[name].seconds:.1f} s" if name else ""
            figures = (seconds, len(kills), everyone, len(kills) - everyone, by_file)
            disks, same = count(mine, "full_disks"), sum(not r["failure"] for r in mine)
            row = (name or "all", *figures, disks, len(mine), same)
            yield "| " + " | ".join(map(str, row)) + " |\n"
        limit = {FullDisk: "small tmpfs mounts", FileSizeLimit: "limits of file size"}[self.disk]
        yield f"\nSeed {self.options.seed}; full disks by {limit}; {platform.machine()}, Python "
        yield f"{platform.python_version()}, torch {version('torch')}, one thread.\n"


def count(records: list[Record], what: str) -> int:
    """How many kills or full disks there were."""
    found = [record.get(what, 0) for record in records]
    return sum(n if isinstance(n, int) else len(n) for n in found)


def by_round(record: Record) -> tuple[bool, int]:
    return "kills" not in record, record["round"]


def told(record: Record) -> str:
    """A round in one line."""
    if "kills" in record:
        kills = [
            f"{k['which']} at {k['at']}" + f" #{k['n']}" * (k["n"] > 0) for k in record["kills"]
        ]
        what = "killed " + (", ".join(kills) or "too late")
    else:
        full = "full" if record["full_disks"] else "not full"
        what = f"{record['free']:,} bytes free after {record['after']} s: {full}"
    return f"{record['command']}: {what}; {record['failure'] or 'same result'}"


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> int:
    options = arguments()
    suite = Suite(options)
    try:
        suite.run()
    except KeyboardInterrupt:
        say("stopped; run the same command again to continue")
        return 130
    table = "".join(suite.summary())
    print(table)
    for folder in filter(None, (suite.place, options.output)):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "torture.md").write_text(table)
        lines = [json.dumps(record) + "\n" for record in sorted(suite.records, key=by_round)]
        (folder / "torture.jsonl").write_text("".join(lines))
    failed = [record for record in suite.records if record["failure"]]
    for record in failed:
        kind = "kill" if "kills" in record else "disk"
        kept = (suite.place / "rounds" / f"{kind}-{record['round']}").relative_to(ROOT)
        say(f"FAILED {told(record)} ({kept})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
