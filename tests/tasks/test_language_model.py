"""Language models: exact scores, writing with a memory, trainings that go on."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from tolerance import approx
from wordwave.config_io import with_settings
from wordwave.data.characters import Alphabet, text_of
from wordwave.models.config import TransformerXLConfig
from wordwave.models.transformer_xl import TransformerXL
from wordwave.models.utils import count_parameters
from wordwave.tasks.config import (
    LanguageModelConfig,
    LanguageModelDataConfig,
    LanguageModelTrainingConfig,
    Sampling,
)
from wordwave.tasks.language_model import (
    LanguageModel,
    bits_of,
    counted_before,
    draw,
    model_for,
)
from wordwave.tasks.language_modelling import LanguageModelJob, LanguageModelTask, Segments
from wordwave.training.run import load_state, state_of

WORDS = "the quick brown fox jumps over the lazy dog. "
REAL = with_settings(
    TransformerXLConfig(),
    embedding="none",
    dim=16,
    n_layers=2,
    n_heads=2,
    feed_forward_dim=24,
    segment_length=8,
    memory_length=8,
    eval_memory_length=6,
)
KINDS = {
    "real": REAL,
    "rope": replace(REAL, position="rope"),
    "waves": with_settings(REAL, embedding="complex-order", dim=12),
    "tpe": with_settings(REAL, embedding="tpe"),
    "waves by segment": with_settings(
        REAL, embedding="complex-order", dim=12, wave_positions="segment"
    ),
    "running waves": with_settings(
        REAL, embedding="complex-order", dim=12, wave_positions="running"
    ),
}
QUICK = LanguageModelTrainingConfig(max_steps=20, eval_every=6, batch_size=3, learning_rate=0.01)


@pytest.fixture(params=KINDS.values(), ids=KINDS.keys())
def config(request):
    return request.param


def a_writer(oracle, config, text=WORDS):
    alphabet = Alphabet.of(text_of(text, "text"), "char")
    model = oracle.randomise(model_for(alphabet, config), 0.4).eval()
    return LanguageModel(model, alphabet, LanguageModelConfig(model=config))


def prepared(config):
    job = LanguageModelJob(config)
    return job.prepare(job.load_data())


def test_bits_do_not_depend_on_how_the_text_is_cut(oracle, config):
    writer = a_writer(oracle, config)
    text = text_of(WORDS * 2, "text")
    ids = torch.from_numpy(writer.alphabet.encode(WORDS * 2)).unsqueeze(0)
    for memory_length in (0, 5, 500):
        logits, _ = writer.model.forward_cached(ids[:, :-1], memory_length=memory_length)
        whole = float(F.cross_entropy(logits[0], ids[0, 1:], reduction="sum")) / math.log(2)
        for batch_size, segment_length in ((1, 5), (2, 7), (5, 16), (16, 128)):
            found = bits_of(
                writer.model,
                writer.alphabet,
                text,
                memory_length=memory_length,
                batch_size=batch_size,
                segment_length=segment_length,
            )
            assert found.n == len(text) - 1
            assert found.total == pytest.approx(whole, rel=1e-5)


def test_a_model_that_knows_nothing_needs_log_v_bits(oracle):
    writer = a_writer(oracle, REAL)
    with torch.no_grad():
        for parameter in writer.model.parameters():
            parameter.zero_()
    bits = writer.bits(text_of(WORDS, "text")).per_character
    assert bits == approx(math.log2(len(writer.alphabet)), terms=len(WORDS))


def test_writing_with_a_memory_is_writing_without(oracle, config):
    writer = a_writer(oracle, config)
    for prompt in ("", WORDS):  # the last is longer than the memory
        for sampling in (Sampling(temperature=0), Sampling(temperature=1.2, top_k=9, top_p=0.9)):
            cached, anew = (
                writer.generate(prompt, 25, sampling=sampling, cached=cached)
                for cached in (True, False)
            )
            assert cached == anew and len(cached) == 25


def test_seeds_repeat_a_text_and_change_it(oracle):
    writer = a_writer(oracle, REAL)
    texts = [writer.generate("the", 60, sampling=Sampling(seed=seed)) for seed in (0, 0, 1)]
    assert texts[0] == texts[1] != texts[2]


def test_narrow_choices_are_kept_and_the_unknown_character_is_never_written(oracle):
    logits = torch.tensor([3.0, 2.0, 1.0, 0.0, -1.0])
    generator = torch.Generator().manual_seed(0)

    def drawn(**options):
        return {draw(logits, Sampling(temperature=2.0, **options), generator) for _ in range(300)}

    assert drawn() == {0, 1, 2, 3, 4}
    assert drawn(top_k=2) == {0, 1}
    assert drawn(top_p=0.6) == {0, 1}
    assert drawn(top_p=1e-9) == {0}
    assert draw(logits, Sampling(temperature=0), generator) == 0
    writer = a_writer(oracle, REAL)
    with torch.no_grad():
        writer.model.bias[0] = 100.0
    assert "\N{REPLACEMENT CHARACTER}" not in writer.generate("ß", 50)
    assert writer.unknown_in("the ß Ö") == ["ß", "Ö"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"temperature": -1.0}, "temperature must be at least 0, got -1.0"),
        ({"top_p": 0.0}, r"top_p must be in \(0, 1\], got 0.0"),
        ({"top_k": -1}, "top_k must be at least 0, got -1"),
    ],
)
def test_wrong_choices_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        Sampling(**wrong)


def test_streams_read_the_text_in_order_and_once():
    text = text_of("".join(chr(32 + i % 90) for i in range(1000)), "text")
    task = LanguageModelTask(text, None, Alphabet.of(text, "char"), length=8)
    batches = task.batches(3, torch.Generator().manual_seed(0))
    assert len(batches) == 333 // 8
    read = torch.stack(list(batches))
    assert (read[1:] - read[:-1] == 8).all() and (read[0].diff() == 333).all()
    assert torch.equal(batches[2:4][1], batches[3])
    huge = Segments(16, 10**12, 128)
    assert len(huge) == 10**12 // 128 and huge[10**9].tolist()[0] == 128 * 10**9


def test_the_loss_is_that_of_one_long_text_and_memory_ends_with_the_epoch(oracle):
    text = text_of(WORDS * 9, "text")
    writer = a_writer(oracle, replace(REAL, memory_length=1000), WORDS)
    task = LanguageModelTask(text, None, writer.alphabet, length=10)
    batches = task.batches(1, torch.Generator().manual_seed(0))
    start = int(batches[0])
    losses = [task.loss(writer.model, rows, lambda _: None) for rows in batches]
    ids = torch.from_numpy(writer.alphabet.ids(text.symbols))[start : start + 401]
    logits, _ = writer.model(ids[None, :-1])
    whole = F.cross_entropy(logits[0], ids[1:], reduction="sum")
    assert sum(total.item() for total, _, _ in losses) == pytest.approx(whole.item(), rel=1e-5)
    assert sum(n for _, n, _ in losses) == 400 and task.n_read == 400
    again, _, _ = task.loss(writer.model, batches[0], lambda _: None)
    assert again.item() == approx(losses[0][0].item(), terms=10) and task.n_read == 10


def test_streams_count_within_words_wherever_they_begin(oracle):
    text = text_of(WORDS * 9, "text")
    writer = a_writer(oracle, replace(KINDS["waves"], memory_length=1000), WORDS)
    of_model = writer.config.model
    for starts in ([0, 1], [3, 4], [7, 200]):
        told = counted_before(text, torch.tensor(starts), writer.alphabet, of_model)
        ids = [writer.alphabet.ids(text.symbols[:start]) for start in starts]
        read = [
            int(writer.model.next_offset(torch.from_numpy(i)[None])) if len(i) else 0 for i in ids
        ]
        assert told.flatten().tolist() == read
    capped = replace(of_model, max_wave_position=2)
    assert counted_before(text, torch.tensor([8]), writer.alphabet, capped).tolist() == [[2]]


@pytest.mark.parametrize("stop_after", [1, 6, 13])
def test_going_on_ends_with_the_weights_of_never_having_stopped(config, stop_after, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(WORDS * 20)
    settings = LanguageModelConfig(
        LanguageModelDataConfig(data=str(path)),
        replace(config, dropout=0.1, memory_length=12),
        QUICK,
    )

    def begun():
        return prepared(settings).training()

    whole, first = begun(), begun()
    list(whole.run())
    for n, _ in enumerate(first.run()):
        if n == stop_after:
            break
    tensors, progress = state_of(first)
    assert any(name.startswith("task.states") for name in tensors)
    second = begun()
    load_state(second, {k: v.clone() for k, v in tensors.items()}, progress)
    list(second.run())
    for name, weight in whole.model.state_dict().items():
        assert torch.equal(weight, second.model.state_dict()[name]), name
    assert whole.progress == second.progress


@pytest.mark.parametrize("kind", ["real", "rope", "waves"])
def test_a_periodic_text_is_learnt_in_seconds(kind, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("abcaabdc " * 2000)
    model = replace(KINDS[kind], eval_memory_length=16, segment_length=16, memory_length=16)
    training = LanguageModelTrainingConfig(
        max_steps=120, eval_every=120, batch_size=8, learning_rate=0.01, precision="fp32"
    )
    config = LanguageModelConfig(LanguageModelDataConfig(data=str(path)), model, training)
    folder = tmp_path / "run"
    result = prepared(config).train(folder)
    assert result["test_bpc"] < 0.1
    writer = LanguageModel.load(folder)
    prompt = "abcaabdc " * 3 + "abca"
    assert writer.generate(prompt, 14, sampling=Sampling(temperature=0)) == "abdc abcaabdc "
    job = LanguageModelJob.from_run(folder)
    figures = job.evaluate(job.test_data(folder)).scores
    assert figures["bpc"] == pytest.approx(result["test_bpc"], rel=1e-4)
    other = tmp_path / "other.txt"
    other.write_text("abcaabdc ☂" * 3)
    figures = job.evaluate(job.read_data(data=other), memory_length=5).scores
    assert figures["unknown"] == 3 and figures["bpc"] > 0.5 and figures["characters"] == 29


def test_bytes_are_learnt_as_characters_are(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"\x00\xff\xfe" * 300)
    training = LanguageModelTrainingConfig(
        max_steps=60, eval_every=60, batch_size=4, learning_rate=0.01
    )
    config = LanguageModelConfig(
        LanguageModelDataConfig(data=str(path), unit="byte"), KINDS["waves"], training
    )
    assert prepared(config).train(tmp_path / "run")["test_bpc"] < 0.5


def test_too_short_a_text_and_settings_without_meaning_are_refused(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("x" * 100)
    config = LanguageModelConfig(
        LanguageModelDataConfig(data=str(path)), REAL, replace(QUICK, batch_size=200)
    )
    with pytest.raises(ValueError, match="more than batch_size=200 characters, got 90"):
        prepared(config).train(tmp_path / "run")
    with pytest.raises(ValueError, match="word_dropout has no meaning for language models"):
        LanguageModelTrainingConfig(word_dropout=0.1)


def test_rows_of_table_6_have_as_many_parameters_as_each_other():
    from experiments.table6 import row_configs

    for size, n in (("small", 864_796), ("paper", 20_495_388)):
        counts = {
            row: count_parameters(TransformerXL(config.model, 28, torch.ones(28, dtype=torch.bool)))
            for row, config in row_configs(size).items()
        }
        assert counts["transformer-xl"] == n
        assert all(abs(c / n - 1) < 0.01 for c in counts.values()), counts
    paper = row_configs("paper")["transformer-xl"]
    assert (paper.model.n_layers, paper.model.dim, paper.model.n_heads) == (6, 512, 8)
    assert (paper.model.feed_forward_dim, paper.training.max_steps) == (2048, 400_000)


def test_table_6_runs_goes_on_and_reports(tmp_path):
    from experiments.table6 import ROWS, Table6, draw_table6, table6_table

    path = tmp_path / "text.txt"
    path.write_text(WORDS * 60)
    changes = (("batch_size", 2), ("eval_every", 1), ("eval_chars", 50), ("test_chars", 50))
    table = Table6(tmp_path / "out", data=str(path), steps=2, seeds=1, changes=changes)
    records = list(table.grid.run_missing(n_jobs=1))
    assert {r["row"] for r in records} == set(ROWS)
    assert not list(table.grid.run_missing(n_jobs=1))
    assert set(table.steps_of("updates").values()) == {2}
    told = table6_table(table).to_markdown()
    assert all(f"| {row} |" in told for row in ROWS) and "equal time" in told
    assert draw_table6(table)[0].read_bytes()[:4] == b"\x89PNG"
