"""The command line: one file per verb, imported only when it is used."""

from __future__ import annotations

import importlib
import io
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from typing import NoReturn

from wordwave import __version__
from wordwave.errors import WordwaveError, missing_extra, suggestion

VERBS = {
    "demo": "word order in sums of words, on generated and on real sentences",
    "data list": "list the known data sets and which of them are here",
    "data prepare": "download a data set, check it and convert it",
    "data verify": "check the prepared data sets against their checksums",
    "train classify": "train a text classifier",
    "train match": "train a matcher of sentence pairs",
    "train embed": "train a sentence encoder",
    "train translate": "train a translation model",
    "train lm": "train a character-level language model",
    "evaluate": "score a trained model of any task",
    "predict": "classify texts, as JSON or as a table",
    "encode": "the vectors of texts, as .npy or as JSON lines",
    "translate": "translate sentences from a file or a pipe",
    "generate": "generate text from a prompt",
    "explain": "explain a prediction, and how it depends on word order",
    "explore": "see the waves of a classifier in the browser, or as one HTML page",
    "export": "export a classifier or matcher to ONNX, checked with onnxruntime",
    "search": "search hyperparameters by validation accuracy",
    "compare": "compare encoders × embeddings on one data set",
    "probe": "the order laboratory: what an embedding encodes of order",
}
"""Each verb is a function of the arguments after it: its last word, in the module of its first."""
_OUT_OF_MEMORY = re.compile(
    "can't allocate memory|out of memory|Storage size calculation|Overflow when"
)
"""Messages of torch, which raises `RuntimeError` or `TypeError`."""


def main() -> None:
    """`wordwave VERB …`"""
    run_guarded(_run, "wordwave")


def run_guarded(run: Callable[[list[str]], None], name: str) -> None:
    """Run a command with the arguments after its name.

    A user mistake (`WordwaveError`), an error of the system (`OSError`, too little memory) and a
    missing extra end in one line and exit code 2; anything else is a bug and keeps its traceback.
    WORDWAVE_TRACEBACK=1 shows all tracebacks.
    """
    signal.signal(signal.SIGTERM, _interrupt)  # as Ctrl-C, also in worker processes
    threading.excepthook = _excepthook
    _use_utf8()
    try:
        run(sys.argv[1:])
    except BrokenPipeError:  # the reader has ended, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt as stop:
        _exit(name, str(stop) or "stopped; run the same command again to resume", 130)
    except Exception as problem:
        line = _one_line(problem)
        if line is None or os.environ.get("WORDWAVE_TRACEBACK", "0") != "0":
            raise
        _exit(name, line, 2)


def _one_line(problem: Exception) -> str | None:
    """What to tell the user; `None` for a bug."""
    if isinstance(problem, ModuleNotFoundError):
        return missing_extra(problem, prefer="cli")
    if isinstance(problem, (WordwaveError, OSError)):
        return " ".join(str(problem).split())
    if isinstance(problem, MemoryError) or (
        isinstance(problem, (RuntimeError, TypeError)) and _OUT_OF_MEMORY.search(str(problem))
    ):
        return "not enough memory on this machine for these sizes"
    return None


def _run(words: list[str]) -> None:
    first, two = words[0] if words else "--help", " ".join(words[:2])
    begun = [verb for verb in VERBS if verb.split()[0] == first]
    if first in ("-h", "--help"):
        print(overview())
    elif first in ("-V", "--version"):
        print(f"wordwave {__version__}")
    elif first in VERBS or two in VERBS:
        verb = first if first in VERBS else two
        function = getattr(importlib.import_module(f"wordwave.cli.{first}"), verb.split()[-1])
        function(words[len(verb.split()) :], prog=f"wordwave {verb}")
    elif begun and words[1:2] in (["-h"], ["--help"]):
        print(overview(begun))
    elif begun:
        raise WordwaveError(f"{first!r} needs a second word: {', '.join(begun)}")
    elif first == "reproduce":
        raise WordwaveError("the paper's tables are made by `python -m experiments`, see README.md")
    else:
        hint = suggestion(first, (verb.split()[0] for verb in VERBS))
        raise WordwaveError(f"there is no verb {first!r}{hint or '; see wordwave --help'}")


def overview(verbs: Iterable[str] = VERBS) -> str:
    """The text of `wordwave --help`."""
    width = max(map(len, VERBS)) + 2
    lines = [
        "wordwave: every word is a wave.",
        "",
        "usage: wordwave VERB …          wordwave VERB --help explains every option",
        "",
        *(f"  {verb:<{width}}{VERBS[verb]}" for verb in verbs),
        "",
        f"  {'--version':<{width}}print the version",
    ]
    return "\n".join(lines)


def _exit(name: str, line: str, code: int) -> NoReturn:
    print(f"{name}: {line}", file=sys.stderr)
    sys.exit(code)


def _use_utf8() -> None:
    """Write UTF-8 on all platforms, like all files that are read and written here."""
    if sys.stdout is None:  # closed
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=stream.errors)


def _excepthook(args: threading.ExceptHookArgs) -> None:
    """A thread that cannot write is silent; its error is reported by the main thread."""
    if not issubclass(args.exc_type, OSError):
        threading.__excepthook__(args)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
