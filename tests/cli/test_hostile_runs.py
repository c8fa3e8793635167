"""Run folders that are damaged or come from a stranger: one line, and nothing is changed."""

import json
import os
import shutil
from types import SimpleNamespace

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from wordwave.tasks.config import (
    ClassificationConfig,
    DataConfig,
    LanguageModelConfig,
    LanguageModelDataConfig,
    ParallelDataConfig,
    TranslationConfig,
)
from wordwave.tasks.run import job_class
from wordwave.tasks.run_folder import is_signed
from wordwave.training.loop import Epoch, Step

WORDS = ("ab", "cd", "ef", "gh")
QUICK = {
    "classify": "--dim 4 --hidden-dim 4 --epochs 3 --batch-size 64 --dev-share 0.1",
    "translate": "--dim 4 --encoder-layers 1 --decoder-layers 1 --n-heads 2 --feed-forward-dim 4 "
    "--bpe-size 264 --max-steps 6 --eval-every 2 --batch-size 200 --eval-bleu 0 --lower-case",
    "lm": "--dim 4 --n-heads 2 --n-layers 1 --feed-forward-dim 4 --segment-length 16 "
    "--memory-length 16 --eval-memory-length 16 --batch-size 4 --max-steps 6 --eval-every 2",
}
VERBS = {
    "classify": ("predict", "evaluate", "encode", "explain", "explore", "export"),
    "translate": ("translate", "evaluate"),
    "lm": ("generate", "evaluate"),
}
BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [{f'*a{i - 1}, ' * 9}]\n" for i in range(1, 30))
DEEP = '{"a": ' * 100_000 + "1" + "}" * 100_000


def prepared(task, folder):
    """The training whose config is in a run folder, before its first step."""
    job = job_class(task).from_run(folder)
    return job.prepare(job.load_data())


@pytest.fixture(scope="module")
def runs(cli, tmp_path_factory):
    """A finished run of each task, and one that was stopped after its first look at dev."""
    folder = tmp_path_factory.mktemp("runs")
    table = cli.write_table(folder / "table.csv", cli.examples(300))
    lines = [f"{WORDS[i % 4]} {WORDS[i // 4 % 4]}, Ok." for i in range(60)]
    (folder / "source.txt").write_text("\n".join(lines))
    (folder / "target.txt").write_text("\n".join(line.upper() for line in lines))
    (folder / "text.txt").write_text("the cat sat on the mat. " * 100)
    pairs = [w for n in ("", "test-") for s in ("source", "target") for w in (f"--{n}{s}", s)]
    pairs = [word if word[0] == "-" else folder / f"{word}.txt" for word in pairs]
    data = {
        "classify": ("--data", table),
        "translate": pairs,
        "lm": ("--data", folder / "text.txt"),
    }
    found = {}
    for task, words in QUICK.items():
        whole, half = folder / task, folder / f"{task}-half"
        said = cli.call("train", task, *data[task], *words.split(), "--out", whole)
        assert said.code == 0, said.err
        seen = []

        def stop(report, seen=seen):
            seen.append(report)
            if isinstance(report, Step) and any(isinstance(r, Epoch) for r in seen):
                raise BrokenPipeError

        with pytest.raises(KeyboardInterrupt):
            prepared(task, whole).train(half, save_every=0, watch=stop)
        found[task] = SimpleNamespace(whole=whole, half=half)
    return found


@pytest.fixture
def broken(runs, tmp_path):
    """A copy of a run to be damaged."""

    def copy(task, kind="whole"):
        return shutil.copytree(getattr(runs[task], kind), tmp_path / "run")

    return copy


def contents(folder):
    return {
        p: p.read_bytes() for p in folder.rglob("*") if p.is_file() and "tfevents" not in p.name
    }


def resume(cli, task, run):
    return cli.call("train", task, "--config", run / "config.yaml", "--out", run)


# What may be done to a file.


def text(content):
    return lambda path: path.write_bytes(
        content if isinstance(content, bytes) else content.encode()
    )


def replaced(old, new):
    def change(path):
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new, 1))

    return change


def told(**changes):
    return lambda path: path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def appended(line):
    return lambda path: path.write_text(path.read_text() + line + "\n")


