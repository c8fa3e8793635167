"""`python -m experiments table2 …`: the paper's tables and figures."""

from __future__ import annotations

from experiments.command_line import main
from wordwave.cli import run_guarded


def run() -> None:
    """Run the command in `sys.argv`; a user's mistake ends in one line and exit code 2."""
    run_guarded(lambda words: main(words, "python -m experiments"), "experiments")


if __name__ == "__main__":
    run()
