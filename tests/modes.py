"""The whole test suite as other machines would run it: `make test-modes`.

    python tests/modes.py                         every mode of this machine, in as few runs as
                                                  possible: those that have no result yet
    python tests/modes.py scalar avx2+order-1     these runs, whether or not they have one
    python tests/modes.py --list                  the runs that cover every mode

A run combines modes that do not exclude each other. Results are in out/modes/COMMIT, one JUnit file
per run, and those of uncommitted changes in out/modes/COMMIT-dirty. A table of all is printed at
the end.
"""

import argparse
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from itertools import zip_longest
from pathlib import Path

import torch

ROOT = Path(__file__).parents[1]
# Modes of which a run has one at most; name: (environment, arguments of pytest)
VECTOR_UNITS = {
    "scalar": ({"ATEN_CPU_CAPABILITY": "default"}, ()),
    "avx2": ({"ATEN_CPU_CAPABILITY": "avx2"}, ()),
    "avx512": ({"ATEN_CPU_CAPABILITY": "avx512"}, ()),
}
ONEDNN = {
    "onednn-sse41": ({"ONEDNN_MAX_CPU_ISA": "SSE41"}, ()),
    "onednn-avx2": ({"ONEDNN_MAX_CPU_ISA": "AVX2"}, ()),
}
THREADS = {f"threads-{n}": ({"OMP_NUM_THREADS": str(n)}, ()) for n in (1, 4)}
ORDERS = {f"order-{i}": ({}, ("--random-order", str(i))) for i in (1, 2, 3)}
PROCESSES = {"no-xdist": ({}, ("-p", "no:xdist"))}
GROUPS = (VECTOR_UNITS, ONEDNN, THREADS, ORDERS, PROCESSES)
MODES = {"plain": ({}, ()), **{name: mode for group in GROUPS for name, mode in group.items()}}


def supported():
    """The modes that this processor can play: without the vector units that it lacks."""
    units = ("avx2", "avx512")
    own = torch.backends.cpu.get_cpu_capability().lower()
    lacking = units[units.index(own) + 1 :] if own in units else units
    return [name for name in MODES if name not in lacking]


def covering(modes):
    """Runs in which every mode occurs; the last of them without pytest-xdist."""
    units, *others, processes = ([name for name in group if name in modes] for group in GROUPS)
    apart = [None] * (max(map(len, (units, *others))) - len(processes)) + processes
    columns = zip_longest(units, *others, apart)
    return ["plain", *("+".join(filter(None, column)) for column in columns)]


def folder_of_results():
    describe = ("git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*")
    return ROOT / "out" / "modes" / subprocess.check_output(describe, text=True).strip()


def run(name, file):
    """Run the tests in modes whose names are joined by "+"."""
    environment, arguments = {}, []
    for mode in name.split("+"):
        environment |= MODES[mode][0]
        arguments += MODES[mode][1]
    if "no:xdist" not in arguments:
        arguments += ("-n", "2")
    unfinished = file.with_suffix(".part")
    command = [sys.executable, "-m", "pytest", *arguments, f"--junitxml={unfinished}"]
    print(f"== {name}: {environment or ''} {' '.join(arguments)}", flush=True)
    subprocess.run(command, cwd=ROOT, env={**os.environ, **environment})
    unfinished.replace(file)


def row(name, file):
    """Passed, failed, skipped and seconds of a run."""
    suite = ET.parse(file).getroot().find("testsuite")
    n, *wrong, skipped = (int(suite.get(k)) for k in ("tests", "failures", "errors", "skipped"))
    return name, n - sum(wrong) - skipped, sum(wrong), skipped, round(float(suite.get("time")))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="RUN", help="by default all without a result")
    parser.add_argument("--list", action="store_true", help="show the runs that cover every mode")
    options = parser.parse_args()
    modes, folder = supported(), folder_of_results()
    if unknown := {mode for name in options.names for mode in name.split("+")} - set(modes):
        parser.error(f"{', '.join(sorted(unknown))}: this machine has {', '.join(modes)}")
    if options.list:
        return print(*covering(modes), sep="\n")
    folder.mkdir(parents=True, exist_ok=True)
    done = {file.stem for file in folder.glob("*.xml")}
    for name in options.names or [name for name in covering(modes) if name not in done]:
        run(name, folder / f"{name}.xml")
    rows = [row(file.stem, file) for file in sorted(folder.glob("*.xml"))]
    width = max(len(name) for name, *_ in rows)
    for line in [("run", "passed", "failed", "skipped", "seconds"), *rows]:
        print("{:{}}{:>8}{:>8}{:>9}{:>9}".format(line[0], width, *line[1:]))
    return any(failed for _, _, failed, _, _ in rows)


if __name__ == "__main__":
    sys.exit(main())
