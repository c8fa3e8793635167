"""The laboratory's tasks: balanced by construction, deterministic, and truly about order."""

import random

import pytest
import torch

from wordwave.config_io import with_settings
from wordwave.lab.tasks import (
    ANIMALS,
    BLANK,
    NEAR,
    NO_TARGET,
    PAIR_TASKS,
    PEOPLE,
    SEQUENCE_TASKS,
    TEXT_TASK,
    probe_task,
    read_sentences,
)
from wordwave.models.classifier import Classifier
from wordwave.models.config import ModelConfig
from wordwave.tasks.classification import LabelledSentences, accuracy
from wordwave.text.batching import Sentences

LENGTHS = [(10, 20), (40, 60), (150, 200)]


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("name", PAIR_TASKS)
def test_both_sentences_of_a_pair_hold_the_same_words_in_another_order(name, lengths):
    data = probe_task(name).examples(400, lengths, seed=1)
    no, yes = data.ids[0::2], data.ids[1::2]
    assert torch.equal(no.sort(dim=1).values, yes.sort(dim=1).values)
    assert not (no == yes).all(dim=1).any()
    assert data.targets.tolist() == [0, 1] * 200


@pytest.mark.parametrize("name", PAIR_TASKS)
def test_sentences_have_the_lengths_asked_for(name):
    lengths = (probe_task(name).examples(600, (10, 20), seed=0).ids != 0).sum(1)
    assert lengths.min() == 10 and lengths.max() == 20


@pytest.mark.parametrize("name", PAIR_TASKS)
def test_a_model_blind_to_order_is_right_on_exactly_one_of_each_pair(name):
    task = probe_task(name)
    data = task.examples(200, (10, 20), seed=2)
    torch.manual_seed(0)
    blind = Classifier(
        with_settings(ModelConfig(), embedding="none", dim=8), len(task.words), 2
    ).double()
    labelled = LabelledSentences(Sentences.from_padded(data.ids), data.targets)
    assert accuracy(blind, labelled) == 0.5


@pytest.mark.parametrize("name", [*PAIR_TASKS, *SEQUENCE_TASKS])
def test_same_seed_same_sentences_and_test_differs_from_training(name):
    task = probe_task(name)
    first, again = (task.examples(100, (10, 20), seed=3) for _ in range(2))
    assert torch.equal(first.ids, again.ids) and torch.equal(first.targets, again.targets)
    other = task.examples(100, (10, 20), seed=3, test=True)
    assert first.ids.shape != other.ids.shape or not torch.equal(first.ids, other.ids)


def places(sentence, word):
    return [i for i, w in enumerate(sentence) if w == word]


TRUTH = {
    "precedence": lambda s: s.index("A") < s.index("B"),
    "adjacency": lambda s: s.index("B") == s.index("A") + 1,
    "kth-word": lambda s: s[2] == "A",
    "distance": lambda s: abs(s.index("A") - s.index("B")) < NEAR,
    "first-repeat": lambda s: places(s, "A")[1] < places(s, "B")[1],
    "reversal": lambda s: (n := [w for w in s if w[0] == "n"]) == sorted(n, reverse=True),
}


@pytest.mark.parametrize("name", TRUTH)
def test_labels_tell_the_truth(name):
    rng = random.Random(5)
    for _ in range(300):
        no, yes = PAIR_TASKS[name](rng, rng.randint(10, 30))
        assert not TRUTH[name](no) and TRUTH[name](yes)


def test_who_did_what_counts_the_doer_also_in_the_passive():
    rng = random.Random(6)
    for _ in range(200):
        _, yes = PAIR_TASKS["who-did-what"](rng, 14)
        first = next(word for word in yes if word in ANIMALS + PEOPLE)
        assert (first in PEOPLE) == ("by" in yes)


ANSWERS = {
    "copy": lambda q: q,
    "reverse": lambda q: q[::-1],
    "sort": sorted,
    "selective-copy": lambda q: [w for w in q if w != "-"],
}


@pytest.mark.parametrize("name", ANSWERS)
def test_sequence_tasks_ask_for_the_right_words(name):
    task = probe_task(name)
    data = task.examples(100, (10, 20), seed=7)
    for ids, targets in zip(data.ids, data.targets, strict=True):
        words = [task.words[i] for i in ids if i]
        question = words[: words.index("?")]
        answer = [task.words[t] for t in targets if t != NO_TARGET]
        assert answer == ANSWERS[name](question)
        assert all(task.words[i] == BLANK for i in ids[targets != NO_TARGET])


def test_sentences_of_ones_own_are_split_before_they_are_swapped(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("\n".join(f"start{i} this is line number end{i}" for i in range(50)))
    task = probe_task(TEXT_TASK, file)
    known = {i for i in task.examples(400, (4, 8), seed=0).ids.flatten().tolist() if i > 1}
    fresh = task.examples(400, (4, 8), seed=0, test=True).ids
    names = {task.words[i] for i in known if task.words[i].startswith("start")}
    assert names
    assert not {task.words[i] for i in fresh.flatten()} & names


def test_wrong_names_and_files_are_named(tmp_path):
    with pytest.raises(ValueError, match="did you mean 'precedence'"):
        probe_task("precedance")
    with pytest.raises(ValueError, match="needs a text file"):
        probe_task(TEXT_TASK)
    with pytest.raises(ValueError, match=r"nowhere.*cannot be read"):
        read_sentences(tmp_path / "nowhere.txt")
    garbage = tmp_path / "garbage"
    garbage.write_bytes(b"ab\xff\xfe")
    with pytest.raises(ValueError, match="not UTF-8 at byte 2"):
        read_sentences(garbage)
    empty = tmp_path / "empty"
    empty.write_text("one\n\n")
    with pytest.raises(ValueError, match="needs more sentences"):
        probe_task(TEXT_TASK, empty)


def test_repeated_sentences_are_not_tested_on_what_was_trained_on(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("\n".join(f"line{i} has four words" for i in range(20) for _ in range(3)))
    task = probe_task(TEXT_TASK, file)
    train, test = (task.examples(300, (10, 20), seed=0, test=t).ids.tolist() for t in (False, True))
    assert not {tuple(row) for row in train} & {tuple(row) for row in test}
