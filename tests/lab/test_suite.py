"""The suite of encodings: its tasks ask for what they say, its models are matched, its command."""

import json
import sys
from collections import defaultdict
from pathlib import Path

import pytest
import torch

from wordwave.grid import Store
from wordwave.lab import suite as lab
from wordwave.lab.model import Curriculum, evaluate, matched_model
from wordwave.lab.sequences import (
    MAX_SHIFT,
    MODULUS,
    N_LETTERS,
    N_SYMBOLS,
    NO_TARGET,
    SEQUENCES,
)
from wordwave.lab.suite import (
    ALL_ENCODINGS,
    BUDGETS,
    CORE,
    KEY,
    Suite,
    SuiteBudget,
    SuiteCell,
    is_record,
    suite_cells,
)
from wordwave.lab.suite_report import accuracy_table, cost_table, rank_table, write_files
from wordwave.models.utils import count_parameters


def drawn(name, length, n=64, seed=0):
    batch = SEQUENCES[name].draw(n, length, torch.Generator().manual_seed(seed), False)
    return [(ids.tolist(), targets.tolist()) for ids, targets in zip(*batch[:2], strict=True)]


def answered(ids, targets):
    """The question up to its first target, and the targets."""
    first = next(i for i, t in enumerate(targets) if t != NO_TARGET)
    return ids[: first + 1], [t for t in targets if t != NO_TARGET]


