"""`python -m experiments encoder --probes`: what linear probes find in sentence vectors.

Bigram shift: have two neighbours of a sentence been exchanged? Word content: which of 500 words is
in it? After SentEval (Conneau et al., ACL 2018), here on sentences of Wikipedia that no encoder was
trained on. CBOW and CMOW (products of word matrices; Mai et al., ICLR 2019), alone and trained
jointly, are trained on the sentences of the shipped encoder.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, TypedDict

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from experiments.encoder import sentence_lines, training_sentences
from wordwave.errors import WordwaveError
from wordwave.grid import Record, Share, Store, fits
from wordwave.tables import Content, ResultTable
from wordwave.tasks.sentence_encoder import SentenceEncoder
from wordwave.text.tokenizers import build_tokenizer
from wordwave.text.vocabulary import PADDING_ID, UNKNOWN_ID, Vocabulary

Probe = Literal["bigram shift", "word content"]
PROBES: tuple[Probe, ...] = ("bigram shift", "word content")
N_SHIFT = (20_000, 2_000, 4_000)
"""Training, validation and test sentences of bigram shift, half of them shifted."""
N_WORDS, PER_WORD = 500, (45, 5, 10)
"""Words of word content, and sentences of each."""
LENGTHS = range(5, 29)
FIRST_RANK = 500
"""More frequent words are not asked for."""
HIDDEN = 50
"""Units of the probe of bigram shift; that of word content is linear, as in SentEval."""
PROBE_EPOCHS, PROBE_RATE = 30, 1e-2
MATRIX = 20
"""CMOW: words are matrices of so many rows; CBOW has vectors of as many numbers."""
WINDOW, N_NEGATIVE, MIN_COUNT = 4, 5, 5
N_WINDOWS, WINDOW_BATCH, WINDOW_RATE = 400_000, 512, 2e-3
Kind = Literal["CBOW", "CMOW", "CBOW and CMOW"]


class _Score(TypedDict):
    probe: str
    model: str
    width: int
    accuracy: Share


@dataclass(frozen=True)
class ProbeData:
    """Sentences and classes: training, validation, test, one after the other."""

    texts: list[str]
    targets: Tensor
    sizes: tuple[int, ...]


@cache
def unseen_sentences() -> list[list[str]]:
    """The words of Wikipedia sentences that the encoder was not trained on, in random order."""
    seen = set(training_sentences())
    texts = [line for line in sentence_lines("wikipedia") if line not in seen]
    random.Random(2).shuffle(texts)
    return [words for text in texts if len(words := text.split()) in LENGTHS]


@cache
def probe_data(probe: Probe) -> ProbeData:
    """The sentences of a probe, the same at each call."""
    return _shifted() if probe == "bigram shift" else _word_content()


def _shifted() -> ProbeData:
    rng, texts, targets = random.Random(3), list[str](), list[int]()
    for words in unseen_sentences():
        if len(texts) == sum(N_SHIFT):
            break
        # The last word keeps its mark, and neighbours differ.
        places = [i for i in range(len(words) - 2) if words[i].lower() != words[i + 1].lower()]
        if not places:
            continue
        is_shifted = len(texts) % 2
        if is_shifted:
            i = rng.choice(places)
            words = [*words[:i], words[i + 1], words[i], *words[i + 2 :]]
        texts.append(" ".join(words).lower())
        targets.append(is_shifted)
    dev, test = (len(texts) * size // sum(N_SHIFT) for size in N_SHIFT[1:])
    return ProbeData(texts, torch.tensor(targets), (len(texts) - dev - test, dev, test))


def _word_content() -> ProbeData:
    counts = Counter(w for words in unseen_sentences() for w in {x.lower() for x in words})
    ranked = [word for word, _ in counts.most_common() if word.isalpha()]
    middle = ranked[FIRST_RANK : FIRST_RANK + 4 * N_WORDS]
    asked = set(random.Random(4).sample(middle, min(3 * N_WORDS // 2, len(middle))))
    found: dict[str, list[str]] = {}
    for words in unseen_sentences():
        here = [w for w in (word.lower() for word in words) if w in asked]
        if len(here) == 1 and len(found.setdefault(here[0], [])) < sum(PER_WORD):
            found[here[0]].append(" ".join(words))
    full = sorted(word for word, texts in found.items() if len(texts) == sum(PER_WORD))
    if len(full) < N_WORDS:
        raise WordwaveError(
            f"there must be sentences for {N_WORDS} words, got them for {len(full)}"
        )
    chosen = random.Random(5).sample(full, N_WORDS)
    texts, targets, sizes, start = list[str](), list[int](), list[int](), 0
    for n in PER_WORD:
        for number, word in enumerate(chosen):
            texts += found[word][start : start + n]
            targets += [number] * n
        sizes.append(n * len(chosen))
        start += n
    return ProbeData(texts, torch.tensor(targets), tuple(sizes))


def accuracy(vectors: Tensor, data: ProbeData, *, hidden: int = 0) -> float:
    """Train a probe on standardized vectors; the test accuracy of the best epoch on validation.

    Shape: vectors (N, W)
    """
    torch.manual_seed(0)
    train, dev, test = vectors.split(data.sizes)
    parts = data.targets.split(data.sizes)
    mean, std = train.mean(dim=0), train.std(dim=0).clamp(min=1e-6)
    train, dev, test = ((part - mean) / std for part in (train, dev, test))
    n_classes = int(data.targets.max()) + 1
    layers: list[nn.Module] = [nn.Linear(hidden or vectors.shape[1], n_classes)]
    if hidden:
        layers = [nn.Linear(vectors.shape[1], hidden), nn.Sigmoid(), *layers]
    model = nn.Sequential(*layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=PROBE_RATE, fused=True)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, PROBE_EPOCHS)
    best, found = -1.0, 0.0
    for _ in range(PROBE_EPOCHS):
        for rows in torch.randperm(len(train)).split(128):
            optimizer.zero_grad()
            F.cross_entropy(model(train[rows]), parts[0][rows]).backward()
            optimizer.step()
        schedule.step()
        with torch.no_grad():
            on_dev, on_test = (
                float((model(part).argmax(-1) == targets).double().mean())
                for part, targets in ((dev, parts[1]), (test, parts[2]))
            )
        if on_dev > best:
            best, found = on_dev, on_test
    return found


class ProductEncoder(nn.Module):
    """CBOW, CMOW or both side by side: sums of word vectors, products of word matrices in order."""

    def __init__(self, kind: Kind, vocab_size: int) -> None:
        super().__init__()
        self.vectors = self.matrices = None
        if kind != "CMOW":
            self.vectors = nn.EmbeddingBag(
                vocab_size, MATRIX**2, mode="mean", padding_idx=PADDING_ID, sparse=True
            )
            nn.init.normal_(self.vectors.weight, std=1 / MATRIX)
        if kind != "CBOW":
            matrices = torch.eye(MATRIX) + 0.1 * torch.randn(vocab_size, MATRIX, MATRIX)
            self.matrices = nn.Embedding.from_pretrained(
                matrices.flatten(1), freeze=False, sparse=True
            )
        self.width = MATRIX**2 * (1 if kind in ("CBOW", "CMOW") else 2)

    def forward(self, ids: Tensor) -> Tensor:
        """Shape: ids (B, L), padded with 0 -> (B, width)"""
        found = []
        if self.vectors is not None:
            found.append(self.vectors(ids))
        if self.matrices is not None:
            x = self.matrices(ids).unflatten(-1, (MATRIX, MATRIX))
            one = torch.eye(MATRIX).expand_as(x[:, :1])
            x = torch.where((ids != PADDING_ID)[..., None, None], x, one)
            while x.shape[1] > 1:  # neighbours are multiplied, then these products
                if x.shape[1] % 2:
                    x = torch.cat([x, one], dim=1)
                x = x[:, ::2] @ x[:, 1::2]
            found.append(x.flatten(1))
        return torch.cat(found, dim=-1)


@dataclass(frozen=True)
class WordEncoder:
    """A trained `ProductEncoder` on texts."""

    model: ProductEncoder
    vocabulary: Vocabulary

    @torch.no_grad()
    def __call__(self, texts: Sequence[str]) -> Tensor:
        tokenize = build_tokenizer("plain")
        rows = [self.vocabulary.ids(tokenize(text))[:64] or [UNKNOWN_ID] for text in texts]
        found = torch.empty(len(rows), self.model.width)
        order = torch.tensor([len(row) for row in rows]).argsort()
        for chunk in order.split(256):
            ids = nn.utils.rnn.pad_sequence([torch.tensor(rows[i]) for i in chunk.tolist()], True)
            found[chunk] = self.model(ids)
        return found


def train_words(kind: Kind, texts: Sequence[str], n_windows: int = N_WINDOWS) -> WordEncoder:
    """Predict a random word of a window from the others, by negative sampling, as CMOW's authors
    train both kinds."""
    torch.manual_seed(0)
    tokenize = build_tokenizer("plain")
    tokens = [tokenize(text) for text in texts]
    vocabulary = Vocabulary.build(tokens, min_count=MIN_COUNT)
    rows = [torch.tensor(vocabulary.ids(words)) for words in tokens if len(words) > 2]
    lengths = torch.tensor([len(row) for row in rows])
    starts, flat = lengths.cumsum(0) - lengths, torch.cat(rows)
    counts = torch.bincount(flat, minlength=len(vocabulary)).double()
    counts[[PADDING_ID, UNKNOWN_ID]] = 0
    model = ProductEncoder(kind, len(vocabulary))
    output = nn.Embedding(len(vocabulary), model.width, sparse=True)
    nn.init.zeros_(output.weight)
    parameters = [*model.parameters(), *output.parameters()]
    optimizer = torch.optim.SparseAdam(parameters, lr=WINDOW_RATE)
    centres = torch.multinomial(lengths.double(), n_windows, replacement=True)
    for sentences in centres.split(WINDOW_BATCH):
        n = lengths[sentences].unsqueeze(1)
        middle = (torch.rand(len(sentences), 1) * n).long()
        places = middle + torch.arange(-WINDOW, WINDOW + 1)
        is_word = (places >= 0) & (places < n)
        ids = flat[(starts[sentences].unsqueeze(1) + places).clamp(0, len(flat) - 1)]
        ids = ids.masked_fill(~is_word, PADDING_ID)
        at = torch.multinomial(is_word.double(), 1)
        wanted = ids.gather(1, at)
        ids = ids.scatter(1, at, PADDING_ID)
        others = torch.multinomial(counts**0.75, len(ids) * N_NEGATIVE, replacement=True)
        words = torch.cat([wanted, others.view(len(ids), -1)], dim=1)
        logits = (output(words) * model(ids).unsqueeze(1)).sum(dim=-1)
        signs = torch.ones_like(logits).index_fill(1, torch.arange(1, 1 + N_NEGATIVE), -1.0)
        optimizer.zero_grad()
        (-F.logsigmoid(signs * logits).sum() / len(ids)).backward()
        optimizer.step()
    return WordEncoder(model, vocabulary)


def _trained(kind: Kind) -> WordEncoder:
    return train_words(kind, training_sentences())


@dataclass(frozen=True)
class ProbeTable:
    """Probes of an encoder, of its parts and of others: records in `out`."""

    out: Path
    encoder: SentenceEncoder
    sha256: str
    """Of the weights of the encoder, which name it in the records."""

    @property
    def store(self) -> Store:
        key = ("probe", "model", "encoder")
        return Store(self.out / "probes.jsonl", key, lambda record: fits(record, _Score))

    def models(self) -> dict[str, Callable[[], Callable[[Sequence[str]], Tensor]]]:
        """What makes a function from texts to vectors, by name."""

        def ours(alpha: float) -> Callable[[Sequence[str]], Tensor]:
            def encode(texts: Sequence[str]) -> Tensor:
                usual, self.encoder.order_weight = self.encoder.order_weight, alpha
                try:
                    vectors = torch.from_numpy(self.encoder.encode(texts))
                finally:
                    self.encoder.order_weight = usual
                dim = self.encoder.config.model.dim
                return vectors[:, dim:] if alpha == 1 else vectors[:, : dim if alpha == 0 else None]

            return encode

        kinds: tuple[Kind, ...] = ("CBOW", "CMOW", "CBOW and CMOW")
        return {
            "encoder": lambda: ours(self.encoder.order_weight),
            "encoder, meaning": lambda: ours(0.0),
            "encoder, order": lambda: ours(1.0),
            **{kind: partial(_trained, kind) for kind in kinds},
        }

    def run(self, model: str) -> None:
        """Both probes of a model, unless they have been trained."""
        key = {"model": model, "encoder": self.sha256 if model.startswith("encoder") else ""}
        missing = [
            p for p in PROBES if self.store.key_of({**key, "probe": p}) not in self.store.done()
        ]
        if not missing:
            return
        torch.set_num_threads(1)
        encode = self.models()[model]()
        for probe in missing:
            data = probe_data(probe)
            vectors = encode(data.texts)
            hidden = HIDDEN if probe == "bigram shift" else 0
            found = accuracy(vectors, data, hidden=hidden)
            record: Record = {"probe": probe, **key, "width": vectors.shape[1], "accuracy": found}
            self.store.append({**record, "n": list(data.sizes)})

    def table(self) -> ResultTable:
        """A line for each model."""
        lines: list[list[Content]] = []
        for model in self.models():
            mine = {
                r["probe"]: r
                for r in self.store.records()
                if r["model"] == model and r["encoder"] in ("", self.sha256)
            }
            if mine:
                width = next(iter(mine.values()))["width"]
                scores: list[Any] = [mine[p]["accuracy"] if p in mine else None for p in PROBES]
                lines.append([model, width, *scores])
        note = (
            f"Test accuracy. Bigram shift: {N_SHIFT[0]:,} training sentences, two classes, one "
            f"hidden layer of {HIDDEN} units. Word content: {N_WORDS} words, {PER_WORD[0]} "
            "training sentences of each, a linear probe. The epoch is chosen on validation "
            "sentences. Sentences of Wikipedia, 5 to 28 words, that none of these was trained on; "
            f"CBOW and CMOW were trained on the sentences of the encoder, {N_WINDOWS:,} windows. "
            "SentEval's probes are other sentences and 1,000 words: figures do not compare."
        )
        columns = ["vectors", "width", *PROBES]
        return ResultTable("probes", "Probes of sentence vectors", columns, lines, notes=[note])
