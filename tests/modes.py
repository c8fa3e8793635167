"""The whole test suite as other machines would run it: `make test-modes`.

    python tests/modes.py                  every mode of this machine that has no result yet
    python tests/modes.py scalar order-1   these modes, whether or not they have one
    python tests/modes.py --list           the names

Results are in out/modes/COMMIT, one JUnit file per mode, and those of uncommitted changes in
out/modes/COMMIT-dirty. A table of all is printed at the end.
"""

import argparse
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import torch

ROOT = Path(__file__).parents[1]
IN_PARALLEL = ("-n", "2")

# name: (environment, arguments of pytest)
MODES = {
    "plain": ({}, IN_PARALLEL),
    "scalar": ({"ATEN_CPU_CAPABILITY": "default"}, IN_PARALLEL),
    "avx2": ({"ATEN_CPU_CAPABILITY": "avx2"}, IN_PARALLEL),
    "avx512": ({"ATEN_CPU_CAPABILITY": "avx512"}, IN_PARALLEL),
    "onednn-avx2": ({"ONEDNN_MAX_CPU_ISA": "AVX2"}, IN_PARALLEL),
    "onednn-sse41": ({"ONEDNN_MAX_CPU_ISA": "SSE41"}, IN_PARALLEL),
    "threads-1": ({"OMP_NUM_THREADS": "1"}, IN_PARALLEL),
    "threads-4": ({"OMP_NUM_THREADS": "4"}, IN_PARALLEL),
    "no-xdist": ({}, ("-p", "no:xdist")),
    **{f"order-{i}": ({}, (*IN_PARALLEL, "--random-order", str(i))) for i in (1, 2, 3)},
}


def supported():
    """The modes that this processor can play: without the vector units that it lacks."""
    units = ("avx2", "avx512")
    own = torch.backends.cpu.get_cpu_capability().lower()
    lacking = units[units.index(own) + 1 :] if own in units else units
    return [name for name in MODES if name not in lacking]


def folder_of_results():
    describe = ("git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*")
    return ROOT / "out" / "modes" / subprocess.check_output(describe, text=True).strip()


def run(name, file):
    environment, arguments = MODES[name]
    unfinished = file.with_suffix(".part")
    command = [sys.executable, "-m", "pytest", *arguments, f"--junitxml={unfinished}"]
    print(f"== {name}: {environment or ''} {' '.join(arguments)}", flush=True)
    subprocess.run(command, cwd=ROOT, env={**os.environ, **environment})
    unfinished.replace(file)


def row(name, file):
    """Passed, failed, skipped and seconds of a mode."""
    suite = ET.parse(file).getroot().find("testsuite")
    n, *wrong, skipped = (int(suite.get(k)) for k in ("tests", "failures", "errors", "skipped"))
    return name, n - sum(wrong) - skipped, sum(wrong), skipped, round(float(suite.get("time")))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="MODE", help="all without a result if none")
    parser.add_argument("--list", action="store_true", help="show the modes of this machine")
    options = parser.parse_args()
    modes, folder = supported(), folder_of_results()
    if unknown := set(options.names) - set(modes):
        parser.error(f"{', '.join(sorted(unknown))}: this machine has {', '.join(modes)}")
    if options.list:
        return print(*modes, sep="\n")
    folder.mkdir(parents=True, exist_ok=True)
    files = {name: folder / f"{name}.xml" for name in modes}
    for name in options.names or [name for name in modes if not files[name].exists()]:
        run(name, files[name])
    rows = [row(name, file) for name, file in files.items() if file.exists()]
    for line in [("mode", "passed", "failed", "skipped", "seconds"), *rows]:
        print("{:14}{:>8}{:>8}{:>9}{:>9}".format(*line))
    return any(failed for _, _, failed, _, _ in rows)


if __name__ == "__main__":
    sys.exit(main())
