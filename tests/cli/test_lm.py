"""`train lm`, `generate` and the evaluation of language models, as a user meets them."""

import json

import pytest
import torch

from wordwave.cli.evaluate import evaluate
from wordwave.models.transformer_xl import TransformerXL
from wordwave.models.utils import count_parameters
from wordwave.recipes import FOLDER, read_recipe
from wordwave.tasks.config import LanguageModelConfig
from wordwave.tasks.language_modelling import LanguageModelJob

TINY = ("--dim", "8", "--n-heads", "2", "--n-layers", "2", "--feed-forward-dim", "16")
TINY += ("--segment-length", "16", "--memory-length", "16", "--eval-memory-length", "20")
TINY += ("--batch-size", "4", "--max-steps", "40", "--eval-every", "20", "--learning-rate", "0.01")


@pytest.fixture(scope="module")
def novel(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "novel.txt"
    path.write_text("Es war einmal ein schönes Schaf. " * 100, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(cli, novel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "novel"
    said = cli.call("train", "lm", "--data", novel, "--out", folder, *TINY)
    assert said.code == 0, said.err
    assert "bits per character" in said.out and "wordwave generate" in said.out
    return folder


def test_a_run_folder_is_what_others_can_read(run):
    assert {p.name for p in run.iterdir()} >= {
        "config.yaml", "vocab.json", "model.safetensors", "metrics.jsonl", "result.json"
    }  # fmt: skip
    assert not (run / "state").exists()
    assert "task: lm" in (run / "config.yaml").read_text()
    assert json.loads((run / "result.json").read_text())["test_bpc"] > 0


def test_a_finished_run_says_so_and_other_settings_are_refused(cli, novel, run):
    again = cli.call("train", "lm", "--data", novel, "--out", run, *TINY)
    assert again.code == 0 and "finished already" in again.out
    other = cli.call("train", "lm", "--data", novel, "--out", run, *TINY, "--n-layers", "3")
    cli.refusal(other, "holds a run with n_layers 2, here it is 3")


def test_it_writes_from_a_prompt_a_pipe_or_nothing(cli, run):
    prompt = "Es war" + " einmal" * 9  # longer than the memory
    said = cli.call("generate", run, "--prompt", prompt, "--length", "30", "--top-k", "5")
    assert said.code == 0 and said.out.startswith(prompt)
    assert len(said.out) == len(prompt) + 31
    again = cli.call("generate", run, "--prompt", prompt, "--length", "30", "--top-k", "5")
    assert again.out == said.out
    piped = cli.call("generate", run, "--prompt", "-", "--length", "5", stdin="schön".encode())
    assert piped.out.startswith("schön") and len(piped.out) == 11
    assert len(cli.call("generate", run, "--length", "7").out) == 8


def test_a_character_never_seen_is_told_of_and_read_as_unknown(cli, run):
    said = cli.call("generate", run, "--prompt", "ein ☂", "--length", "5")
    assert said.code == 0 and said.out.startswith("ein ☂")
    assert said.err.strip() == "unknown characters, not in the training set: '☂'"


def test_it_scores_any_file_and_draws_its_frequencies(run, tmp_path, capsys):
    other = tmp_path / "other.txt"
    other.write_text("ein Schaf ☂ " * 9, encoding="utf-8")
    picture, figures = tmp_path / "waves.png", tmp_path / "figures.json"
    words = [str(run), "--data", str(other), "--picture", str(picture), "--json", str(figures)]
    evaluate(words, "wordwave evaluate")
    told = json.loads(figures.read_text())
    assert told["characters"] == 107 and told["unknown"] == 9
    assert f"{told['bpc']:.4f} bits per character" in capsys.readouterr().out
    assert picture.read_bytes()[:4] == b"\x89PNG"
    evaluate([str(run)], "wordwave evaluate")
    result = json.loads((run / "result.json").read_text())
    assert f"{result['test_bpc']:.4f}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", ["novel.txt", "got an empty file"]),
        (b"caf\xe9 " * 99, ["novel.txt", "must be UTF-8", "--unit byte"]),
        (b"short", ["novel.txt", "at least 40 characters", "got 5"]),
        (None, ["there is no text file", "novel.txt"]),
    ],
)
def test_bad_texts_are_one_line(cli, tmp_path, raw, said):
    path, out = tmp_path / "novel.txt", tmp_path / "run"
    if raw is not None:
        path.write_bytes(raw)
    cli.refusal(cli.call("train", "lm", "--data", path, "--out", out, *TINY), *said)
    assert not out.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--config", "fasttext"], ["there is no recipe 'fasttext' for lm", "lm-paper"]),
        (["--config", "no.yaml"], ["there is no config file 'no.yaml'"]),
        (["--position", "rope"], ["'rope' goes with embedding 'none'"]),
        (["--word-dropout", "0.1"], ["word_dropout has no meaning"]),
        (["--data", "text9"], ["did you mean 'text8'?"]),
    ],
)
def test_bad_settings_are_one_line(cli, tmp_path, words, said):
    cli.refusal(cli.call("train", "lm", "--out", tmp_path / "run", *words), *said)


def test_bad_runs_and_choices_are_one_line(cli, run, trained, tmp_path):
    cli.refusal(cli.call("generate", tmp_path), "is not a run folder")
    cli.refusal(
        cli.call("generate", trained.folder), "is a run of 'classify', expected one of 'lm'"
    )
    cli.refusal(cli.call("generate", run, "--temperature", "-1"), "temperature must be at least 0")
    cli.refusal(cli.call("generate", run, "--length", "-1"), "length must be at least 0, got -1")
    endless = cli.call("generate", run, "--length", "1000000000")
    cli.refusal(endless, "length must be at most 10000000, got 1000000000")
    cli.refusal(cli.call("generate", run, "--memory", "1000000"), "memory must be at most 100000")


@pytest.mark.parametrize("name", sorted(p.stem for p in FOLDER.glob("lm-*.yaml")))
def test_every_recipe_is_a_config_of_the_size_it_says(name):
    config = read_recipe(name, LanguageModelConfig)
    letters = torch.ones(28, dtype=torch.bool)
    n = count_parameters(TransformerXL(config.model, 28, letters))
    told = (FOLDER / f"{name}.yaml").read_text()
    assert f"{n:,} parameters" in told or (f"{n / 1e6:.1f} million" in " ".join(told.split()))


@pytest.mark.parametrize("parts", [("valid", "test"), ("valid",)])
def test_a_finished_run_tells_what_it_was_scored_on(parts):
    figures = {"best_step": 3, "parameters": 7, "characters_per_second": 9.0}
    figures |= {f"{part}_bpc": 1.5 for part in parts}
    figures |= {f"{part}_characters": 1000 for part in parts}
    told = "\n".join(LanguageModelJob(LanguageModelConfig()).summary(figures))
    assert ("test 1.5000 bits" in told) == ("test" in parts)
    assert told.startswith("valid 1.5000") and "1,000 characters; weights of step 3" in told
