"""The command line: one file a verb, imported only when it is asked for."""

from __future__ import annotations

import importlib
import io
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from difflib import get_close_matches

from wordwave.errors import WordwaveError

VERBS = {
    "demo": ("wordwave.cli.demo", "the order laboratory in small, on built-in data"),
    "data list": ("wordwave.cli.data", "the data sets by name, and which of them are here"),
    "data prepare": ("wordwave.cli.data", "download a data set, check it and convert it"),
    "data verify": ("wordwave.cli.data", "check the prepared data sets against their checksums"),
    "train classify": ("wordwave.cli.train", "train a text classifier; the same command goes on"),
    "train translate": ("wordwave.cli.train", "train a translation model"),
    "translate": ("wordwave.cli.translate", "sentences in another language, file or pipe"),
    "train lm": ("wordwave.cli.train", "train a language model of characters, real or of waves"),
    "generate": ("wordwave.cli.generate", "a language model writes on from a prompt"),
    "evaluate": ("wordwave.cli.evaluate", "score a trained model on labelled examples"),
    "predict": ("wordwave.cli.predict", "the classes of texts, as JSON or as a table"),
    "explain": ("wordwave.cli.explain", "why a text has its class, and how order matters to it"),
    "export": ("wordwave.cli.export", "a trained model as ONNX, checked against onnxruntime"),
    "search": ("wordwave.cli.search", "search for good settings, by dev accuracy"),
    "compare": ("wordwave.cli.compare", "encoders × embeddings on one data set, as a table"),
    "probe": ("wordwave.cli.probe", "the order laboratory: what an embedding knows of order"),
}
"""Each verb is a function of the words after it, named in its module like its last word."""
_TOO_LARGE = re.compile(
    "can't allocate memory|out of memory|Storage size calculation|Overflow when"
)
"""How torch says that something is."""


def main() -> None:
    """`wordwave VERB …`"""
    run_guarded(_run, "wordwave")


def run_guarded(run: Callable[[list[str]], None], name: str) -> None:
    """Run a command with the words after its name; a user's mistake ends in one line and exit
    code 2, a bug in its traceback. WORDWAVE_TRACEBACK=1 shows the traceback of mistakes too."""
    signal.signal(signal.SIGTERM, _interrupt)  # workers are told to stop as by Ctrl-C
    threading.excepthook = _thread_ended
    _speak_utf8()
    try:
        run(sys.argv[1:])
    except BrokenPipeError:  # the reader has seen enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt as stop:
        _end(name, str(stop) or "stopped; run the same command again to resume", 130)
    except (WordwaveError, OSError, ModuleNotFoundError, RecursionError) as mistake:
        _end_by_mistake(name, mistake)
    except (MemoryError, OverflowError, RuntimeError, TypeError) as problem:
        if isinstance(problem, (RuntimeError, TypeError)) and not _TOO_LARGE.search(str(problem)):
            raise
        _end_by_mistake(name, WordwaveError("not enough memory on this machine for these sizes"))


def _end_by_mistake(name: str, mistake: Exception) -> None:
    if os.environ.get("WORDWAVE_TRACEBACK"):
        raise mistake
    line = " ".join(str(mistake).split())
    if isinstance(mistake, RecursionError):
        line = "a file is nested too deeply to be read"
    elif isinstance(mistake, ModuleNotFoundError):
        line += "; the command line needs its extra: pip install 'wordwave[cli]'"
    _end(name, line, 2)


def _run(words: list[str]) -> None:
    if not words or words[0] in ("-h", "--help"):
        print(overview())
        return
    if words[0] in ("-V", "--version"):
        from wordwave import __version__

        print(f"wordwave {__version__}")
        return
    begun = [verb for verb in VERBS if verb.split()[0] == words[0]]
    if words[0] not in VERBS and begun and words[1:2] in (["-h"], ["--help"]):
        print(overview(begun))
        return
    verb, rest = _verb(words)
    module = importlib.import_module(VERBS[verb][0])
    function = getattr(module, verb.split()[-1])
    function(rest, prog=f"wordwave {verb}")


def _verb(words: list[str]) -> tuple[str, list[str]]:
    for n in (2, 1):
        verb = " ".join(words[:n])
        if verb in VERBS:
            return verb, words[n:]
    if words[0] == "reproduce":
        raise WordwaveError("the paper's tables are made by `python -m experiments`, see README.md")
    begun = [verb for verb in VERBS if verb.split()[0] == words[0]]
    if begun:
        raise WordwaveError(f"{words[0]!r} goes on with a second word: {', '.join(begun)}")
    near = get_close_matches(words[0], [verb.split()[0] for verb in VERBS], n=1)
    hint = f"did you mean {near[0]!r}?" if near else "wordwave --help lists them"
    raise WordwaveError(f"there is no verb {words[0]!r}; {hint}")


def overview(verbs: Iterable[str] = VERBS) -> str:
    """What `wordwave --help` says."""
    width = max(map(len, VERBS)) + 2
    lines = [f"  {verb:<{width}}{VERBS[verb][1]}" for verb in verbs]
    return "\n".join(
        [
            "wordwave: every word is a wave.",
            "",
            "usage: wordwave VERB …          wordwave VERB --help explains every option",
            "",
            *lines,
            "",
            f"  {'--version':<{width}}say which version this is",
        ]
    )


def _end(name: str, line: str, code: int) -> None:
    print(f"{name}: {line}", file=sys.stderr)
    sys.exit(code)


def _speak_utf8() -> None:
    """Write UTF-8 wherever this runs, as all files that are read and written here are."""
    if sys.stdout is None:  # closed: nobody wants to read it
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=stream.errors)


def _thread_ended(args: threading.ExceptHookArgs) -> None:
    """A thread that writes and cannot is silent: it is asked, and then the mistake is told."""
    if not issubclass(args.exc_type, OSError):
        threading.__excepthook__(args)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
