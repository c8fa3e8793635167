"""What does not fit in memory is refused before it is made, with what it would need."""

import subprocess
import sys

import pytest
import torch

from wordwave import memory
from wordwave.data.examples import Examples
from wordwave.data.splits import Splits
from wordwave.models.classifier import Classifier
from wordwave.models.config import ModelConfig
from wordwave.tasks import classifier as sentences
from wordwave.tasks.classification import ClassificationTask, LabelledSentences
from wordwave.tasks.classification_job import ClassificationJob
from wordwave.tasks.classifier import classes_of, logits_of
from wordwave.tasks.config import ClassificationConfig
from wordwave.tasks.scores import score
from wordwave.text.batching import Sentences


def prepare(config, data):
    return ClassificationJob(config).prepare(data)


@pytest.fixture
def machine(monkeypatch):
    """Play a machine with so many bytes."""
    return lambda size: monkeypatch.setattr(memory, "available_memory", lambda: size)


def examples(n_words, n_classes):
    texts = [f"w{i % n_words}" for i in range(max(n_words, 2 * n_classes))]
    return Examples(texts, [f"c{i % n_classes}" for i in range(len(texts))])


def config(**model):
    return ClassificationConfig(model=ModelConfig(**model))


def test_a_model_that_does_not_fit_is_refused_with_what_it_would_need(machine):
    parts = Splits(examples(1_000, 3), None, None)
    machine(10**6)
    with pytest.raises(ValueError, match=r"would need about [\d.]+ MB of memory, and 1.0 MB are"):
        prepare(config(dim=64), parts)
    with pytest.raises(ValueError, match=r"1,002 words \(--max-vocabulary.* width 64 \(--dim\)"):
        prepare(config(dim=64), parts)
    machine(10**8)
    prepare(config(dim=64), parts)


@pytest.mark.parametrize("row_sparse", [True, False])
def test_the_estimate_counts_weights_moments_best_and_gradients(machine, row_sparse):
    """Against a model that was made: 4 copies of sparse tables and 5 of all else."""
    parts = Splits(examples(500, 2), None, None)
    given = config(dim=32)
    given = ClassificationConfig(
        model=given.model, training=type(given.training)(row_sparse=row_sparse, batch_size=1)
    )
    machine(10**9)
    model = prepare(given, parts).text_model.model
    sizes = {name: 4 * p.numel() for name, p in model.named_parameters()}
    tables = sum(size for name, size in sizes.items() if name.startswith("embedding."))
    needed = 5 * sum(sizes.values()) - row_sparse * tables + 16 * 2
    machine(needed)
    prepare(given, parts)
    machine(needed - 1)
    with pytest.raises(ValueError, match="would need about"):
        prepare(given, parts)


def test_a_test_part_of_many_classes_is_refused_before_training(machine):
    many = examples(10, 2_000)
    machine(10**8)  # 2,000 classes have 4,000,000 pairs, 32 bytes each
    prepare(config(dim=4, hidden_dim=4), Splits(many, None, None))
    with pytest.raises(
        ValueError, match="2,000 classes; a test set needs a confusion matrix of all pairs"
    ):
        prepare(config(dim=4, hidden_dim=4), Splits(many, None, many))
    with pytest.raises(ValueError, match=r"scoring 2,000 classes would need about 0.1 GB"):
        score(torch.tensor([0]), torch.tensor([0]), [str(i) for i in range(2_000)])


def test_estimating_draws_no_random_numbers(machine):
    parts = Splits(examples(50, 2), None, None)
    torch.manual_seed(7)
    wanted = torch.rand(1)
    torch.manual_seed(7)
    prepare(config(dim=4), parts)
    assert torch.equal(torch.rand(1), wanted)


def test_scoring_many_classes_a_few_at_a_time_gives_the_same(monkeypatch):
    torch.manual_seed(0)
    model = Classifier(ModelConfig(dim=8, hidden_dim=8), 20, 50)
    rows = Sentences.from_lists([[2 + i % 17] * (1 + i % 3) for i in range(40)])
    data = LabelledSentences(rows, torch.arange(40))
    task = ClassificationTask(data, data)
    logits, figures = logits_of(model, rows), task.score(model)
    monkeypatch.setattr(sentences, "LOGITS_AT_ONCE", 120)  # two rows
    assert max(len(some) for some, _ in sentences.batched_logits(model, rows)) == 2
    torch.testing.assert_close(logits_of(model, rows), logits)
    assert torch.equal(classes_of(model, rows), logits.argmax(-1))
    assert task.score(model) == pytest.approx(figures)
    loss = torch.nn.functional.cross_entropy(logits.double(), data.targets)
    assert figures["likelihood"] == pytest.approx(-float(loss))


def test_the_limit_of_a_process_counts():
    """`ulimit -v` is seen, where there is such a thing."""
    pytest.importorskip("resource")
    code = """
import resource
from wordwave.memory import available_memory
before = available_memory()
resource.setrlimit(resource.RLIMIT_AS, (2 * 10**9, resource.RLIM_INFINITY))
assert before is None or before > 0
print(available_memory())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert 0 <= int(done.stdout) < 2 * 10**9


@pytest.mark.parametrize("limit", ["max", "5000"])
def test_the_limit_of_a_container_counts(monkeypatch, tmp_path, limit):
    files = {
        "memory.max": limit,
        "memory.current": "4000",
        "memory.stat": "anon 1\ninactive_file 7",
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    found = tuple(str(tmp_path / name) for name in ("memory.max", "memory.current"))
    monkeypatch.setattr(memory, "_CGROUPS", (found,))
    assert memory._of_container() == (None if limit == "max" else 1007)
    if limit != "max":
        assert memory.available_memory() == 1007
