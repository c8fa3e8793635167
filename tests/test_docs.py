"""README, CONTRIBUTING and docs: links lead somewhere, and every command and Python block runs.

A command is first parsed as it stands, then run in a temporary folder by one rule: an option of
`SMALL` that it has takes the small value unless its own is smaller, a grid has the rows and data
sets of `GRID` unless the command names its own, and nothing else of it changes. Files and data sets
that it names are stand-ins of a few rows, and worker processes are played by this one. Commands of
other programs are checked as `OTHERS` says.
"""

import csv
import dataclasses
import gzip
import io
import os
import pickle
import re
import runpy
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tyro
import yaml

from wordwave.workers import InProcess

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", "CONTRIBUTING.md", *sorted(f"docs/{p.name}" for p in ROOT.glob("docs/*.md"))]

SMALL = {
    "dim": "16",
    "hidden_dim": "8",
    "feed_forward_dim": "8",
    "state_dim": "8",
    "n_filters": "4",
    "epochs": "1",
    "steps": "4",
    "max_steps": "4",
    "eval_every": "2",
    "eval_bleu": "4",
    "eval_chars": "400",
    "test_chars": "400",
    "bpe_size": "300",
    "n_train": "40",
    "n_test": "8",
    "lengths": "10-12",
    "highest": "80",
    "length": "20",
    "max_length": "32",
    "beam": "3",
    "folds": "1",
    "seeds": "1",
    "draws": "1",
    "rounds": "1",
    "trials": "2",
    "search_trials": "1",
    "pairs": "12",
}
"""Sizes, as flags of commands and as keys of the recipes that `--recipes` names."""
GRID = {
    "datasets": "mr trec",  # one with folds, one with a test set of its own
    "embeddings": "tpe complex-order rope",
    "encoders": "fasttext transformer",
    "encodings": "nope rope+random wave-attention",
}
"""Of a grid; tests/experiments trains every row of Table 2, tests/lab every position encoding and
every encoder of the laboratory."""

FASTTEXT = """
from types import SimpleNamespace

def train_supervised(*args, **settings):
    predict = lambda texts: ([["__label__0"]] * len(texts), None)
    return SimpleNamespace(predict=predict, words=[])
"""
"""Used where the extra `anchors` is not installed."""
KINDS = ("good", "awful", "so", "why", "who", "where")


@dataclasses.dataclass(frozen=True)
class Command:
    """One command of a page: words after `wordwave` or `python -m experiments`, its stdin."""

    program: str
    words: tuple[str, ...]
    stdin: str = ""
    line: str = dataclasses.field(default="", compare=False)

    def __str__(self):
        return shlex.join((self.program, *self.words))


class Played(InProcess):
    """Worker processes that cost no start: tasks are sent as to a process, and run in this one."""

    def _start(self, task):
        self._run, task = pickle.loads(pickle.dumps((self._run, task)))
        return super()._start(task)


class Parsed(BaseException):
    """Raised in place of running a command, with its options."""


def blocks(page: str) -> Iterator[tuple[str, str]]:
    """The fenced blocks of a page as (language, text), and inline code as ("inline", text)."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for found in re.finditer(r"(?ms)^```(\w*)\n(.*?)^```|(?<!`)`([^`\n]+)`", text):
        yield ("inline", found[3]) if found[3] is not None else (found[1], found[2])


INLINE = re.compile(
    r"wordwave ((train|data) )?\w+ \S|python -m (experiments \w|benchmarks)|python docs"
    r"|make \w|pip install"
)
"""Inline code that is a command, not only the name of one."""
OTHERS = ("make", "pip", "python", ".venv/bin/pre-commit", "source")
"""make: the target exists; pip: the extras exist; python: the module or the file exists."""
NEED_DATA = (("data", "prepare"), ("data", "verify"))
"""Parsed only: they need the real data sets. tests/data runs them with stand-ins of their own."""
SERVES = "explore"
"""Run up to the moment when it would serve its page, unless it writes one to a file. tests/cli
starts it as a process."""
TRAINS_NOTHING = "report"
"""Run as it stands, on a copy of the records in results/."""
LONG = ("table5", "table6")
"""Estimated only: no flag has the size of their models and test sets. tests/experiments trains
their rows in small."""


def steps(page: str) -> Iterator[Command | tuple[str, ...] | str]:
    """What a page does, in order: commands, words of other programs, Python as text."""
    for language, text in blocks(page):
        if language == "python":
            yield text
        elif language == "sh" or (language == "inline" and INLINE.match(text)):
            for line in text.replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=language == "sh")
                if words:
                    yield command(words, line)


def command(words: list[str], line: str) -> Command | tuple[str, ...]:
    stdin = ""
    if "|" in words:
        at = words.index("|")
        source, words = words[:at], words[at + 1 :]
        assert source[0] in ("echo", "tail"), line
        stdin = "a good text\n" if source[0] == "tail" else " ".join(source[1:]) + "\n"
    if ">" in words:
        words = words[: words.index(">")]
    launcher = {"accelerate": "accelerate.commands.launch", "torchrun": "torch.distributed.run"}
    if words[0] in launcher:
        at = words.index("wordwave")
        rest = [word for word in words[1:at] if word != "launch"]
        return Command(shlex.join(["python", "-m", launcher[words[0]], *rest, "wordwave"]),
                       tuple(words[at + 1 :]), line=line)  # fmt: skip
    if words[0] == "wordwave":
        return Command("wordwave", tuple(words[1:]), stdin, line)
    if words[:3] == ["python", "-m", "experiments"]:
        return Command("experiments", tuple(words[3:]), line=line)
    assert words[0] in OTHERS, f"nothing checks {line!r}"
    return tuple(words)


def ours(page: str) -> list[Command]:
    return list(dict.fromkeys(step for step in steps(page) if isinstance(step, Command)))


def experiments() -> list[Command]:
    """The commands of experiments on all pages, one of those that differ only in sizes."""
    every = (one for page in PAGES for one in ours(page) if one.program == "experiments")
    return list({without(one.words, SMALL): one for one in every}.values())


def call(program: str, words: tuple[str, ...], stdin: str = "") -> SimpleNamespace:
    """Run `wordwave` or `experiments` in this process: exit code, stdout, stderr."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    before = sys.argv, sys.stdin, signal.getsignal(signal.SIGTERM), threading.excepthook
    sys.argv, sys.stdin = [program, *words], io.TextIOWrapper(io.BytesIO(stdin.encode()))
    try:
        with redirect_stdout(out), redirect_stderr(err):
            runpy.run_module(program, run_name="__main__")
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.argv, sys.stdin, _, threading.excepthook = before
        signal.signal(signal.SIGTERM, before[2])
    return SimpleNamespace(code=code, out=out.getvalue(), err=err.getvalue())


def options(one: Command, monkeypatch) -> object:
    """The options that a command's flags are parsed to, without running it."""

    def parse(*args, **kwargs):
        raise Parsed(real(*args, **kwargs))

    real = tyro.cli
    program = one.program if one.program == "experiments" else "wordwave"
    with monkeypatch.context() as patch:
        patch.setattr(tyro, "cli", parse)
        try:
            said = call(program, one.words)
        except Parsed as parsed:
            return parsed.args[0]
    raise AssertionError(f"{one.line}\n{said.err}")


def settings_of(config: object) -> dict[str, object]:
    """All settings of a dataclass and of those nested in it, by name."""
    found: dict[str, object] = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        found |= settings_of(value) if dataclasses.is_dataclass(value) else {field.name: value}
    return found


def without(words: Sequence[str], names: Iterable[str]) -> tuple[str, ...]:
    """The words of a command without these flags and their values."""
    flags, kept, is_kept = {"--" + name.replace("_", "-") for name in names}, [], True
    for word in words:
        is_kept = word not in flags if word.startswith("--") else is_kept
        kept += [word] if is_kept else []
    return tuple(kept)


def reduced(one: Command, config: object, recipes: Path) -> tuple[str, ...]:
    """The words of a command with its sizes replaced; `config` is what they are parsed to."""
    small: dict[str, str] = {}
    settings = settings_of(config)
    is_suite = settings.get("suite") == "encodings"
    grid = {"encodings"} if is_suite else GRID.keys() - {"encodings"}
    for name, value in settings.items():
        if name in SMALL and not (isinstance(value, int) and value <= float(SMALL[name])):
            small[name] = SMALL[name]
        elif name in grid and f"--{name}" not in one.words:
            small[name] = GRID[name]
        elif name == "recipes":
            small[name] = str(recipes)
    flags = [("--" + name.replace("_", "-"), *value.split()) for name, value in small.items()]
    return without(one.words, small) + tuple(word for flag in flags for word in flag)


def write_rows(path: Path, n: int, n_classes: int, start: int = 0) -> None:
    rows = (f"{i % n_classes}\tthe {KINDS[i % n_classes]} film number {i % 11}" for i in range(n))
    with gzip.open(path, "wt", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{row} {start + i % 7}\n" for i, row in enumerate(rows))


def write_table(path: Path, n: int) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = ((f"a {KINDS[i % 2]} film number {i % 9}", KINDS[i % 2]) for i in range(n))
        csv.writer(file).writerows([("text", "label"), *rows])


def write_pairs(path: Path, n: int, label: str = "label", kinds: Sequence[str] = KINDS) -> None:
    """Rows of sentences beside themselves and beside their reversals."""
    names = "question other duplicate" if label == "duplicate" else f"text_a text_b {label}"
    separator = "," if path.suffix == ".csv" else "\t"
    rows = (
        (f"dog{i} bites man{i}", f"man{i} bites dog{i}" if i % 2 else f"dog{i} bites man{i}")
        for i in range(n)
    )
    lines = [names.split(), *((*row, kinds[i % 2]) for i, row in enumerate(rows))]
    text = "".join(separator.join(line) + "\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


@pytest.fixture(scope="session")
def home(tmp_path_factory) -> Path:
    """Stand-ins for the data sets by name, the pretrained vectors and fastText's package."""
    home = tmp_path_factory.mktemp("home")
    for name in ("mr", "subj", "cr", "mpqa"):
        write_rows(home / f"{name}.tsv.gz", 80, 2)
    for name, n in (("train", 80), ("sentences.train", 40), ("dev", 20), ("test", 20)):
        write_rows(home / f"sst2.{name}.tsv.gz", n, 2)
    write_rows(home / "trec.train.tsv.gz", 120, 6)
    write_rows(home / "trec.test.tsv.gz", 24, 6)
    for part in ("train", "test"):
        write_rows(home / f"imdb.{part}.tsv.gz", 40, 2)
    for name in ("multi30k", "text8", "vectors", "stand-ins", "pairs"):
        (home / name).mkdir()
    for name in ("paws-wiki.dev", "paws-wiki.test", "paws-qqp.train"):
        write_pairs(home / f"pairs/{name}.tsv.gz", 40, kinds="01")
    for name in ("sts-b.train", "sts-b.dev", "sts-b.test"):
        write_pairs(home / f"pairs/{name}.tsv.gz", 40, "score", ("0.5", "4.8"))
    for part, n in (("train", 40), ("val", 8), ("test_2016_flickr", 8)):
        for language, text in (("en", "A dog {} runs.\n"), ("de", "Ein Hund {} rennt.\n")):
            with gzip.open(home / "multi30k" / f"{part}.{language}.gz", "wt") as file:
                file.writelines(text.format(i) for i in range(n))
    sentence = b"the quick brown fox jumps over the lazy dog again "
    (home / "text8/text8").write_bytes(sentence * 2_000_000)
    vectors = np.ones((len(KINDS), int(SMALL["dim"])), "float32")
    np.save(home / "vectors/googlenews300.npy", vectors)
    (home / "vectors/googlenews300.words.txt").write_text("\n".join(KINDS) + "\n")
    if not find_spec("fasttext"):
        (home / "stand-ins/fasttext.py").write_text(FASTTEXT)
    recipes = home / "recipes"
    recipes.mkdir()
    for path in (ROOT / "src/wordwave/recipes").glob("*.yaml"):
        (recipes / path.name).write_text(yaml.safe_dump(smaller(yaml.safe_load(path.read_text()))))
    (recipes / "bag.yaml").write_text(f"training: {{epochs: {SMALL['epochs']}}}\n")
    return home


def smaller(recipe: object) -> object:
    if not isinstance(recipe, dict):
        return recipe
    return {key: int(SMALL[key]) if key in SMALL else smaller(recipe[key]) for key in recipe}


@pytest.fixture
def folder(tmp_path, home, encoder_folder, monkeypatch) -> Path:
    """A working folder with the files that the pages name."""
    monkeypatch.setenv("WORDWAVE_DATA", str(home))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(home / "stand-ins"), *sys.path]))
    monkeypatch.syspath_prepend(home / "stand-ins")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    for module in ("wordwave.workers", "wordwave.cli.search"):
        monkeypatch.setattr(f"{module}.ProcessWorkers", Played)
    monkeypatch.chdir(tmp_path)
    for name in ("reviews.csv", "more.csv", "new.csv"):
        write_table(tmp_path / name, 80)
    for word in KINDS[:2]:
        (tmp_path / f"{word}.txt").write_text(f"{word}\n{word} film\n")
    for name in ("pairs.tsv", "more.tsv", "new.tsv"):
        write_pairs(tmp_path / name, 40)
    write_pairs(tmp_path / "questions.csv", 40, "duplicate")
    for name in ("rated.tsv", "more-rated.tsv"):
        write_pairs(tmp_path / name, 40, "rating", ("1", "4.5"))
    rows = np.random.default_rng(0).normal(size=(60, 24)).astype("float16")
    (tmp_path / "corpus.txt").write_text("".join(f"A dog{i} bites a man.\n" for i in range(60)))
    np.save(tmp_path / "teacher.npy", rows)
    for name in ("sentences.txt", "test.en", "test.de", "letter.txt"):
        (tmp_path / name).write_text("Turn on the light.\nThe door is open.\n" * 4)
    shutil.copytree(encoder_folder, tmp_path / "my-encoder")
    # Records are shown by commands that train nothing; what has full size is not continued.
    ignored = shutil.ignore_patterns("searches", "runs")
    shutil.copytree(ROOT / "results", tmp_path / "results", ignore=ignored)
    return tmp_path


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", text):
        if target.startswith("http"):
            continue
        path = (ROOT / page).parent / target if target else ROOT / page
        assert path.exists(), target
        if anchor:
            assert anchor in anchors(path), f"{target}#{anchor}"


@cache
def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", PAGES)
def test_every_command_is_parsed_as_it_stands(page, folder, monkeypatch):
    tasks = {"reviews": "classify", "pairs": "match", "rated": "match"} | {"sentences": "embed"}
    for run, task in (tasks | {"de": "translate", "help": "lm"}).items():
        Path("runs", run).mkdir(parents=True)
        Path("runs", run, "config.yaml").write_text(f"task: {task}\n")
    Path("out/search").mkdir(parents=True)
    Path("out/search/best.yaml").write_text("data: {data: reviews.csv}\n")
    for one in ours(page):
        options(one, monkeypatch)


@pytest.mark.parametrize("page", PAGES)
def test_commands_of_other_programs_exist(page):
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    project = (ROOT / "pyproject.toml").read_text()
    for words in steps(page):
        if not isinstance(words, tuple):
            continue
        if words[0] == "make":
            assert words[1] in targets, words
        elif words[0] == "pip":
            for extra in re.findall(r"\[([\w,]+)\]", " ".join(words)):
                for name in extra.split(","):
                    assert re.search(rf"^{name} = \[", project, re.MULTILINE), words
        elif words[:2] == ("python", "-m"):
            assert find_spec(words[2]), words
        elif words[0] == "python":
            assert (ROOT / words[1]).is_file(), words


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs_from_top_to_bottom(page, folder, home, monkeypatch):
    done, scope = set(), {}
    for step in steps(page):
        if isinstance(step, str):
            exec(compile(step, page, "exec"), scope)
        elif isinstance(step, Command) and step.program != "experiments" and step not in done:
            run(step, home, monkeypatch)
            done.add(step)


@pytest.mark.slow
@pytest.mark.parametrize("one", experiments(), ids=str)
def test_an_experiment_runs(one, folder, home, monkeypatch):
    run(one, home, monkeypatch)


def run(one: Command, home: Path, monkeypatch) -> None:
    """Run a command with small sizes; it must succeed."""
    if one.words[:2] in NEED_DATA:
        return
    if one.words[0] == SERVES and "--html" not in one.words:
        monkeypatch.setattr("wordwave.explore.server.serve", lambda session, **options: None)
    config = options(one, monkeypatch)
    words = one.words if one.words[0] == TRAINS_NOTHING else reduced(one, config, home / "recipes")
    if one.words[0] in LONG and "--estimate-only" not in words:
        words += ("--estimate-only",)
    if one.program in ("wordwave", "experiments"):
        said = call(one.program, words, one.stdin)
    else:
        launched = [sys.executable, *shlex.split(one.program)[1:], *words]
        ended = subprocess.run(launched, capture_output=True, text=True, timeout=300)
        said = SimpleNamespace(code=ended.returncode, out=ended.stdout, err=ended.stderr)
    assert said.code == 0, f"{one.line}\nrun as {shlex.join(words)}\n{said.out}\n{said.err}"
