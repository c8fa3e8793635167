"""train translate → translate, as a user meets them."""

import json
import re
from types import SimpleNamespace

import pytest
import torch

from wordwave.plotting import draw_attention

WORDS = ("ab", "cd", "ef", "gh")
QUICK = ("--dim", "8", "--encoder-layers", "1", "--decoder-layers", "1", "--n-heads", "2")
QUICK += ("--feed-forward-dim", "8", "--bpe-size", "264", "--max-length", "40")
QUICK += ("--max-steps", "12", "--eval-every", "6", "--batch-size", "200", "--eval-bleu", "4")


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    texts = [f"{WORDS[i % 4]} {WORDS[i // 4 % 4]}, ok." for i in range(60)]
    return SimpleNamespace(
        source=write(folder / "small.en", texts),
        target=write(folder / "small.de", [text.upper() for text in texts]),
    )


def train(cli, files, out, *more):
    own = ("--source", files.source, "--target", files.target)
    return cli.call("train", "translate", *own, "--out", out, *QUICK, *more)


@pytest.fixture(scope="module")
def run(cli, files, tmp_path_factory):
    """A finished run, and what was said when it was trained. Not to be changed."""
    folder = tmp_path_factory.mktemp("runs") / "small"
    tests = ("--test-source", files.source, "--test-target", files.target)
    said = train(cli, files, folder, *tests)
    assert said.code == 0, said.err
    return SimpleNamespace(folder=folder, said=said)


def test_training_says_what_it_found_what_it_wrote_and_what_to_do_next(run):
    out = run.said.out
    assert "54 pairs, 268 subwords for both languages" in out
    assert re.search(r"BLEU \d.*\[.*\] on 60 sentences, nrefs:1\|", out) and "chrF" in out
    assert f'Next: echo "a sentence" | wordwave translate {run.folder}' in out
    assert run.said.err == ""
    assert json.loads((run.folder / "result.json").read_text())["steps"] == 12


def test_the_same_command_again_is_finished_and_other_settings_are_refused(cli, files, run):
    tests = ("--test-source", files.source, "--test-target", files.target)
    assert "is finished already" in train(cli, files, run.folder, *tests).out
    cli.refusal(
        train(cli, files, run.folder, *tests, "--seed", "1"), "holds a run with seed 0", "it is 1"
    )


def test_evaluate_scores_the_test_part_or_files(cli, files, run, tmp_path):
    shown = cli.call("evaluate", run.folder, "--json", tmp_path / "scores.json")
    assert shown.code == 0, shown.err
    assert re.search(r"BLEU \d.*on 60 sentences, nrefs:1", shown.out) and "chrF" in shown.out
    told = json.loads((run.folder / "result.json").read_text())["test"]
    assert json.loads((tmp_path / "scores.json").read_text())["bleu"] == told["bleu"]
    own = ("--source", write(tmp_path / "a", ["ab"] * 2), "--target", write(tmp_path / "b", ["AB"]))
    cli.refusal(cli.call("evaluate", run.folder, *own), "ends after 1 lines", "goes on")
    cli.refusal(cli.call("evaluate", run.folder, *own[:2]), "source and target go together")


def test_a_finished_run_is_not_taken_for_one_on_other_pairs(cli, files, tmp_path):
    folder = tmp_path / "run"
    own = SimpleNamespace(
        source=write(tmp_path / "own.en", files.source.read_text().splitlines()),
        target=write(tmp_path / "own.de", files.target.read_text().splitlines()),
    )
    assert train(cli, own, folder).code == 0
    write(own.target, ["changed", *own.target.read_text().splitlines()[1:]])
    cli.refusal(train(cli, own, folder), "holds a finished run on other examples", "--out")


def test_sentences_are_translated_in_their_order(cli, run, tmp_path):
    texts = ["ab cd, ok.", "", "gh", "☂ Ж 漢字", "ef " * 9]
    piped = cli.call("translate", run.folder, stdin="\n".join(texts).encode())
    assert piped.code == 0, piped.err
    lines = piped.out.split("\n")
    assert len(lines) == 6 and lines[1] == ""
    file, out = write(tmp_path / "in.txt", texts), tmp_path / "new" / "out.txt"
    told = cli.call("translate", run.folder, file, "--out", out)
    assert told.out == "" and f"Written: {out}" in told.err
    assert out.read_text(encoding="utf-8") == piped.out
    single = cli.call("translate", run.folder, stdin=b"gh\n")
    assert single.out == lines[2] + "\n"


def test_n_best_are_told_with_scores_the_best_one_first(cli, run):
    told = cli.call("translate", run.folder, "--n-best", "3", stdin="ab\n☂ cd".encode())
    answers = [json.loads(line) for line in told.out.splitlines()]
    assert [a["text"] for a in answers] == ["ab", "☂ cd"]
    for answer in answers:
        scores = [t["score"] for t in answer["translations"]]
        assert len(scores) == 3 and scores == sorted(scores, reverse=True)
        assert all(t["log_probability"] < 0 for t in answer["translations"])


