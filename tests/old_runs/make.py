"""Make runs.zip beside this file. Works only with the version whose runs they are:

    git worktree add OLD COMMIT  # the one before "Fold 203 modules into 107"
    cd tests/old_runs && PYTHONPATH=OLD/src python make.py

Every model is trained twice with the same settings: to the end (NAME), and until it is stopped
after an evaluation and some more steps (NAME-stopped). expected.json holds what the finished ones
compute.
"""

import json
import os
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import torch
from wordwave.models.translation_config import TranslationModelConfig
from wordwave.models.xl_config import XLConfig
from wordwave.tasks.examples import load_examples
from wordwave.tasks.lm_config import LmConfig, LmDataSettings, LmTrainingSettings
from wordwave.tasks.prepared import train
from wordwave.tasks.translate_config import (
    ParallelSettings,
    PieceSettings,
    TranslateConfig,
    TranslationTraining,
    load_pairs,
)
from wordwave.tasks.writer import Writer
from wordwave.training.settings import TrainingSettings
from wordwave.training.task import Epoch

from wordwave.data.corpora import load_text
from wordwave.models.config import ModelConfig
from wordwave.tasks import classify, language_model, translate
from wordwave.tasks.classifier import TextClassifier
from wordwave.tasks.config import ClassifyConfig, DataSettings, TextSettings
from wordwave.tasks.translator import Translator
from wordwave.training.run import Stopped

COMMON = {"precision": "fp32", "accumulate": 2, "clip": 0.7}
CLASSIFY = TrainingSettings(
    epochs=3, judge_every=3, batch_size=4, warm_up=0.2, learning_rate=0.02, **COMMON
)
TRANSLATE = TranslationTraining(
    max_steps=12, judge_every=4, batch_size=60, average=2, judge_bleu=2, **COMMON
)
LM = LmTrainingSettings(max_steps=12, judge_every=5, batch_size=2, frequency_rate=0.3, **COMMON)
SMALL = {"dim": 4, "hidden_dim": 4, "n_filters": 3, "widths": (2, 3), "n_heads": 2,
         "feed_forward_dim": 6, "max_length": 20}  # fmt: skip
CLASSIFIERS = {
    "fasttext": ModelConfig(
        "complex-order",
        "fasttext",
        **SMALL,
        phase=True,
        share_frequency="word",
        readout="magnitude",
    ),
    "cnn": ModelConfig("complex-vanilla", "cnn", **SMALL, share="tied"),
    "lstm": ModelConfig("tpe", "lstm", **SMALL, position_scale=2.0, state_dim=3),
    "transformer": ModelConfig(
        "complex-order", "transformer", **SMALL, damping=True, frequency_init="log-uniform"
    ),
    "rope": ModelConfig("rope", "transformer", **SMALL | {"dim": 8}),
}
TINY = {"dim": 4, "encoder_layers": 1, "decoder_layers": 1, "n_heads": 2, "feed_forward_dim": 6,
        "max_length": 24}  # fmt: skip
TRANSLATORS = {
    "translator": TranslationModelConfig(
        "transformer", "complex-order", **TINY, norm="post", phase=True, freeze_frequency=True
    ),
    "aed": TranslationModelConfig("aed", "tpe", **TINY),
}
LANGUAGE_MODELS = {
    "lm": XLConfig("complex-order", dim=4, n_layers=1, n_heads=2, feed_forward_dim=6,
                   segment_length=6, memory_length=4, evaluation_memory=8, farthest=9,
                   wave_period=50, share_frequency="dim"),
    "lm-real": XLConfig("none", dim=4, n_layers=1, n_heads=2, feed_forward_dim=6, norm_first=False,
                        segment_length=6, memory_length=4, evaluation_memory=8, tied=False),
}  # fmt: skip


