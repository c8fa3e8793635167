"""The command line: one file a verb, torch imported only by the verb that runs."""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """Run `wordwave VERB …`; a user's mistake ends in one line and exit code 2."""
    try:
        import tyro
    except ModuleNotFoundError:
        sys.exit("wordwave: the command line needs its extra: pip install 'wordwave[cli]'")
    signal.signal(signal.SIGTERM, _interrupt)  # workers are told to stop as by Ctrl-C
    from wordwave.cli.demo import demo
    from wordwave.cli.probe import probe

    try:
        tyro.extras.subcommand_cli_from_dict(
            {"demo": demo, "probe": probe},
            prog="wordwave",
            description="wordwave: every word is a wave.",
        )
    except (ValueError, OSError) as mistake:
        print(f"wordwave: {mistake}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print(
            "wordwave: stopped; what was finished is kept, the same command goes on",
            file=sys.stderr,
        )
        sys.exit(130)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
