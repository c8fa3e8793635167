"""Score a sentence encoder by the evaluation code of mteb, on pairs of your own.

    pip install mteb
    python examples/mteb_similarity.py pairs.tsv

The file has the columns text_a, text_b and score, from 0 to 5. Nothing is downloaded.
"""

from __future__ import annotations

import sys
from pathlib import Path

import wordwave as ww
from wordwave.data.pairs import read_pairs


def main(path: str | Path, encoder: ww.SentenceEncoder | None = None) -> dict[str, float]:
    """The scores of mteb's task STSBenchmark, with these pairs as its test set."""
    import mteb
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer

    pairs = read_pairs(path, text_a="text_a", text_b="text_b", label="score")
    task = mteb.get_task("STSBenchmark")
    columns = {"sentence1": pairs.first, "sentence2": pairs.second}
    columns["score"] = [float(score) for score in pairs.labels]
    task.dataset, task.data_loaded = {"test": Dataset.from_dict(columns)}, True

    module = ww.SentenceTransformersModule(encoder or ww.SentenceEncoder.from_pretrained())
    model = SentenceTransformer(modules=[module], device="cpu")
    result = mteb.evaluate(model, task, cache=None, show_progress_bar=False)
    (scores,) = result.task_results[0].scores["test"]
    print(f"cosine, Spearman: {scores['cosine_spearman']:.4f}")
    return scores


if __name__ == "__main__":
    main(sys.argv[1])
