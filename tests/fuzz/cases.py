"""What is called, with what: each case is made by its number, and the same whenever it is made."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from random import Random
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from tests.fuzz import base as made
from tests.fuzz import mutate
from tests.fuzz.api import source


@dataclass
class Case:
    """A command, or a piece of Python, and what surrounds it."""

    number: int
    area: str
    words: list[str] = field(default_factory=list)
    """Of the command, after `wordwave`; `experiments` first for `python -m experiments`."""
    source: str = ""
    """Python, in the place of a command."""
    stdin: str = ""
    """Bytes, as Latin-1."""
    fifos: dict[str, str] = field(default_factory=dict)
    """What is written into each, as Latin-1."""
    notes: list[str] = field(default_factory=list)
    """What was damaged, and how."""
    patience: float | None = None
    """Seconds after which it is interrupted: what is asked for may take long."""
    must_refuse: bool = False
    """Whether success would be wrong: it was made of something that cannot be right."""

    def plain(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def command(self) -> list[str]:
        """The name of the command and its words."""
        return self.words if self.words[:1] == ["experiments"] else ["wordwave", *self.words]


def area_of(seed: int, number: int) -> str:
    rng = Random(f"{seed}:{number}")
    return rng.choices([*AREAS], [weight for _, weight in AREAS.values()])[0]


def build(base: Path, seed: int, number: int, folder: Path) -> Case:
    """Make a case, with its files in its folder."""
    rng = Random(f"{seed}:{number}")
    area = rng.choices([*AREAS], [weight for _, weight in AREAS.values()])[0]
    shutil.copytree(base / "data", folder, dirs_exist_ok=True)
    case = Case(number, area)
    AREAS[area][0](case, rng, base, folder)
    case.words = [word.replace("\x00", "") for word in case.words]
    return case


CLASSIFIERS = ("fasttext", "bpe", "cnn", "lstm", "transformer")
TRANSLATORS = ("translator", "aed")
LMS = ("lm", "byte-lm")
MATCHERS = ("matcher", "rater")
ENCODERS = ("encoder", "pupil")
PAIR = ("dog1 bites man2", "man2 bites unknown")
TEXT = "good w1 w2 unknown"
QUICK = ("--dim", "4", "--hidden-dim", "4", "--epochs", "1", "--precision", "fp32")
"""The usual settings of a classifier, in small."""


def _uses(name: str, run: str, rng: Random) -> list[str]:
    """A command that reads a run."""
    resume = [*made.RUNS[name][:2]]
    resume += ["--config", f"{run}/config.yaml", "--out", run]
    on_classifier = [
        ["predict", run, TEXT],
        ["predict", run, "texts.txt"],
        ["predict", run, "table.csv", "--out", "o.csv"],
        ["encode", run, "texts.txt", "--out", "o.npy"],
        ["evaluate", run],
        ["evaluate", run, "--data", "table.tsv", "--json", "o.json"],
        ["explain", run, TEXT, "--shuffles", "3", "--json", "o.json"],
        resume,
        resume,
    ]
    on_translator = [
        ["translate", run, TEXT, "--beam", "2", "--n-best", "2"],
        ["translate", run, "texts.txt", "--beam", "1"],
        ["evaluate", run, "--beam", "1", "--json", "o.json"],
        resume,
    ]
    on_lm = [
        ["generate", run, "--length", "8"],
        ["generate", run, "--length", "8", "--prompt", "the q", "--temperature", "0"],
        ["evaluate", run, "--json", "o.json"],
        ["evaluate", run, "--data", "texts.txt", "--json", "o.json"],
        resume,
    ]
    on_matcher = [
        ["predict", run, *PAIR],
        ["predict", run, "pairs.tsv", "--out", "o.csv"],
        ["encode", run, "texts.txt", "--out", "o.npy"],
        ["evaluate", run, "pairs.tsv" if name == "matcher" else "rated.tsv", "--json", "o.json"],
        ["explain", run, *PAIR, "--json", "o.json"],
        resume,
        resume,
    ]
    on_encoder = [
        ["encode", run, "texts.txt", "--out", "o.npy"],
        ["encode", run, "pairs.tsv", "--text", "text_a"],
        ["evaluate", run, "pairs.tsv", "--json", "o.json"],
        ["evaluate", run, "rated.tsv", "--similarity", "score", "--order-weight", "0.5"],
        resume,
        resume,
    ]
    if rng.random() < 0.01 and name in (*CLASSIFIERS, *MATCHERS):
        return ["export", run]
    if rng.random() < 0.02:
        return rng.choice(
            (
                ["explain", run, TEXT, "--picture", "o.png"],
                ["translate", run, TEXT, "--picture", "o.png"],
                ["evaluate", run, "--picture", "o.svg"],
            )
        )
    every = on_classifier + on_translator + on_lm + on_matcher + on_encoder
    uses = zip(
        (CLASSIFIERS, TRANSLATORS, LMS, MATCHERS, ENCODERS),
        (on_classifier, on_translator, on_lm, on_matcher, on_encoder),
        strict=True,
    )
    own = next(commands for names, commands in uses if name in names)
    return rng.choice(every if rng.random() < 0.06 else own)


def _take(base: Path, folder: Path, what: str, name: str) -> str:
    shutil.copytree(base / what / name, folder / "run")
    return "run"


def run_folders(case: Case, rng: Random, base: Path, folder: Path) -> None:
    """A finished run with a damaged file."""
    name = rng.choice([*made.RUNS])
    run = _take(base, folder, "runs", name)
    files = sorted(p for p in (folder / run).rglob("*") if p.is_file())
    case.words = _uses(name, run, rng)
    if name in CLASSIFIERS and rng.random() < 0.05:
        case.words = []
        case.source = f"WaveClassifier.load('{run}').predict(['{TEXT}'])"
    elif name in ENCODERS and rng.random() < 0.2:
        case.words = []
        case.source = f"SentenceEncoder.from_pretrained('{run}').similarity(['{TEXT}'], ['w1'])"
    important = [p for p in files if p.suffix in (".json", ".yaml", ".safetensors")]
    case.notes = [name]
    for path in rng.sample(important if rng.random() < 0.9 else files, rng.choice((1, 1, 1, 2))):
        case.notes.append(mutate.change(path, rng))
    case.patience = 8.0 if "train" in case.words[:1] else None
    case.must_refuse = case.words[:1] != ["train"] and any(map(mutate.is_wrong, case.notes))


def states(case: Case, rng: Random, base: Path, folder: Path) -> None:
    """A training under way whose state, journal or config is damaged."""
    name = rng.choice([*made.RUNS])
    run = _take(base, folder, "states", name)
    state = folder / run / "state" / "state.safetensors"
    files = sorted(p for p in (folder / run).rglob("*") if p.is_file())
    path = state if rng.random() < 0.75 else rng.choice(files)
    case.notes = [name, mutate.change(path, rng)]
    others = ("--config", f"{run}/config.yaml", "--out", run)
    if "config.yaml" in case.notes[1] and rng.random() < 0.8:
        others = (*made.RUNS[name][2:], "--out", run)
    case.words = [*made.RUNS[name][:2], *others]
    case.must_refuse = path == state and mutate.is_wrong(case.notes[1])
    if rng.random() < 0.1:
        case.words, case.must_refuse = _uses(name, run, rng), False
    case.patience = 8.0


def records(case: Case, rng: Random, base: Path, folder: Path) -> None:
    """Records of experiments, damaged, and a command that reports them."""
    name = rng.choice(("probe", "probe", "compare", "compare", "search", "search", "tables"))
    if name == "tables":
        _tables(case, rng, base, folder)
        return
    shutil.copytree(base / "records" / name, folder / "o")
    file = "trials.jsonl" if name == "search" else "records.jsonl"
    case.notes = [mutate.change(folder / "o" / file, rng)]
    case.words = [*made.RECORDS[name], "--out", "o"]
    if name != "search":
        case.words += ["--report-only"] if rng.random() < 0.8 else []
    case.patience = 8.0


def _tables(case: Case, rng: Random, base: Path, folder: Path) -> None:
    name = rng.choice(("reproduce", "table5", "table6"))
    target = rng.choice(("table2", "table3", "table4", "report", "fig5", "fig6", "table7"))
    out = folder / "o" / "reproduce" if name == "reproduce" else folder / "o"
    shutil.copytree(base / "records" / name, out)
    case.notes = [mutate.change(rng.choice(sorted(out.glob("*.jsonl"))), rng)]
    searched = ["--search-trials", "5", "--search-on", "trec"]
    own = [target, *searched] if name == "reproduce" else [name]
    if name == "table6" and rng.random() < 0.5:
        own.append("--choices")
    case.words = ["experiments", *own, "--out", "o", "--report-only"]
    case.patience = 8.0


def damaged_files(case: Case, rng: Random, base: Path, folder: Path) -> None:
    """Data of all kinds, damaged, given to all that reads data."""
    name, words = rng.choice(FILE_USES)
    needed = [w[4:] for w in words if w.startswith("RUN/")]
    for run in needed:
        shutil.copytree(base / "runs" / run, folder / "run")
    ending = "".join(Path(name).suffixes)
    if rng.random() < 0.15:
        ending = rng.choice(
            (".csv", ".tsv", ".jsonl", ".txt", ".gz", ".csv.gz", ".npy", ".bin", "")
        )
    path = folder / f"odd{ending}"
    _odd_file(case, rng, path, folder / name)
    places = {"FILE": path.name}
    case.words = [places.get(w, "run" if w.startswith("RUN/") else w) for w in words]
    if "STDIN" in words:
        case.words.remove("STDIN")
        content = path.read_bytes() if path.is_file() and not case.fifos else b""
        case.stdin = content[:3_000_000].decode("latin-1")
    case.patience = None if words[0] == "predict" else 8.0


def _odd_file(case: Case, rng: Random, path: Path, like: Path) -> None:
    kind, content = rng.random(), like.read_bytes()
    if kind < 0.02:
        case.notes.append(f"{path.name} missing")
    elif kind < 0.04:
        path.mkdir()
        case.notes.append(f"{path.name} a folder")
    elif kind < 0.06:
        target = rng.choice((path.name, "nowhere", "/dev/null", "..", "/dev/full"))
        path.symlink_to(target)
        case.notes.append(f"{path.name} a link to {target}")
    elif kind < 0.09:
        os.mkfifo(path)
        new, way = (content, "whole") if rng.random() < 0.6 else mutate.damaged(content, rng)
        case.fifos[path.name] = new[:3_000_000].decode("latin-1")
        case.notes.append(f"{path.name} a pipe: {way}")
    else:
        by_kind = mutate.STRUCTURED.get(like.suffix, mutate.damaged)
        new, way = (by_kind if kind < 0.6 else mutate.damaged)(content, rng)
        if rng.random() < 0.3:
            new, more = mutate.damaged(new[:3_000_000], rng)
            way += f", {more}"
        path.write_bytes(new)
        case.notes.append(f"{path.name}: {way}")


LM_QUICK = (*made.LM[4:], "--max-steps", "2", "--eval-every", "1", "--test-chars", "50")
TRANSLATE_QUICK = (*made.TRANSLATE[10:], "--max-steps", "1", "--eval-every", "1")
EMBED_QUICK = (*made.EMBED[4:], "--epochs", "1")
FILE_USES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("table.csv", ("train", "classify", "--data", "FILE", *QUICK)),
    ("table.tsv", ("train", "classify", "--data", "FILE", *QUICK)),
    ("test.jsonl", ("train", "classify", "--data", "FILE", *QUICK)),
    ("table.csv.gz", ("train", "classify", "--data", "FILE", *QUICK)),
    ("table.csv", ("train", "classify", "--data", "FILE", "--tokenizer", "bpe", *QUICK)),
    ("table.csv", ("train", "classify", "--data", "table.csv", "--dev", "FILE", *QUICK)),
    ("table.csv", ("train", "classify", "--data", "table.csv", "--test", "FILE", *QUICK)),
    ("table.csv", ("evaluate", "RUN/fasttext", "--data", "FILE")),
    ("table.tsv", ("evaluate", "RUN/cnn", "--data", "FILE", "--json", "o.json")),
    ("texts.txt", ("predict", "RUN/lstm", "FILE")),
    ("texts.txt", ("predict", "RUN/bpe", "STDIN")),
    ("texts.txt", ("predict", "RUN/transformer", "STDIN")),
    ("table.csv", ("predict", "RUN/fasttext", "FILE", "--out", "o.tsv")),
    ("test.jsonl", ("predict", "RUN/cnn", "FILE", "--out", "o.csv.gz")),
    ("test.jsonl", ("predict", "RUN/cnn", "FILE")),
    ("test.jsonl", ("encode", "RUN/cnn", "FILE", "--out", "o.npy")),
    ("texts.txt", ("encode", "RUN/fasttext", "STDIN")),
    ("texts.txt", ("explain", "RUN/fasttext", "--file", "FILE", "--shuffles", "2")),
    ("texts.txt", ("explain", "RUN/fasttext", "STDIN", "--shuffles", "2", "--json", "o.json")),
    ("corpus.txt", ("train", "lm", "--data", "FILE", *LM_QUICK)),
    ("corpus.txt", ("train", "lm", "--data", "FILE", "--unit", "byte", *LM_QUICK)),
    ("corpus.txt", ("evaluate", "RUN/lm", "--data", "FILE", "--characters", "500")),
    ("corpus.txt", ("generate", "RUN/lm", "--prompt", "-", "STDIN", "--length", "3")),
    (
        "source.txt",
        ("train", "translate", "--source", "FILE", "--target", "target.txt", *TRANSLATE_QUICK),
    ),
    (
        "target.txt",
        ("train", "translate", "--source", "source.txt", "--target", "FILE", *TRANSLATE_QUICK),
    ),
    ("source.txt", ("translate", "RUN/translator", "FILE", "--beam", "1", "--json")),
    ("source.txt", ("translate", "RUN/aed", "STDIN", "--beam", "1")),
    ("target.txt", ("translate", "RUN/aed", "source.txt", "--beam", "1", "--reference", "FILE")),
    (
        "target.txt",
        ("evaluate", "RUN/aed", "--source", "source.txt", "--target", "FILE", "--beam", "1"),
    ),
    ("vectors.txt", ("train", "classify", "--data", "table.csv", "--vectors", "FILE", *QUICK)),
    ("vectors.bin", ("train", "classify", "--data", "table.csv", "--vectors", "FILE", *QUICK)),
    ("vectors.npy", ("train", "classify", "--data", "table.csv", "--vectors", "FILE", *QUICK)),
    ("pairs.tsv", ("train", "match", "--data", "FILE", *QUICK)),
    ("pairs.tsv", ("train", "match", "--data", "pairs.tsv", "--dev", "FILE", *QUICK)),
    ("rated.tsv", ("train", "match", "--data", "FILE", "--similarity", "score", *QUICK)),
    ("pairs.tsv", ("evaluate", "RUN/matcher", "FILE", "--json", "o.json")),
    ("rated.tsv", ("evaluate", "RUN/rater", "FILE")),
    ("pairs.tsv", ("predict", "RUN/matcher", "FILE", "--out", "o.csv")),
    ("pairs.tsv", ("predict", "RUN/rater", "STDIN")),
    ("sentences.txt", (*made.EMBED[:2], "--data", "FILE", *EMBED_QUICK)),
    (
        "teacher.npy",
        (*made.EMBED[:2], "--data", "sentences.txt", "--teacher", "FILE", *EMBED_QUICK),
    ),
    ("sentences.txt", ("encode", "RUN/encoder", "FILE", "--out", "o.npy")),
    ("pairs.tsv", ("evaluate", "RUN/encoder", "FILE")),
    ("rated.tsv", ("evaluate", "RUN/pupil", "FILE", "--similarity", "score")),
    ("settings.yaml", ("train", "classify", "--data", "table.csv", "--config", "FILE")),
    ("settings.yaml", ("search", "--data", "table.csv", "--config", "FILE", "--trials", "0")),
    ("texts.txt", (*made.PROBE, "--tasks", "swap-text", "--text", "FILE")),
)
"""A file to damage, and the command that is given it."""


def flags(case: Case, rng: Random, base: Path, folder: Path) -> None:
    """Flags of every verb, with values of the right and of the wrong kind."""
    verb, kind, words, run = rng.choice(list(_verbs()))
    case.words = list(words)
    if run:
        shutil.copytree(base / "runs" / run, folder / "run")
    if verb == "search":
        shutil.copytree(base / "records" / "search", folder / "o")
    if verb in ("train", "search", "compare", "probe", "demo", "experiments", "data"):
        case.patience = 4.0
    if rng.random() < 0.06:
        odd = rng.choice(("", "-h", "--help", "--", "-x", "--x", "--out", *mutate.TEXTS))
        case.words.insert(rng.randrange(len(case.words) + 1), odd)
        return
    known = list(_flags(kind))
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3))):
        name, hint = rng.choice(known)
        flag = "--" + (name.replace("_", "-") if rng.random() < 0.97 else name[:-1])
        if name in ("jobs", "threads"):
            # They are really started: a large number would take the whole machine.
            case.words += [flag, rng.choice(("1", "0", "-1", "x", "nan", "", "1.5"))]
            if name == "threads" and rng.random() < 0.5:
                case.words[-1] = rng.choice(("100000", str(2**31 - 1), str(2**63)))
        elif name == "length":
            # So many characters are really generated.
            case.words += [flag, rng.choice(("1", "0", "-1", "300", "x", "nan", str(2**63)))]
        elif hint is bool:
            case.words.append(flag if rng.random() < 0.6 else f"--no-{flag[2:]}")
        else:
            case.words += [flag, *_values(name, hint, rng)]


def _verbs() -> Iterator[tuple[str, type, tuple[str, ...], str]]:
    """Verb, options, a quick command, and the run it needs."""
    from experiments.command_line import Options
    from experiments.long_commands import Table5Options, Table6Options
    from wordwave.cli import (
        compare,
        data,
        demo,
        encode,
        evaluate,
        explain,
        export,
        generate,
        predict,
        probe,
        search,
        train,
        translate,
    )

    classify = ("train", "classify", "--data", "table.csv", *QUICK)
    lm = ("train", "lm", "--data", "corpus.txt", *LM_QUICK)
    pairs = (*made.TRANSLATE[:6], *TRANSLATE_QUICK)
    for name in (*CLASSIFIERS, "fasttext"):
        encoder = made.RUNS[name][len(made.CLASSIFY) :]
        yield "train", train.ClassifyOptions, (*classify, *encoder), ""
    yield from ((("train", train.LmOptions, lm, "")),) * 3
    yield from ((("train", train.TranslateOptions, pairs, "")),) * 3
    match = ("train", "match", "--data", "pairs.tsv", *QUICK)
    yield from ((("train", train.MatchOptions, match, "")),) * 2
    embed = ("train", "embed", "--data", "sentences.txt", *EMBED_QUICK)
    yield from ((("train", train.EmbedOptions, embed, "")),) * 2
    yield "predict", predict.PredictOptions, ("predict", "run", "pairs.tsv"), "matcher"
    yield "explain", explain.ExplainOptions, ("explain", "run", *PAIR), "matcher"
    yield "evaluate", evaluate.EvaluateMatcher, ("evaluate", "run", "pairs.tsv"), "matcher"
    yield "evaluate", evaluate.EvaluateEncoder, ("evaluate", "run", "pairs.tsv"), "encoder"
    yield "encode", encode.EncodeOptions, ("encode", "run", "sentences.txt"), "encoder"
    for run in ("fasttext", "cnn"):
        yield "predict", predict.PredictOptions, ("predict", "run", "table.csv"), run
        yield "predict", predict.PredictOptions, ("predict", "run", TEXT), run
        yield "encode", encode.EncodeOptions, ("encode", "run", "table.csv"), run
        yield "evaluate", evaluate.EvaluateClassifier, ("evaluate", "run"), run
        yield "explain", explain.ExplainOptions, ("explain", "run", TEXT), run
    yield "export", export.ExportOptions, ("export", "run", "nowhere/x.txt"), "fasttext"
    own: type = evaluate.EvaluateLanguageModel
    yield "evaluate", own, ("evaluate", "run", "--characters", "20"), "lm"
    own = evaluate.EvaluateTranslator
    yield "evaluate", own, ("evaluate", "run", "--beam", "1"), "translator"
    for run in TRANSLATORS:
        yield "translate", translate.TranslateOptions, ("translate", "run", TEXT), run
    for run in LMS:
        yield "generate", generate.GenerateOptions, ("generate", "run", "--length", "5"), run
    yield from ((("probe", probe.ProbeOptions, (*made.PROBE, "--out", "o"), "")),) * 2
    yield from ((("compare", compare.CompareOptions, (*made.COMPARE, "--out", "o"), "")),) * 2
    yield "search", search.SearchOptions, (*made.SEARCH, "--out", "o"), ""
    yield "demo", demo.DemoOptions, ("demo", "--jobs", "0"), ""
    for words in (("table2", "--report-only"), ("table3",), ("fig6", "--estimate-only")):
        yield "experiments", Options, ("experiments", *words, "--out", "o"), ""
    yield "experiments", Table5Options, ("experiments", "table5", "--report-only"), ""
    yield "experiments", Table6Options, ("experiments", "table6", "--report-only"), ""
    yield "data", data.PrepareOptions, ("data", "list"), ""
    yield "data", data.PrepareOptions, ("data", "prepare"), ""
    yield "data", data.VerifyOptions, ("data", "verify"), ""


def _flags(kind: type) -> Iterator[tuple[str, Any]]:
    """Name and type of each option; parts of a config have no name of their own."""
    hints = get_type_hints(kind)
    for option in fields(kind):  # type: ignore[arg-type]
        hint = hints[option.name]
        if is_dataclass(hint):
            yield from _flags(hint)  # type: ignore[arg-type]
        else:
            yield option.name, hint


PATHS = (
    *("table.csv", "texts.txt", "corpus.txt", "vectors.txt", "run", "nowhere", "nowhere/x.json"),
    *("o.json", "o.csv", "o.png", "o.svg", "o.pdf", ".", "..", "/dev/null", "/dev/full", "/proc/x"),
    *("table.csv/x", "x[/b]", "a[lr=1]/b", "o.jsonl.gz", "o.xyz", "run/config.yaml"),
    *("settings.yaml", "pairs.tsv", "sentences.txt", "teacher.npy"),
)


INTEGERS = tuple(n for n in mutate.NUMBERS if isinstance(n, int))


def _values(name: str, hint: Any, rng: Random) -> list[str]:
    """What stands after a flag: mostly of its type."""
    kind = rng.random()
    if kind < 0.05:
        return [rng.choice((*mutate.TEXTS, *map(str, mutate.NUMBERS)))]
    if kind < 0.06:
        return []
    if get_origin(hint) in (Union, UnionType):
        hint = rng.choice([part for part in get_args(hint) if part is not NoneType])
    if get_origin(hint) is Literal:
        return [str(rng.choice(get_args(hint)))]
    if get_origin(hint) is tuple:
        inner = get_args(hint)[0]
        return [v for _ in range(rng.choice((0, 1, 2, 3))) for v in _values(name, inner, rng)]
    if hint is int:
        return [str(rng.choice((0, 1, 2, 3, 4, 5, 8, 16, 100, 256, 300, 5000, *INTEGERS)))]
    if hint is float:
        return [str(rng.choice((0.0, 0.1, 0.5, 0.9, 1.0, 2.0, 1e-3, 1e3, *mutate.NUMBERS)))]
    return [rng.choice((*PATHS, *PATHS, *mutate.TEXTS))]


def python(case: Case, rng: Random, base: Path, folder: Path) -> None:
    """A call of the Python API."""
    if rng.random() < 0.15:
        name = rng.choice(("vectors.txt", "vectors.bin", "vectors.npy"))
        path = folder / f"odd{Path(name).suffix}"
        new, way = mutate.damaged((folder / name).read_bytes(), rng)
        path.write_bytes(new)
        case.notes.append(f"{path.name}: {way}")
        if name == "vectors.npy":
            shutil.copy(folder / "vectors.words.txt", folder / "odd.words.txt")
        case.source = f"read_vectors({path.name!r})"
    else:
        case.source = source(rng)


AREAS: dict[str, tuple[Callable[[Case, Random, Path, Path], None], float]] = {
    "files": (damaged_files, 20),
    "flags": (flags, 25),
    "runs": (run_folders, 25),
    "states": (states, 10),
    "records": (records, 8),
    "api": (python, 12),
}
"""How each kind of case is made, and its share of all."""