def truncated(path):
    path.write_bytes(path.read_bytes()[:-50])


def a_folder(path):
    path.unlink()
    path.mkdir()


def a_pipe(path):
    path.unlink()
    os.mkfifo(path)


def endless(path):
    path.unlink()
    path.symlink_to("/dev/zero")


def tensors(change):
    """Change the tensors of a file in place; `change` may also give other ones."""

    def changed(path):
        with safe_open(path, framework="pt") as file:
            note, found = file.metadata(), {k: file.get_tensor(k) for k in file.keys()}  # noqa: SIM118
        save_file(change(found) or found, path, metadata=note)

    return changed


def first(found, start="", dims=1):
    """The first tensor whose name starts so, of real numbers if there is one."""
    names = [k for k in sorted(found) if k.startswith(start) and found[k].dim() >= dims]
    return min(names, key=lambda k: not found[k].is_floating_point())


def filled(value, start=""):
    def change(found):
        found[first(found, start)].view(-1)[0] = value

    return tensors(change)


def like(make, start=""):
    """Another tensor in the place of one."""

    def change(found):
        name = first(found, start)
        found[name] = make(found[name]).contiguous()

    return tensors(change)


def progress(**changes):
    def changed(path):
        with safe_open(path, framework="pt") as file:
            note, found = file.metadata(), {k: file.get_tensor(k) for k in file.keys()}  # noqa: SIM118
        there = {
            k: v for k, v in json.loads(note["progress"]).items() if changes.get(k, 0) is not ...
        }
        more = {k: v for k, v in changes.items() if v is not ...}
        save_file(found, path, metadata={"progress": json.dumps(there | more)})

    return changed


WEIGHTS = [
    (truncated, "does not hold this model"),
    (text(b"\xff" * 100), "does not hold this model"),
    (a_folder, "is not a regular file"),
    (a_pipe, "is not a regular file"),
    (endless, "is not a regular file"),
    (filled(torch.nan), "has a NaN or infinite value"),
    (filled(-torch.inf), "has a NaN or infinite value"),
    (like(lambda t: t[:0]), "size mismatch for the tensor"),
    (like(lambda t: t.unsqueeze(0)), "size mismatch for the tensor"),
    (like(lambda t: t.half()), "dtype mismatch for the tensor"),
    (like(lambda t: t.to(torch.int8)), "dtype mismatch for the tensor"),
    (like(lambda t: t.to(torch.int16)), "has the dtype I16"),
    (tensors(lambda found: found.update({"more": torch.zeros(3)})), "'more' is not expected"),
    (tensors(lambda found: {k: v for k, v in found.items() if k != first(found)}), "is missing"),
]
CONFIG = [
    (text(BOMB), "anchors and aliases"),
    (text("task: &a [classify, lm]\n"), "anchors and aliases"),
    (text("x: [" + "a, " * 20_000 + "]"), "more than 10,000 values"),
    (text("x: " + "y" * 200_000), "larger than the limit of 100,000 bytes"),
    (text("x: " + "y" * 5_000), "more than 4,096 characters"),
    (text("x: " + "[" * 90 + "]" * 90), "nested too deeply"),
    (text("task: [classify]\n"), "task must be str, got ['classify']"),
    (text("version: 1\n"), "task must be str, got None"),
    (text("task: !!python/object/apply:os.system [ls]\n"), "tags (!) are not accepted"),
    (replaced("seed: 0", "seed: !!bool x"), "tags (!) are not accepted"),
    (replaced("seed: 0", "seed: 0x" + "f" * 4000), "a number has more than 100 digits"),
    (replaced("seed: 0", "seed: " + "9" * 90), "seed must be at most"),
    (replaced("dim: 4", "dim: 100000"), "size mismatch"),
    (replaced("dim: 4", "dim: " + "8" * 90), "dim must be at most"),
    (replaced("dim: 4", "dim: [4, [4, [4]]]"), "dim must be int"),
    (replaced("dropout: 0", "dropout: .nan # 0"), "dropout must be float, got nan"),
    (a_folder, "is not a regular file"),
    (a_pipe, "is not a regular file"),
]


