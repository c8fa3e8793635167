"""Translation from pairs to a run folder: learning, stopping and going on, averaging, scores."""

import random
import signal
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from wordwave.config_io import with_settings
from wordwave.data.parallel import ParallelSentences, ParallelSplits
from wordwave.models.config import TranslationModelConfig
from wordwave.tasks.bleu import score_translations
from wordwave.tasks.config import (
    ParallelDataConfig,
    SubwordConfig,
    TranslationConfig,
    TranslationTrainingConfig,
)
from wordwave.tasks.translation import TranslationJob, TranslationTask
from wordwave.tasks.translator import BeamConfig, Translator
from wordwave.training.loop import Step
from wordwave.training.run import TrainingStopped

WORDS = ("ab", "cd", "ef", "gh", "ij", "kl")


def mirrored(n, seed=0, name="mirror"):
    """Four words, and the same words from the last to the first."""
    rng = random.Random(seed)
    rows = [[rng.choice(WORDS) for _ in range(4)] for _ in range(n)]
    return ParallelSentences(
        [" ".join(row) for row in rows], [" ".join(row[::-1]) for row in rows], name
    )


PARTS = ParallelSplits(mirrored(800), mirrored(40, 1), mirrored(40, 2))


def config(embedding="complex-order", dim=16, model=None, **training):
    settings = {"max_steps": 240, "eval_every": 80, "batch_size": 300, "learning_rate": 0.01}
    settings |= {"schedule": "one-cycle", "warmup_fraction": 0.1}
    settings |= {"label_smoothing": 0.0, "precision": "fp32", "average": 2, "eval_bleu": 10}
    return TranslationConfig(
        ParallelDataConfig(),
        SubwordConfig(words="spaced", bpe_size=268),
        with_settings(
            TranslationModelConfig(),
            embedding=embedding,
            dim=dim,
            encoder_layers=1,
            decoder_layers=1,
            n_heads=2,
            feed_forward_dim=2 * dim,
            dropout=0.0,
            max_length=24,
            **model or {},
        ),
        TranslationTrainingConfig(**settings | training),
    )


def prepared(settings, data=PARTS):
    return TranslationJob(settings).prepare(data)


@pytest.fixture(scope="module")
def learnt(tmp_path_factory):
    """A finished run of waves, and what it said."""
    folder = tmp_path_factory.mktemp("runs") / "mirror"
    job = prepared(config())
    return folder, job, job.train(folder)


def test_waves_learn_to_turn_sentences_round(learnt):
    folder, _, result = learnt
    assert result["test"]["tokenised_bleu"]["value"] > 80
    assert result["test"]["n"] == 40 and result["steps"] == 240
    assert {p.name for p in folder.iterdir()} >= {
        "config.yaml", "tokenizer.json", "model.safetensors", "metrics.jsonl", "result.json",
    }  # fmt: skip
    assert not (folder / "state").exists()


@pytest.mark.parametrize(
    ("embedding", "model"), [("rope", {}), ("tpe", {"norm_first": False}), ("none", "aed")]
)
def test_the_others_learn_too(embedding, model):
    model = {"architecture": "aed"} if model == "aed" else model
    settings = config(
        embedding, 32, model, average=0, eval_bleu=0, max_steps=160, learning_rate=0.006
    )
    reports = prepared(settings).training().run()
    looks = [r.scores["likelihood"] for r in reports if not isinstance(r, Step)]
    assert looks[-1] > looks[0] and looks[-1] > -0.7


def test_what_was_saved_says_the_same(learnt):
    folder, job, _ = learnt
    loaded = Translator.load(folder)
    texts = [*PARTS.test.sources[:8], "", "cd Ж☂ ab", "  ", "kl " * 100]
    search = BeamConfig(beam=3, n_best=2)
    said, n_cut = loaded.translations(texts, search)
    assert said == job.text_model.translations(texts, search)[0]
    assert n_cut == 1 and [len(best) for best in said] == [2] * 8 + [1, 2, 1, 2]
    assert said[8][0].text == said[10][0].text == ""
    assert all(best[0].score >= best[-1].score for best in said)


def test_the_company_of_a_sentence_does_not_change_its_translation(learnt):
    translator = learnt[1].text_model
    texts = [*PARTS.test.sources, "ab " * 20]
    together = translator.translate(texts)
    shuffled = random.Random(0).sample(range(len(texts)), len(texts))
    assert translator.translate([texts[i] for i in shuffled]) == [together[i] for i in shuffled]
    assert [translator.translate([text])[0] for text in texts[:10]] == together[:10]