def test_a_picture_of_attention_and_scores_against_references(cli, run, files, tmp_path):
    picture = tmp_path / "heard.png"
    told = cli.call(
        "translate", run.folder, files.source, "--reference", files.target, "--picture", picture
    )
    assert told.code == 0 and len(told.out.splitlines()) == 60
    assert picture.stat().st_size > 1000 and "BLEU, lower-case tokens" in told.err
    cli.refusal(
        cli.call("translate", run.folder, "--picture", tmp_path / "a.txt", stdin=b"ab"),
        "a picture must end in .png",
    )
    late = cli.call("translate", run.folder, "--picture", tmp_path / "b.png", stdin=b"\n\x01\nab\n")
    assert late.code == 0 and (tmp_path / "b.png").exists()
    short = write(tmp_path / "short", ["AB"])
    cli.refusal(
        cli.call("translate", run.folder, files.source, "--reference", short),
        "must have a line for each of the 60",
    )


def test_a_picture_draws_control_characters_as_unknown_ones(tmp_path):
    """No font has them, and a model that has learnt little writes them."""
    picture = draw_attention(["ab", "\x01"], ["\x04 $"], torch.ones(1, 1, 2), tmp_path / "a.png")
    assert picture.stat().st_size > 1000


def test_a_line_of_ten_thousand_words_is_cut_and_that_is_said(cli, run, tmp_path):
    told = cli.call("translate", run.folder, "--beam", "1", stdin=b"ab\n" + b"cd " * 10_000)
    assert told.code == 0 and len(told.out.splitlines()) == 2
    assert told.err == "1 of 2 sentences were truncated to 40 subwords\n"
    pairs = ("--source", write(tmp_path / "a", ["cd " * 10_000]), "--target")
    shown = cli.call("evaluate", run.folder, *pairs, write(tmp_path / "b", ["CD"]), "--beam", "1")
    assert shown.code == 0 and "1 of 1 sentences were truncated to 40 subwords" in shown.out


def test_mistakes_are_one_line(cli, run, files, trained, tmp_path):
    short = write(tmp_path / "short.de", ["AB"])
    holes = write(tmp_path / "holes.de", [*["AB"] * 9, "", *["AB"] * 50])
    call, refusal = cli.call, cli.refusal
    base = ("train", "translate", "--out", tmp_path / "run", "--source", files.source)
    refusal(call(*base, "--target", short), "short.de' ends after 1 lines", "goes on")
    refusal(call(*base, "--target", holes), "line 10 must hold a sentence, got nothing")
    refusal(call(*base, "--target", tmp_path / "no.de"), "does not exist")
    refusal(call(*base), "source and target go together")
    for name in ("English", "EN"):
        refusal(
            call("train", "translate", "--source-language", name),
            f"must be a code of two or three small letters such as de, got '{name}'",
        )
    refusal(call("train", "translate", "--data", "multi30"), "did you mean 'multi30k'?")
    refusal(
        call("train", "translate", "--config", "tiny"),
        "no recipe 'tiny' for translate",
    )
    refusal(call("train", "translate", "--dim", "7"), "multiple of n_heads")
    learnt = ("--target", files.target, "--embedding", "pe", "--max-length", "40")
    refusal(call(*base, *learnt, "--random-positions", "60"), "must be at most 41")
    wild = ("--out", tmp_path / "wild", "--source", files.source, "--target", files.target)
    wild += ("--learning-rate", "1e30", "--eval-every", "1", "--max-steps", "3")
    refusal(call("train", "translate", *wild), "lower learning_rate, got 1e+30")
    other = trained.folder / "config.yaml"
    refusal(call("train", "translate", "--config", other), "is a config of 'classify'")
    refusal(call("train", "translate", "--out", trained.folder), "is a run of 'classify'")
    refusal(call("translate", trained.folder, stdin=b"a"), "expected one of 'translate'")
    refusal(call("predict", run.folder, stdin=b"a"), "is a run of 'translate'")
    refusal(call("translate", tmp_path, stdin=b"a"), "not a run folder")
    refusal(call("translate", run.folder, "--n-best", "9", stdin=b"a"), "n_best must be")
    refusal(call("translate", run.folder, stdin=b""), "must hold at least one text")
    refusal(call("translate", run.folder, stdin=b"\xff"), "must be UTF-8")
    assert not (tmp_path / "run").exists()


def test_a_broken_model_is_refused(cli, run, tmp_path):
    for name in ("config.yaml", "tokenizer.json"):
        (tmp_path / name).write_bytes((run.folder / name).read_bytes())
    cli.refusal(cli.call("translate", tmp_path, stdin=b"a"), "holds no trained model yet")
    weights = (run.folder / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    cli.refusal(cli.call("translate", tmp_path, stdin=b"a"), "does not hold this model")