@pytest.mark.parametrize("task", QUICK)
@pytest.mark.parametrize(
    ("file", "damage", "said"),
    [("model.safetensors", *case) for case in WEIGHTS]
    + [("config.yaml", *case) for case in CONFIG],
)
def test_a_run_that_does_not_hold_what_it_should_is_refused(cli, broken, task, file, damage, said):
    run = broken(task)
    damage(run / file)
    for verb in VERBS[task]:
        cli.refusal(cli.call(verb, run, stdin=b"yes no\n"), str(run), said)
    assert not (run / "model.onnx").exists()
    with pytest.raises(ValueError, match=str(run)):
        job_class(task).from_run(run)


@pytest.mark.parametrize(
    ("task", "verbs", "said"),
    [
        ("classify", ("predict", "evaluate", "explain"), "logits are not finite"),
        ("translate", ("translate", "evaluate"), "must give each word a probability"),
        ("lm", ("generate", "evaluate"), "logits are not finite"),
    ],
)
def test_weights_too_large_to_compute_with_give_no_answer(cli, broken, task, verbs, said):
    run = broken(task)
    huge = tensors(
        lambda found: {k: 3e38 * v.sign() if v.is_floating_point() else v for k, v in found.items()}
    )
    huge(run / "model.safetensors")
    for verb in verbs:
        result = cli.call(verb, run, stdin=b"yes no\n")
        cli.refusal(result, said)
        assert "nan" not in result.out


WORDS_AND_PIECES = [
    ("classify", "vocab.json", text(DEEP), "nested too deeply"),
    ("classify", "vocab.json", text('{"words": "\\ud800"}'), "half a surrogate pair"),
    ("classify", "vocab.json", told(words=3), "vocabulary must be"),
    ("classify", "vocab.json", told(words=["<pad>", "<unk>", [1]]), "words must be strings"),
    ("classify", "vocab.json", told(labels={"a": 1}), "labels must be a list of str"),
    ("classify", "vocab.json", endless, "is not a regular file"),
    ("lm", "vocab.json", text(DEEP), "nested too deeply"),
    ("lm", "vocab.json", text('{"unit": "char", "characters": "\\ud800"}'), "surrogate"),
    ("lm", "vocab.json", told(unit=["char"]), "unit must be"),
    ("lm", "vocab.json", told(characters="aa"), "characters must differ"),
    ("translate", "tokenizer.json", text(DEEP), "nested too deeply"),
    ("translate", "tokenizer.json", text("{}"), "has no 'model'"),
    (
        "translate",
        "tokenizer.json",
        replaced('"version"', '"version": 1, "b"'),
        "as train_bpe sets it",
    ),
    ("translate", "tokenizer.json", replaced('"pre_tokenizer"', '"x"'), "'pre_tokenizer'"),
    ("translate", "tokenizer.json", a_pipe, "is not a regular file"),
    ("translate", "tokenizer.json", told(normalizer={"type": "NFC"}), "as train_bpe sets it"),
    (
        "translate",
        "tokenizer.json",  # the library itself panics at this
        replaced('"continuing_subword_prefix": null', '"continuing_subword_prefix": "xxxxxxxxx"'),
        "'continuing_subword_prefix' must be as train_bpe sets it",
    ),
    ("translate", "tokenizer.json", replaced('"dropout": null', '"dropout": 0.5'), "'dropout'"),
    ("translate", "tokenizer.json", replaced('"fuse_unk": false', '"fuse_unk": 0'), "'fuse_unk'"),
    ("translate", "tokenizer.json", replaced('"!": 0', '"!": 1'), "numbered from 0"),
    ("translate", "casing.json", text('["a"]'), "does not hold spellings"),
    ("translate", "casing.json", text('{"a": 3}'), "does not hold spellings"),
]


@pytest.mark.parametrize(("task", "file", "damage", "said"), WORDS_AND_PIECES)
def test_words_and_pieces_that_are_none_are_refused(cli, broken, task, file, damage, said):
    run = broken(task)
    damage(run / file)
    for verb in VERBS[task]:
        cli.refusal(cli.call(verb, run, stdin=b"yes\n"), str(run), file, said)