@pytest.mark.parametrize("stop_at", [80, 107])
def test_a_run_that_was_stopped_ends_with_the_same_weights(learnt, tmp_path, stop_at):
    def stop(report):
        if isinstance(report, Step) and report.step == stop_at:
            signal.raise_signal(signal.SIGINT)

    settings = config()
    with pytest.raises(TrainingStopped):
        prepared(settings).train(tmp_path, watch=stop)
    assert (tmp_path / "state" / "state.safetensors").exists()
    again = prepared(settings).train(tmp_path)
    one, other = (load_file(folder / "model.safetensors") for folder in (learnt[0], tmp_path))
    assert all(one[name].equal(other[name]) for name in one)
    assert again["test"] == learnt[2]["test"] and again["averaged"] == learnt[2]["averaged"]


def test_the_mean_of_the_last_looks_is_that(learnt):
    task = TranslationTask(learnt[1].task.train, learnt[1].task.dev, config().training)
    for value in (1.0, 2.0, 4.0):
        task.recent.append({"w": torch.full((2,), value)})
    assert task.averaged()["w"].tolist() == [3.0, 3.0]
    other = replace(task)
    other.load_state(task.state())
    assert [w["w"][0].item() for w in other.recent] == [2.0, 4.0]


def test_batches_fill_the_budget_and_hold_every_pair_once(learnt):
    task = learnt[1].task
    generator = torch.Generator().manual_seed(0)
    batches = task.batches(60, generator)
    assert sorted(torch.cat(batches).tolist()) == list(range(800))
    sizes = [len(rows) * int(task.train.lengths[rows].max()) for rows in batches]
    assert max(sizes) <= 60 and sum(sizes) / len(sizes) > 45
    assert [b.tolist() for b in batches] != [b.tolist() for b in task.batches(60, generator)]


def test_pairs_that_are_too_long_are_left_out_and_counted():
    train_pairs = ParallelSentences(["ab " * 100, "cd"], ["ab", "cd"], "odd")
    job = prepared(config(eval_bleu=0), replace(PARTS, train=train_pairs))
    assert len(job.task.train.sources) == 1
    assert "1 of 2 pairs of odd have more than 24 subwords and were left out" in job.notes[1]
    with pytest.raises(ValueError, match="odd must have a pair of at most 24 subwords"):
        prepared(config(), replace(PARTS, train=train_pairs.subset([0], "odd")))


def test_moses_words_go_there_and_back():
    text = SubwordConfig(words="moses", bpe_size=300)
    pairs = ParallelSentences(["Hello, world!"] * 4, ["Hallo „Welt“, it's 3.5% (so)!"] * 4)
    job = prepared(replace(config(eval_bleu=0), text=text), ParallelSplits(pairs, pairs, None))
    pieces = job.text_model.subwords
    tokenised = pieces.target.tokenised(pairs.targets[0])
    assert tokenised.startswith('Hallo " Welt " , it')
    ids = pieces.encode([tokenised])[0].padded([0])[0].tolist()
    assert pieces.tokenised(ids) == tokenised and 1 not in ids
    assert pieces.target.plain("Hallo , Welt !") == "Hallo, Welt!"


def test_scores_have_intervals_and_signatures():
    wanted = [f"Das ist der Satz Nummer {i}, und er ist gut." for i in range(30)]
    same = score_translations(wanted, wanted, language="de", n_bootstrap=50)
    assert same["bleu"]["value"] == pytest.approx(100) and same["chrf"]["value"] == pytest.approx(
        100
    )
    said = [w.upper() if i % 3 else w for i, w in enumerate(wanted)]
    scores = score_translations(said, wanted, language="de", n_bootstrap=50)
    assert scores["tokenised_bleu"]["value"] == pytest.approx(100)
    low, high = scores["bleu"]["interval"]
    assert low < scores["bleu"]["value"] < high < 100
    signature = scores["bleu"]["signature"]
    assert "case:mixed" in signature and "tok:13a" in signature
    assert "case:lc" in scores["tokenised_bleu"]["signature"]
    with pytest.raises(ValueError, match="must have a reference, got 30 and 29"):
        score_translations(said, wanted[1:], language="de")


def test_evaluate_translates_and_scores(learnt):
    scores = learnt[1].evaluate(PARTS.dev, beam=1).scores
    assert scores["n"] == 40 and scores["tokenised_bleu"]["value"] > 80


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"row_sparse": True}, "row_sparse must be off"),
        ({"select": "bleu", "eval_bleu": 0}, "select 'bleu' needs eval_bleu above 0"),
        ({"label_smoothing": 1.0}, r"label_smoothing must be in \[0, 1\), got 1.0"),
        ({"average": -1}, "average must be at least 0, got -1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        TranslationTrainingConfig(**options)