def write_data(folder: Path) -> None:
    rng = Random(0)
    folder.mkdir(exist_ok=True)
    rows = []
    for _ in range(24):
        words = rng.sample(["a", "the", "film", "plot", "was", "is", "very", "not"], 5)
        good = rng.random() < 0.5
        words.insert(rng.randrange(6), "good" if good else "bad")
        rows.append(f"{' '.join(words)},{'pos' if good else 'neg'}")
    (folder / "reviews.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    words = ("red", "green", "blue", "house", "tree", "river", "sky")
    pairs = [[rng.choice(words) for _ in range(4)] for _ in range(20)]
    (folder / "source.txt").write_text("".join(" ".join(p) + "\n" for p in pairs))
    (folder / "target.txt").write_text("".join(" ".join(p[::-1]) + "\n" for p in pairs))
    text = " ".join(
        rng.choice(["once", "upon", "a", "time", "there", "was", "a", "wave"]) for _ in range(160)
    )
    (folder / "story.txt").write_text(text + "\n")


def make(name: str, prepared, n_steps: int) -> None:
    """A finished run and one that was stopped, by a reader that goes away, at a step."""
    for folder in (Path(name), Path(f"{name}-stopped")):
        shutil.rmtree(folder, ignore_errors=True)
    train(prepared(), Path(name))

    def watch(report) -> None:
        if not isinstance(report, Epoch) and getattr(report, "step", 0) == n_steps:
            raise BrokenPipeError

    with suppress(Stopped):
        train(prepared(), Path(f"{name}-stopped"), watch=watch)
    for folder in (Path(name), Path(f"{name}-stopped")):
        shutil.rmtree(folder / "tensorboard", ignore_errors=True)
        for left in (".training.lock", "made-here"):
            (folder / left).unlink(missing_ok=True)
    assert (Path(f"{name}-stopped") / "state" / "state.safetensors").exists()


def main() -> None:
    torch.set_num_threads(1)
    with TemporaryDirectory() as made:
        here = Path.cwd()
        os.chdir(made)
        make_all()
        os.chdir(here)
        with ZipFile("runs.zip", "w", ZIP_DEFLATED, compresslevel=9) as file:
            for path in sorted(p for p in Path(made).rglob("*") if p.is_file()):
                entry = ZipInfo(str(path.relative_to(made)))  # dated 1980
                file.writestr(entry, path.read_bytes(), ZIP_DEFLATED)


def make_all() -> None:
    write_data(Path("data"))
    expected = {}
    texts = ["the film was good", "bad plot", "a very unknown word is not bad"]
    for name, model in CLASSIFIERS.items():
        text = TextSettings(tokeniser="kim" if name == "cnn" else "plain")
        config = ClassifyConfig(DataSettings(data="data/reviews.csv"), text, model, CLASSIFY)
        make(name, lambda c=config: classify.prepare(c, load_examples(c.data)), 5)
        expected[name] = TextClassifier.load(Path(name)).logits(texts).tolist()
    for name, model in TRANSLATORS.items():
        data = ParallelSettings(source="data/source.txt", target="data/target.txt")
        pieces = PieceSettings(words="spaced", bpe_size=260)
        config = TranslateConfig(data, pieces, model, TRANSLATE)
        make(name, lambda c=config: translate.prepare(c, load_pairs(c.data)), 6)
        model = Translator.load(Path(name)).model
        logits = model(torch.tensor([[5, 6, 7, 3]]), torch.tensor([[2, 8, 9]]))
        expected[name] = logits[0, :, ::50].tolist()
    for name, model in LANGUAGE_MODELS.items():
        data = LmDataSettings(data="data/story.txt", judge_on=30, score_on=40)
        config = LmConfig(data, model, LM if name == "lm" else replace(LM, frequency_rate=0.1))
        make(
            name, lambda c=config: language_model.prepare(c, load_text(c.data.data, c.data.unit)), 7
        )
        logits, _ = Writer.load(Path(name)).model(torch.tensor([[3, 4, 5, 6, 2, 3]]))
        expected[name] = logits[0, :, ::4].tolist()
    Path("expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