@pytest.mark.parametrize("content", [BOMB, "data: *a", "data: !!bool x", "data: " + "[" * 9000])
def test_a_config_file_is_read_as_carefully_as_that_of_a_run(cli, tmp_path, content):
    (tmp_path / "a.yaml").write_text(content)
    for task in QUICK:
        said = cli.call("train", task, "--config", tmp_path / "a.yaml")
        cli.refusal(said, f"'{tmp_path / 'a.yaml'}' is not a YAML file: ")


STATES = [
    (truncated, ""),
    (a_folder, "is not a regular file"),
    (like(lambda t: t.view(-1)[:1], "optimizer."), "size mismatch for the tensor 'optimizer."),
    (like(lambda t: torch.cat([t, t[:1]]), "optimizer."), "size mismatch for the tensor 'optimi"),
    (like(lambda t: t.double(), "optimizer."), "dtype mismatch for the tensor 'optimizer."),
    (like(lambda t: t.t() if t.dim() == 2 else t[:0], "model."), "size mismatch for the tensor"),
    (like(lambda t: t[:0], "best."), "size mismatch for the tensor 'best."),
    (filled(torch.nan, "model."), "has a NaN or infinite value"),
    (filled(torch.inf, "best."), "the tensor 'best."),
    (filled(torch.nan, "optimizer."), "the tensor 'optimizer."),
    (tensors(lambda f: {k: -1 - v if "sq" in k else v for k, v in f.items()}), "a negative value"),
    (tensors(lambda f: {k: v for k, v in f.items() if k != first(f, "best.")}), "is missing"),
    (tensors(lambda f: {k: v for k, v in f.items() if k != first(f, "optim")}), "is missing"),
    (tensors(lambda f: {k: v for k, v in f.items() if k[:5] != "model"}), "is missing"),
    (tensors(lambda f: f.update({"optimizer.step.x": torch.zeros(())})), "is not expected"),
    (tensors(lambda f: f.update({"": torch.zeros(1)})), "the tensor '' is not expected"),
    (tensors(lambda f: f.update({"task.0.x": torch.zeros(1)})), ""),
    (progress(batch=-1), "batch must be at least 0"),
    (progress(batch=10**6), "batch must be below"),
    (progress(step="x"), "step must be int, got 'x'"),
    (progress(step=-3), "step must be at least 0"),
    (progress(step=10**9), "step must be at most"),
    (progress(step=True), "step must be int, got True"),
    (progress(epoch=10**6), "epoch must be at most step"),
    (progress(since_eval=10**6), "since_eval must be at most step"),
    (progress(loss=None), "loss must be float"),
    (progress(loss=float("nan")), "loss must be float, got nan"),
    (progress(loss=float("inf")), "loss must be finite"),
    (progress(seconds=float("-inf")), "seconds must be at least 0"),
    (progress(best_scores=["x"]), "best_scores must be a list of float"),
    (progress(best_scores=[]), "is not expected"),
    (progress(n_processes=2), "needs 2 processes"),
    (progress(examples="others"), "other examples"),
    (progress(more=1), "unknown key 'more'"),
    (progress(step=...), "progress has no 'step'"),
]


@pytest.mark.parametrize("task", QUICK)
@pytest.mark.parametrize(("damage", "said"), STATES)
def test_a_state_is_refused_as_a_whole(cli, broken, task, damage, said):
    run = broken(task, "half")
    state = run / "state" / "state.safetensors"
    damage(state)
    before = contents(run)
    result = resume(cli, task, run)
    cli.refusal(
        result, f"'{state}' is not a checkpoint of this training", said, "remove it to start"
    )
    assert contents(run) == before


