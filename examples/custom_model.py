"""WaveEmbedding in a PyTorch model of one's own: learn which of two words comes first.

    python examples/custom_model.py

Every sentence holds the words 1 and 2 among fillers; its label is whether 1 comes before 2. The
model sums its word vectors, so with an ordinary embedding it cannot do better than chance. Needs
only torch and `pip install wordwave` (no extras); takes a few seconds.
"""

import torch
from torch import nn

import wordwave as ww

VOCAB_SIZE, LENGTH = 20, 12


class BagOfWords(nn.Module):
    """Sum of embeddings, one hidden layer."""

    def __init__(self, embedding: nn.Module, width: int) -> None:
        super().__init__()
        self.embedding = embedding
        self.head = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, 2))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Shape: (B, L) -> (B, 2)"""
        return self.head(self.embedding(ids).sum(dim=1))


def sentences(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random fillers with the words 1 and 2 at two positions, and the labels.

    Shape: (n, LENGTH), (n,)
    """
    ids = torch.randint(3, VOCAB_SIZE, (n, LENGTH))
    places = torch.rand(n, LENGTH).argsort(dim=1)[:, :2]
    ids.scatter_(1, places, torch.tensor([1, 2]).expand(n, 2))
    return ids, (places[:, 0] < places[:, 1]).long()


def accuracy(model: nn.Module, ids: torch.Tensor, labels: torch.Tensor) -> float:
    with torch.no_grad():
        return (model(ids).argmax(dim=1) == labels).float().mean().item()


def train(model: BagOfWords, steps: int = 400) -> float:
    """Train on fresh sentences; returns the accuracy on 2,000 others."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        ids, labels = sentences(128)
        loss = nn.functional.cross_entropy(model(ids), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return accuracy(model, *sentences(2000))


def main() -> dict[str, float]:
    torch.manual_seed(0)
    wave = ww.WaveEmbedding(VOCAB_SIZE, 16)  # 16 complex dimensions: 32 real numbers
    scores = {
        "nn.Embedding": train(BagOfWords(nn.Embedding(VOCAB_SIZE, 32), 32)),
        "WaveEmbedding": train(BagOfWords(wave, 32)),
    }
    for name, score in scores.items():
        print(f"{name:<14} accuracy {score:.3f}")

    # The sensitivity δ of a word is the mean of its |ω|: it grows where the position matters.
    delta = wave.sensitivity()
    print(f"δ of words 1, 2: {delta[1]:.2f}, {delta[2]:.2f}; of others {delta[3:].mean():.2f}")
    return scores


if __name__ == "__main__":
    main()
