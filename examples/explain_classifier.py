"""Train a text classifier on a small table, and explain its predictions.

    python examples/explain_classifier.py

Needs `pip install 'wordwave[sklearn]'`; takes a few seconds.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from wordwave import TextClassifier, WaveClassifier
from wordwave.tasks.explain import explain

SUBJECTS = ("the film", "the plot", "this book", "her song", "the cast", "a scene")
PATTERNS = (
    ("{} was good not bad", "positive"),
    ("{} was bad not good", "negative"),
    ("{} is good", "positive"),
    ("{} is bad", "negative"),
)
"""The first two patterns hold the same words: only their order tells the labels apart."""


def main(folder: Path) -> dict[str, str]:
    rows = [(p.format(subject), label) for subject in SUBJECTS for p, label in PATTERNS] * 4
    texts, labels = zip(*rows, strict=True)
    model = WaveClassifier(encoder="fasttext", epochs=60, dim=32, dropout=0.1, dev_share=0.1)
    model.fit(list(texts), list(labels))
    model.save(folder)  # config.yaml, vocab.json, model.safetensors

    classifier = TextClassifier.load(folder)
    predicted = {}
    for text in ("the film was good not bad", "the film was bad not good"):
        found = explain(classifier, text)
        predicted[text] = found.label
        print(f"{text!r}: {found.label}, p = {found.probabilities[found.label]:.3f}")
        for part in found.words:
            print(
                f"  {part.word:<6} brings {part.importance:+.2f}, its place {part.moved_mean:.2f}"
            )
    return predicted


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        main(Path(folder))