@pytest.mark.parametrize(
    ("task", "damage", "said"),
    [
        ("lm", like(lambda t: t[:, :1], "task.states"), "size mismatch for the tensor 'states'"),
        ("lm", like(lambda t: t[..., :1], "task.states"), "size mismatch for the tensor 'states'"),
        ("lm", like(lambda t: t.long(), "task.states"), "states must be floating-point"),
        ("lm", like(lambda t: t[0], "task.next"), "size mismatch for the tensor"),
        ("lm", like(lambda t: t.int(), "task.next"), "dtype mismatch for the tensor 'next'"),
        ("lm", tensors(lambda f: {k: v for k, v in f.items() if k != "task.next"}), "mis"),
        ("lm", tensors(lambda f: f["task.n_read"].fill_(-9) and None), "n_read must be at least 0"),
        ("translate", like(lambda t: t[:0], "task.0."), "size mismatch for the tensor '0."),
        ("translate", filled(torch.nan, "task.0."), "the tensor 'task.0."),
    ],
)
def test_what_a_task_remembers_is_checked_too(cli, broken, task, damage, said):
    run = broken(task, "half")
    damage(run / "state" / "state.safetensors")
    cli.refusal(resume(cli, task, run), "is not a checkpoint of this training", said)


@pytest.mark.parametrize("task", QUICK)
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"step": "x"}', "step must be int, got 'x'"),
        ('{"step": 1}', "seconds must be float, got None"),
        ('{"step": 1, "seconds": "x", "words_per_second": 1}', "seconds must be float, got 'x'"),
        ('{"step": 1, "seconds": 1, "words_per_second": 1, "loss": []}', "'loss' must be float or"),
        ('{"seconds": 1.0, "words_per_second": 1}', "has no 'step'"),
        ("[]", "must hold names and values"),
        ("{", "line "),
        (DEEP, "nested too deeply"),
        (f'{{"step": {"9" * 5000}}}', "line "),
    ],
)
def test_a_journal_with_other_records_is_refused(cli, broken, task, line, said):
    run = broken(task, "half")
    appended(line)(run / "metrics.jsonl")
    before = contents(run)
    cli.refusal(resume(cli, task, run), f"'{run / 'metrics.jsonl'}'", said, "remove it")
    assert contents(run) == before


@pytest.mark.parametrize("task", QUICK)
def test_a_last_line_cut_short_is_left_out_and_a_removed_journal_begins_anew(cli, broken, task):
    run = broken(task, "half")
    journal = run / "metrics.jsonl"
    whole = journal.read_text()
    journal.write_text(whole + '{"step": 3, "sec')
    assert resume(cli, task, run).code == 0
    assert journal.read_text().startswith(whole) and '"sec\n' not in journal.read_text()
    shutil.rmtree(run)
    run = broken(task, "half")
    journal.unlink()
    assert resume(cli, task, run).code == 0 and journal.exists()


@pytest.mark.parametrize("task", QUICK)
@pytest.mark.parametrize(
    "damage",
    [
        text("{}"),
        text("[]"),
        text("null"),
        text(DEEP),
        text(b"\xff"),
        a_folder,
        told(parameters="many"),
        told(parameters=None),
        told(test=3, best_step="x"),
    ],
)
def test_a_result_without_its_figures_is_refused(cli, broken, task, damage):
    run = broken(task)
    damage(run / "result.json")
    before = contents(run)
    cli.refusal(
        resume(cli, task, run), f"'{run / 'result.json'}' is not the result of", "remove it"
    )
    assert contents(run) == before


@pytest.mark.parametrize(
    ("name", "leads_to"),
    [("metrics.jsonl", "notes"), ("model.safetensors", "notes"), ("state", ".")],
)
def test_a_training_writes_through_no_link_out_of_its_folder(cli, broken, tmp_path, name, leads_to):
    (tmp_path / "notes").write_text("dear to me")
    run = broken("classify", "half")
    shutil.rmtree(run / name, ignore_errors=True)
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(tmp_path / leads_to)
    cli.refusal(resume(cli, "classify", run), f"'{run / name}' is a link to another folder")
    assert (tmp_path / "notes").read_text() == "dear to me"


@pytest.mark.parametrize(
    "name", ["vocab.json", "metrics.jsonl", "made-here", "state/state.safetensors"]
)
def test_a_training_does_not_wait_for_someone_to_read_a_pipe(cli, broken, name):
    run = broken("classify", "half")
    (run / name).unlink(missing_ok=True)
    os.mkfifo(run / name)
    cli.refusal(resume(cli, "classify", run), f"'{run / name}' is not a regular file")