ANSWERS = {
    "copy": lambda q: q[:-1],
    "reverse": lambda q: q[-2::-1],
    "sort": lambda q: sorted(q[:-1]),
    "selective-copy": lambda q: [w for w in q[:-1] if w > 1],
    "index": lambda q: [q[q[-1] - 1 - N_SYMBOLS]],
    "needle": lambda q: [
        q[i + 2] for i in range(0, len(q) - 3, 3) if q[i : i + 2] == q[-2:]
    ],
    "precedence": lambda q: [int(q.index(1) < q.index(2))],
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("length", [18, 40, 203])
def test_tasks_ask_for_what_they_say(name, length):
    for ids, targets in drawn(name, length):
        question, answer = answered(ids, targets)
        assert answer == ANSWERS[name](question)
        assert ids[len(question) :] == answer[:-1]


@pytest.mark.parametrize("length", [16, 40, 200])
def test_recall_asks_for_the_values_of_keys(length):
    for ids, targets in drawn("recall", length):
        start = ids.index(0)
        values = dict(zip(ids[:start:2], ids[1:start:2], strict=True))
        asked = [(ids[i], t) for i, t in enumerate(targets) if t != NO_TARGET]
        assert len(asked) == 4 and all(values[key] == value for key, value in asked)


@pytest.mark.parametrize("length", [6, 40, 201])
def test_states_are_tracked_at_every_token(length):
    for bits, targets in drawn("parity", length):
        assert targets == [sum(bits[: i + 1]) % 2 for i in range(length)]
    for ids, targets in drawn("modular-arithmetic", length):
        value = ids[0]
        assert targets[0] == value
        for i in range(2, len(ids), 2):
            value += ids[i] if ids[i - 1] == MODULUS else -ids[i]
            assert targets[i] == value % MODULUS and targets[i - 1] == NO_TARGET
    for ids, targets in drawn("flip-flop", length):
        written = None
        for i in range(0, len(ids), 2):
            if ids[i] == 2:
                written = ids[i + 1]
            assert targets[i] == (written if ids[i] == 3 else NO_TARGET)
        assert ids[-1] == 3


@pytest.mark.parametrize("length", [5, 9, 40, 70, 503])
def test_indirect_indexing_asks_for_letters_at_a_distance(length):
    shifts = set()
    for ids, targets in drawn("indirect-index", length, 400):
        start = ids.index(0)
        letters = ids[:start]
        assert start > N_LETTERS or len(set(letters)) == start
        for i in range(start + 2, len(ids), 3):
            shift = ids[i] - 1 - N_LETTERS - MAX_SHIFT
            assert letters.count(ids[i - 1]) == 1
            assert targets[i] == letters[letters.index(ids[i - 1]) + shift]
            assert i + 1 == len(ids) or ids[i + 1] == targets[i]
            shifts.add(shift)
        assert sum(t != NO_TARGET for t in targets) == len(range(start + 2, len(ids), 3))
    assert shifts <= set(range(-15, 16)) and (length < 40 or len(shifts) == 31)


def test_letters_to_reverse_differ_while_there_are_enough():
    for ids, targets in drawn("reverse", 104):
        question, _ = answered(ids, targets)
        assert len(set(question)) == 53
    changed = Suite().key(SuiteCell("reverse", "rope", 0))
    assert changed["data"] is not None  # not those of the first records
    assert Suite().key(SuiteCell("copy", "rope", 0))["data"] is None


def test_a_minimal_pair_holds_the_same_words():
    ids, targets, _ = SEQUENCES["precedence"].draw(40, 30, torch.Generator(), False)
    assert torch.equal(ids[0::2].sort(1).values, ids[1::2].sort(1).values)
    assert targets[:, -1].tolist() == [0, 1] * 20


@pytest.mark.parametrize("name", SEQUENCES)
def test_sequences_are_as_long_as_asked_and_within_the_vocabulary(name):
    task = SEQUENCES[name]
    for length in (18, 40, 2000):
        ids, targets, scored = task.draw(8, length, torch.Generator(), True)
        assert length - 2 <= ids.shape[1] <= length and ids.shape == targets.shape
        assert ids.min() >= 0 and ids.max() < task.n_words and targets.max() < task.n_classes
        assert scored.any(1).all() and (targets[scored] != NO_TARGET).all()


def test_lengths_of_training_grow_to_40_and_steps_are_reproducible():
    budget = SuiteBudget(40, shortest=6, batch_size=4)
    one, again, other = (Curriculum(SEQUENCES["parity"], budget, seed) for seed in (0, 0, 1))
    lengths = [one.draw(step).ids.shape[1] for step in range(40)]
    assert lengths[0] == 6 and max(lengths[:10]) < 25 and 30 < max(lengths) <= 40
    assert torch.equal(one.draw(7).ids, again.draw(7).ids)
    assert one.draw(7).ids.shape != other.draw(7).ids.shape or not torch.equal(
        one.draw(7).ids, other.draw(7).ids
    )


@pytest.mark.parametrize("encoding", ALL_ENCODINGS)
@pytest.mark.parametrize("task", ["parity", "needle"])
def test_models_have_the_same_number_of_parameters_within_2_percent(encoding, task):
    name, _ = lab.split_name(encoding)
    sizes = [
        count_parameters(matched_model(n, BUDGETS[task], SEQUENCES[task])) for n in (name, "rope")
    ]
    assert abs(sizes[0] - sizes[1]) <= 0.02 * sizes[1]


@pytest.mark.parametrize("encoding", ALL_ENCODINGS)
def test_no_model_sees_the_future(encoding):
    name, _ = lab.split_name(encoding)
    torch.manual_seed(0)
    model = matched_model(name, BUDGETS["parity"], SEQUENCES["parity"]).double()
    ids = torch.randint(2, (2, 60))
    changed = ids.clone()
    changed[:, 50:] = 1 - changed[:, 50:]
    y, z = model(ids), model(changed)
    torch.testing.assert_close(y[:, :50], z[:, :50])
    assert not torch.allclose(y[:, 50:], z[:, 50:])


def test_a_test_on_a_range_covers_it_evenly():
    seen = []

    class Counts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.anything = torch.nn.Parameter(torch.zeros(1))

        def forward(self, ids, positions=None):
            seen.extend([ids.shape[1]] * len(ids))
            return torch.zeros(*ids.shape, 2)

    evaluate(Counts(), SEQUENCES["parity"], 512, (8, 40), 0)
    assert len(seen) == 512 and min(seen) == 8 and max(seen) == 40
    assert len(set(seen)) >= 30 and abs(sum(seen) / 512 - 24) < 1


def test_scores_are_of_whole_answers_and_of_their_tokens():
    task = SEQUENCES["copy"]

    class Copies(torch.nn.Module):
        """Copies all but the last word, whatever it is."""

        def __init__(self):
            super().__init__()
            self.anything = torch.nn.Parameter(torch.zeros(1))

        def forward(self, ids, positions=None):
            n = ids.shape[1] // 2
            words = ids.roll(n, 1).clamp(max=task.n_classes - 1)
            logits = torch.nn.functional.one_hot(words, task.n_classes).float()
            logits[:, -1] = 0
            return logits

    assert evaluate(Copies(), task, 40, (21, 21), 0) == (0.0, pytest.approx(0.9))


@pytest.mark.slow
def test_a_cell_learns_an_easy_task_and_says_what_it_cost():
    """B has seen A or not: the causal mask alone gives the order of two words."""
    made = Suite(((8, 40), (80, 80)), steps=300).run(SuiteCell("precedence", "nope", 0))
    assert is_record(made) and made["accuracy"]["8-40"] > 0.9
    assert made["ms_per_step"] > 0 and made["megabytes"] > 1 and made["parameters"] > 100_000


@pytest.mark.parametrize("encoding", ALL_ENCODINGS)
def test_every_encoding_is_trained_and_tested(encoding):
    assert is_record(Suite(((8, 12),), steps=2).run(SuiteCell("parity", encoding, 0)))


def test_budgets_cover_the_core_and_every_task_of_sequences():
    assert len(CORE) <= 10 and set(SEQUENCES) | set(lab.TEXT_TASKS) == set(BUDGETS)
    assert set(lab.QUICK) <= set(CORE) and max(high for _, high in lab.LENGTHS) == 2000
    assert len(suite_cells([*CORE], [*ALL_ENCODINGS], 3)) == 3 * len(CORE) * len(ALL_ENCODINGS)


def test_an_interrupted_run_has_all_encodings_of_a_seed_and_of_cheap_tasks():
    made = suite_cells([*CORE], [*ALL_ENCODINGS], 3)
    assert [cell.seed for cell in made] == sorted(cell.seed for cell in made)
    tasks = list(dict.fromkeys(cell.task for cell in made))
    assert tasks[0] == "precedence" and tasks[-1] == "indirect-index"
    first = made[: len(ALL_ENCODINGS)]
    assert [cell.encoding for cell in first] == [*ALL_ENCODINGS]


@pytest.fixture
def cli(monkeypatch, capsys, tmp_path):
    """Exit code, stdout and stderr of a probe, in a folder with an encoding of one's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "my_module", raising=False)
    (tmp_path / "my_module.py").write_text(OWN)

    def run(*words):
        from wordwave.cli import main

        monkeypatch.setattr(sys, "argv", ["wordwave", "probe", *map(str, words)])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code
        said = capsys.readouterr()
        return code, said.out, said.err

    yield run
    sys.modules.pop("my_module", None)


OWN = """
import torch
from wordwave.positions import PositionEncoding

class Window(PositionEncoding):
    def bias(self, query_positions, key_positions):
        distance = (query_positions[..., :, None] - key_positions[..., None, :]).abs()
        return -1e4 * (distance > 16).unsqueeze(-3)

class Wide(PositionEncoding):
    def encode_queries(self, heads, positions):
        return torch.cat([heads, heads], -1)

class Heavy(PositionEncoding):
    def __init__(self, *sizes, **options):
        super().__init__(*sizes, **options)
        self.table = torch.nn.Parameter(torch.zeros(10**6))

number = 5
"""
SMALL = ("--steps", "3", "--lengths", "8-40", "60-60", "--jobs", "1", "--out", "out")


@pytest.mark.slow
def test_the_command_runs_reports_and_resumes_also_with_ones_own_encoding(cli, tmp_path):
    suite = (
        "--suite",
        "encodings",
        "--tasks",
        "parity",
        "copy",
        "--encodings",
        "rope",
        "tpe+random",
    )
    code, said, _ = cli(*suite, *SMALL)
    assert code == 0 and "Written:" in said
    records = (tmp_path / "out/encodings.jsonl").read_text()
    assert len(records.splitlines()) == 4
    code, said, _ = cli("--encoding", "my_module:Window", "--tasks", "parity", *SMALL)
    assert code == 0 and "my_module:Window" in said and "rope" in said
    assert cli(*suite, *SMALL)[0] == 0
    assert (tmp_path / "out/encodings.jsonl").read_text().count("\n") == 5
    for name in ("encodings.csv", "encodings.json", "encodings-heat-map.png"):
        assert (tmp_path / "out" / name).stat().st_size > 100
    assert "| my_module:Window |" in (tmp_path / "out/encodings.md").read_text()
    # Records of a stranger's encoding are shown without importing anything.
    (tmp_path / "my_module.py").write_text("raise SystemExit('imported')")
    sys.modules.pop("my_module", None)
    assert cli(*suite, *SMALL, "--report-only")[0] == 0


def test_another_version_of_an_encoding_is_another_cell(cli, tmp_path):
    before = lab.code_of("my_module:Window")
    (tmp_path / "my_module.py").write_text(OWN.replace("16", "8"))
    sys.modules.pop("my_module")
    import linecache

    linecache.clearcache()
    assert lab.code_of("my_module:Window") != before and lab.code_of("rope") is None


MISTAKES = {
    "a task": (("--suite", "encodings", "--tasks", "copi"), "did you mean 'copy'"),
    "an encoding": (("--suite", "encodings", "--encodings", "rop"), "did you mean 'rope'"),
    "a module": (("--encoding", "nowhere:X"), "there is no module 'nowhere'"),
    "a class": (("--encoding", "my_module:X"), "module 'my_module' has no 'X'"),
    "a number": (("--encoding", "my_module:number"), "must be a subclass of .*, got int"),
    "another width": (("--encoding", "my_module:Wide"), "fails on 3 tokens of 4 heads"),
    "no use": (("--suite", "encodings", "--encodings", "cope+random"), "no use for randomised"),
    "a length": (("--suite", "encodings", "--lengths", "8-5000"), "at most 2048 tokens"),
    "steps": (("--suite", "encodings", "--steps", "0"), "steps must be at least 1"),
    "quick": (("--quick",), "quick goes with --suite encodings"),
    "pooling": (
        ("--suite", "encodings", "--pooling", "max"),
        "pooling goes with --suite embeddings",
    ),
    "a rate": (("--learning-rate", "0"), "learning_rate must be above 0, got 0"),
    "no data": (("--suite", "encodings", "--tasks", "blimp"), "set WORDWAVE_DATA to the folder"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_one_line_and_exit_code_2(case, cli, tmp_path, monkeypatch):
    import re

    monkeypatch.setenv("WORDWAVE_DATA", str(tmp_path))
    words, said = MISTAKES[case]
    code, _, told = cli(*words, "--jobs", "1", "--out", "out")
    assert code == 2 and len(told.splitlines()) == 1 and re.search(said, told), told
    assert not (tmp_path / "out").exists()


def test_an_encoding_with_too_many_parameters_is_no_fair_comparison(cli):
    code, _, told = cli("--encoding", "my_module:Heavy", "--tasks", "parity", *SMALL)
    assert code == 2 and "not within 2%" in told


def record(encoding, accuracy, seed=0, task="copy", **more):
    return {
        "suite": "encodings", "task": task, "encoding": encoding, "seed": seed,
        "budget": {"steps": 10}, "lengths": [[8, 40], [80, 80]], "data": None, "code": None,
        "accuracy": {"8-40": accuracy, "80-80": accuracy / 2}, "parameters": 1000,
        "token_accuracy": {"8-40": 1.0, "80-80": 1.0}, "ms_per_step": 4.0, "megabytes": 2.0, **more,
    }  # fmt: skip


RECORDS = [
    record("rope", 0.4, 0), record("rope", 0.6, 1), record("nope", 0.2, 0), record("nope", 0.8, 1),
    record("mine:X", 1.0, 0, ms_per_step=8.0), record("rope", 0.9, 0, "parity"),
]  # fmt: skip


def test_tables_against_figures_computed_by_hand(tmp_path):
    markdown = accuracy_table(RECORDS, "8-40").to_markdown()
    assert "| encoding | copy | parity |" in markdown
    assert "| nope | 0.50 ± 0.42 |  |" in markdown
    assert "| mine:X | **1.00** |  |" in markdown and "| **0.90** |" in markdown
    ranks = {row[0]: row[1].mean for row in rank_table(RECORDS).rows}
    # Seed 0: copy 2nd, parity 1st; seed 1: copy 2nd. Nope is 3rd, then 1st.
    assert ranks == pytest.approx({"rope": 0.625, "nope": 2 / 3, "mine:X": 1.0})
    cost = {row[0]: row[1:] for row in cost_table(RECORDS).rows}
    assert cost["mine:X"] == [1000, 1000, "8.0", "2.00", "2.0"]
    paths = write_files(RECORDS, tmp_path, "Incomplete: 6 of 8 cells.")
    assert paths[2].read_text().startswith("Incomplete: 6 of 8 cells.\n\n6 cells, 2 seeds. Steps:")
    assert len(json.loads(paths[1].read_text())) == 12


def test_what_is_not_a_record_is_none(tmp_path):
    good = record("rope", 0.5)
    assert is_record(good) and not is_record({})
    bad = defaultdict(lambda: [None, -1, [], "x" * 300])
    bad["accuracy"] += [{}, {"short": 0.5}, {"8-40": 2.0}, {"8-40": 0.5}]
    bad["encoding"] += ["[bold]x", "a b", ""]
    for name in ("suite", "task", "encoding", "budget", "accuracy", "token_accuracy", "parameters"):
        assert not any(is_record({**good, name: value}) for value in bad[name]), name
        assert not is_record({k: v for k, v in good.items() if k != name}), name
    path = tmp_path / "encodings.jsonl"
    path.write_text("nonsense\n" + json.dumps(good) + "\n")
    assert Store(path, KEY, is_record).records() == [good]


def test_committed_records_are_read_and_their_tables_regenerated_byte_for_byte(tmp_path):
    folder = Path(__file__).parents[2] / "results/encodings"
    store = Store(folder / "encodings.jsonl", KEY, is_record)
    records = store.records()
    assert records and store.skipped() == ""
    comparable = [r for r in records if Suite().ran(r)]
    for path in write_files(comparable, tmp_path):
        assert path.read_bytes() == (folder / path.name).read_bytes(), path.name


def test_a_record_is_compared_under_its_own_conditions_only():
    suite = Suite(((8, 40),), steps=7)
    made = suite.key(SuiteCell("copy", "rope", 3))
    assert suite.ran({**made, "encoding": "os:system"})
    assert not Suite(((8, 40),), steps=8).ran(made) and not Suite(((8, 41),), steps=7).ran(made)
