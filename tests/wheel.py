"""Build the wheel, install it and each of its extras into empty environments, and use what each
offers: `python tests/wheel.py [EXTRA …]`. Prints the size of each environment, and of torch in it.
"""

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUILT_IN = {
    str(path.relative_to(ROOT / "src"))
    for folder in ("data/builtin", "pretrained/english", "explore/static")
    for path in ROOT.glob(f"src/wordwave/{folder}/*")
}
ROWS = "".join(f"{'good fine' if i % 2 else 'bad poor'} word{i % 7},{i % 2}\n" for i in range(40))
TINY = "--dim 4 --hidden-dim 4 --epochs 1 --precision fp32"
TRAIN = f"wordwave train classify --data t.csv --out run {TINY}"
LABORATORY = "--embeddings none --encoders fasttext --n-train 8 --n-test 4 --dim 4 --epochs 1"
CORE = """
import torch, wordwave as ww
ids = torch.tensor([[1, 2, 3]])
z = ww.WaveEmbedding(10, 4)(ids)
assert z.shape == ww.build_embedding("complex-vanilla", 10, 4)(ids).shape == (1, 3, 8)
ww.layers.LSTM(4, 3)(ww.layers.MultiHeadAttention(4, 2)(ww.layers.Linear(4, 4)(z)))
ww.RoPE, ww.ALiBi, ww.RowAdam, ww.read_vectors, ww.complex.magnitude(z)
"""
ESTIMATOR = """
import wordwave as ww
texts, labels = ["a b", "b c", "c d", "d a"] * 5, [0, 1] * 10
ww.WaveClassifier(dim=4, hidden_dim=4, epochs=1).fit(texts, labels).save("saved")
ww.WaveClassifier.load("saved").predict_proba(texts)
ww.TextClassifier.load("saved").predict(texts)
"""
PAIRS = """
import wordwave as ww
pairs = [(f"a b{i}", f"a b{i}" if i % 2 else f"b{i} a") for i in range(20)]
labels = [0, 1] * 10
ww.PairClassifier(dim=4, hidden_dim=4, epochs=1).fit(pairs, labels).predict(pairs)
"""
ENRICH = """
import wordwave as ww
from transformers import BertConfig, BertModel
sizes = dict(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
ww.enrich(BertModel(BertConfig(vocab_size=20, **sizes))).save_pretrained("enriched")
ww.load_enriched("enriched")
"""
USES = {  # extra: Python code, or commands
    "": [CORE],
    "sklearn": [CORE, ESTIMATOR, PAIRS],
    "train": [
        TRAIN,
        "wordwave evaluate run",
        "wordwave predict run t.csv",
        'wordwave explain run "good word1"',
        "wordwave compare --data t.csv --recipes recipes --encoders fasttext --embeddings none "
        "--seeds 1 --jobs 1 --out compare",
        "wordwave train lm --data lm.txt --out lm --dim 4 --n-heads 2 --n-layers 1 "
        "--feed-forward-dim 4 --segment-length 8 --memory-length 8 --max-steps 2 --eval-every 1",
        "wordwave generate lm --length 5",
        "wordwave data list",
        f"wordwave train match --data built-in --out match {TINY} --max-steps 2",
    ],
    "translate": [
        "wordwave train translate --source s.txt --target s.txt --out mt --dim 4 --n-heads 2 "
        "--encoder-layers 1 --decoder-layers 1 --feed-forward-dim 4 --bpe-size 260 --max-steps 2 "
        "--eval-every 1 --eval-bleu 2 --batch-size 64",
        'wordwave translate mt "good word1"',
    ],
    "plots": [
        f"wordwave probe --tasks precedence --jobs 1 --out probe {LABORATORY}",
        TRAIN,
        'wordwave explain run "good word1" --picture why.png',
    ],
    "train,tensorboard": [TRAIN, "import tensorboard"],
    "search": [f"wordwave search --data t.csv --space narrow --trials 2 --jobs 1 --out s {TINY}"],
    "onnx": [TRAIN, "wordwave export run model.onnx"],
    "explore": [
        TRAIN,
        "wordwave explore run --html page.html",
        "from wordwave.explore import server\nserver.import_extra('uvicorn')",
    ],
    "cluster": [
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"  # the experiments are not in the wheel
        "from experiments.cluster import start_workers_on\nfor backend in ('ray', 'dask'):\n"
        "    with start_workers_on(backend, None, len, 1) as workers:\n"
        '        workers.submit("abc")\n        assert workers.wait() == [("abc", 3)]'
    ],
    "datasets": [f"wordwave train classify --data hf:folder --out hub {TINY}"],
    "transformers": [ENRICH],
    "cli": [TRAIN, "wordwave evaluate run", 'wordwave explain run "good word1" --picture why.svg'],
    "all": [TRAIN, "wordwave export run model.onnx"],
}


def files(folder):
    table = "text,label\n" + ROWS
    (folder / "t.csv").write_text(table)
    (folder / "folder").mkdir()
    (folder / "folder" / "train.csv").write_text(table)
    (folder / "s.txt").write_text(
        "".join(row.split(",")[0] + "\n" for row in ROWS.split("\n")[:-1])
    )
    (folder / "lm.txt").write_text("some text of letters. " * 100)
    (folder / "recipes").mkdir()
    tiny = "model: {encoder: fasttext, dim: 4, hidden_dim: 4}\ntraining: {epochs: 1}\n"
    (folder / "recipes" / "fasttext.yaml").write_text(tiny)


def size(folder):
    found = subprocess.check_output(["du", "-sm", str(folder)], text=True)
    return int(found.split()[0])


def check(extra, wheel, folder):
    """Install into an empty environment and use it; MB of it, and of torch alone."""
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    pip = [venv / "bin" / "python", "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt"]
    subprocess.run([*pip, "torch"], check=True)  # pinned, or it would bring CUDA
    base = size(venv)
    subprocess.run([*pip, f"{wheel}[{extra}]" if extra else wheel], check=True)
    work = folder / "work"
    work.mkdir()
    files(work)
    own = {"PATH": f"{venv / 'bin'}:{os.environ['PATH']}", "XDG_STATE_HOME": str(folder / "state")}
    environment = {**os.environ, **own}
    environment.pop("PYTHONPATH", None)
    for use in USES[extra]:
        command = ["sh", "-c", use] if use.startswith("wordwave") else ["python", "-c", use]
        ended = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True)
        if ended.returncode:
            sys.exit(f"[{extra}] {use}\n{ended.stdout[-2000:]}{ended.stderr[-4000:]}")
    return size(venv), base


def main():
    with tempfile.TemporaryDirectory() as name:
        build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", name, ROOT]
        subprocess.run(build, check=True)
        (wheel,) = Path(name).glob("*.whl")
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB")
        with zipfile.ZipFile(wheel) as archive:  # built-in data with its notice and licence
            if missing := BUILT_IN - set(archive.namelist()):
                sys.exit(f"the wheel lacks {missing}")
        for extra in sys.argv[1:] or USES:
            with tempfile.TemporaryDirectory() as folder:
                whole, base = check(extra, wheel, Path(folder))
            print(
                f"{extra or '(core)':20}{whole:>6} MB, {whole - base:>4} without torch", flush=True
            )


if __name__ == "__main__":
    main()