def test_export_writes_through_no_link_of_the_run(cli, broken, tmp_path):
    (tmp_path / "notes").write_text("dear to me")
    run = broken("classify")
    (run / "model.onnx").symlink_to(tmp_path / "notes")
    cli.refusal(cli.call("export", run), "model.onnx' is a link to another folder")
    assert (tmp_path / "notes").read_text() == "dear to me"


# Whose run is it?


@pytest.mark.parametrize("task", QUICK)
def test_evaluate_follows_the_config_of_runs_made_here_and_of_others_if_asked(cli, broken, task):
    run = broken(task)  # wherever it is moved to
    mine = cli.call("evaluate", run)
    assert mine.code == 0, mine.err
    names = job_class(task).from_run(run).config.data.files
    assert mine.out.startswith(f"Reading {', '.join(names)}, named in '{run / 'config.yaml'}'.")
    (run / "made-here").write_text("0" * 64)
    cli.refusal(cli.call("evaluate", run), "was not trained here", names[0], "--trust-data")
    (run / "made-here").unlink()
    cli.refusal(cli.call("evaluate", run), "was not trained here", names[0], "--trust-data")
    trusted = cli.call("evaluate", run, "--trust-data")
    assert trusted.code == 0 and trusted.out == mine.out


@pytest.mark.parametrize("named", ["/etc/passwd", "hf:someone/tracker", "//host/share.csv"])
def test_a_mark_is_of_the_names_it_was_made_for(cli, broken, runs, named):
    run = broken("classify")
    data = runs["classify"].whole.parent / "table.csv"
    replaced(f"data: {data}", f"data: {named}")(run / "config.yaml")
    cli.refusal(cli.call("evaluate", run), "was not trained here", named)


def test_another_user_does_not_accept_a_mark(cli, broken, tmp_path, monkeypatch):
    run = broken("classify")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    cli.refusal(cli.call("evaluate", run), "was not trained here")
    assert not (tmp_path / "another").exists()


def test_a_training_needs_no_place_for_a_key(cli, runs, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    whole = runs["classify"].whole
    said = cli.call("train", "classify", "--config", whole / "config.yaml", "--out", tmp_path / "b")
    assert said.code == 0 and not is_signed(tmp_path / "b", ["x"])


def test_data_sets_by_name_are_no_files():
    assert DataConfig(data="trec").files == () == LanguageModelDataConfig(data="text8").files
    assert LanguageModelConfig().data.files == () == TranslationConfig().data.files
    assert ParallelDataConfig(source="a", target="b").files == ("a", "b")
    assert DataConfig(data="a.csv", test="b.csv").files == ("a.csv", "b.csv")
    assert ClassificationConfig(DataConfig("hf:x")).data.files == ("hf:x",)


# What a training leaves.


@pytest.mark.parametrize("task", QUICK)
def test_files_removed_during_a_training_are_there_at_its_end(runs, task, tmp_path):
    whole, run = runs[task].whole, tmp_path / "run"
    words = {"config.yaml", "vocab.json", "tokenizer.json", "casing.json", "made-here"}

    def remove(report):
        if isinstance(report, Epoch):
            for path in run.iterdir():
                if path.is_file() and path.name != ".training.lock":
                    path.unlink()

    prepared(task, whole).train(run, watch=remove)
    assert {p.name for p in run.iterdir()} == {p.name for p in whole.iterdir()}
    for name in words & {p.name for p in whole.iterdir()}:
        assert (run / name).read_bytes() == (whole / name).read_bytes()
    steps = [
        [json.loads(line)["step"] for line in (f / "metrics.jsonl").open()] for f in (run, whole)
    ]
    assert steps[0] == steps[1]
    job_class(task).from_run(run)


@pytest.mark.parametrize("task", QUICK)
def test_the_same_training_gives_the_same_bytes(runs, task, tmp_path):
    whole = runs[task].whole
    for i in range(4):
        trained = job_class(task).from_run(whole).text_model
        trained.save(tmp_path / str(i))
        assert (tmp_path / str(i) / "model.safetensors").read_bytes() == (
            whole / "model.safetensors"
        ).read_bytes()
    prepared(task, whole).train(tmp_path / "again")
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == (
        whole / "model.safetensors"
    ).read_bytes()
