"""Training of sentence encoders: the task, its losses and scores, and the job."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave.data.pairs import TextPairs, read_pairs
from wordwave.data.sentences import SentenceSplits, Vectors, read_sentences, read_teacher
from wordwave.data.tables import label_cell, number_cell
from wordwave.errors import WordwaveError
from wordwave.files import check_inside, sha256_of, write_whole
from wordwave.memory import check_training_fits
from wordwave.models.sentence_encoder import SentenceNetwork, TokenBatch
from wordwave.models.utils import eval_mode
from wordwave.progress import Stage, track
from wordwave.tasks.config import SentenceEmbeddingConfig, SentenceTrainingConfig
from wordwave.tasks.matching import correlations
from wordwave.tasks.run import Evaluation, Job
from wordwave.tasks.sentence_encoder import SentenceEncoder, vocabulary_of
from wordwave.tasks.word_order import concatenated, halves, reordered, shortened
from wordwave.text.tokenizers import SubwordTokenizer, import_extra
from wordwave.training.devices import Processes
from wordwave.training.loop import Positions, Training
from wordwave.training.run import Watch, is_seen

AT_ONCE = 4096
"""Vectors of the teacher projected at once, and validation sentences encoded at once."""
HALVES_TEMPERATURE = 0.05
"""Of the softmax over the sentences of a batch, without a teacher."""
ENCODED_AT_ONCE = 5000
"""Sentences that a model encodes before they are saved."""


@dataclass(frozen=True)
class TokenSentences:
    """The tokens of all sentences, from which batches are taken."""

    tokens: TokenBatch
    starts: Tensor

    @classmethod
    def of(cls, tokens: TokenBatch) -> TokenSentences:
        return cls(tokens, tokens.lengths.cumsum(0) - tokens.lengths)

    def __len__(self) -> int:
        return len(self.starts)

    def batch(self, rows: Tensor) -> TokenBatch:
        """Shape: rows (B,)"""
        lengths = self.tokens.lengths[rows]
        first = (self.starts[rows] - (lengths.cumsum(0) - lengths)).repeat_interleave(lengths)
        at = first + torch.arange(len(first))
        tokens = self.tokens
        return TokenBatch(tokens.ids[at], tokens.positions[at], lengths, tokens.n_words[rows])


@dataclass
class SentenceEmbeddingTask:
    """Imitate a teacher, or match two halves of a sentence; and tell orders of words apart."""

    sentences: TokenSentences
    train: Tensor
    """Rows to train on."""
    dev: Tensor
    """Rows of the validation set."""
    information: Tensor
    """−log p of each token. Shape: (V,)"""
    settings: SentenceTrainingConfig
    targets: Tensor | None = None
    """The teacher's vectors, of the width of the meaning part. Shape: (N, dim), of length 1"""

    def batches(self, size: int, generator: torch.Generator) -> list[Tensor]:
        order = self.train[torch.randperm(len(self.train), generator=generator)]
        return [rows for rows in order.split(size) if len(rows) > 1 or len(order) == 1]

    def loss(self, model: nn.Module, rows: Tensor, positions: Positions) -> tuple[Tensor, int, int]:
        device = next(model.parameters()).device
        tokens = self.sentences.batch(rows)
        other, is_changed = reordered(tokens, self.information)
        ordered = concatenated(tokens, shortened(tokens), other)
        words = tokens if self.targets is not None else concatenated(tokens, *halves(tokens))
        meaning, order = (part.float() for part in model(words.to(device), ordered.to(device)))
        if self.targets is not None:
            targets = self.targets[rows].float().to(device)
            total = len(rows) - (meaning * targets).sum()
            total = total + self._similarity_loss(meaning, targets)
        else:
            targets, *both = meaning.chunk(3)
            total, targets = self._halves_loss(*both), targets.detach()
        total = total + self._similarity_loss(order[: len(rows)], targets)
        total = total + self.settings.order_loss * self._order_loss(order, is_changed.to(device))
        return total, len(rows), len(tokens.ids)

    def _similarity_loss(self, vectors: Tensor, targets: Tensor) -> Tensor:
        """Shape: (B, W), (B, dim)"""
        error = (vectors @ vectors.T - targets @ targets.T).square().sum() / len(vectors)
        return self.settings.similarity_loss * error

    def _halves_loss(self, first: Tensor, second: Tensor) -> Tensor:
        """Shape: both (B, dim)"""
        logits = first @ second.T / HALVES_TEMPERATURE
        rows = torch.arange(len(logits), device=logits.device)
        one, other = (F.cross_entropy(x, rows, reduction="sum") for x in (logits, logits.T))
        return (one + other) / 2

    def _order_loss(self, order: Tensor, is_changed: Tensor) -> Tensor:
        """The sentence and the one without some words are nearer to each other than each of them
        is to another order of the sentence.

        Shape: order (3·B, W), is_changed (B,)
        """
        whole, short, other = order.chunk(3)
        near = (whole * short).sum(-1)
        far = torch.stack([(one * other).sum(-1) for one in (whole, short)])
        losses = F.softplus((far - near) / self.settings.temperature)
        return (losses.mean(dim=0) * is_changed).sum()

    def score(self, model: nn.Module) -> dict[str, float]:
        """The mean cosine with the teacher, or how many sentences are found by halves; the AUC by
        which a sentence without some words is nearer to the sentence than to another order of it;
        and their sum, which selects."""
        assert isinstance(model, SentenceNetwork)
        meanings: list[Tensor] = []
        cosines: list[Tensor] = []
        generator = torch.Generator().manual_seed(0)
        with eval_mode(model) as device:
            for rows in self.dev.split(AT_ONCE):
                tokens = self.sentences.batch(rows)
                other, is_changed = reordered(tokens, self.information, generator=generator)
                short = shortened(tokens, generator=generator)
                parts = halves(tokens, generator=generator) if self.targets is None else (tokens,)
                meanings.append(torch.stack([model.meaning(p.to(device)).cpu() for p in parts]))
                orders = [model.order(p.to(device)).cpu() for p in (short, tokens, other)]
                both = torch.stack([(orders[0] * order).sum(-1) for order in orders[1:]])
                cosines.append(both[:, is_changed])
        meaning, (near, far) = torch.cat(meanings, dim=1), torch.cat(cosines, dim=1)
        if self.targets is None:
            found = (meaning[0] @ meaning[1].T).argmax(dim=1)
            name, value = "halves", float((found == torch.arange(len(found))).double().mean())
        else:
            targets = self.targets[self.dev].float()
            name, value = "teacher_cosine", float((meaning[0] * targets).sum(-1).double().mean())
        auc = _auc(near, far)
        return {"total": value + auc, name: value, "order_auc": auc}


def _auc(near: Tensor, far: Tensor) -> float:
    """The probability that one of the first is higher than one of the second. Shape: (N,), (M,)"""
    from sklearn.metrics import roc_auc_score

    if not len(near) or not len(far):
        return 0.5
    labels = [1] * len(near) + [0] * len(far)
    return float(roc_auc_score(labels, torch.cat([near, far]).numpy()))


def projected(vectors: Vectors, dim: int, name: str = "teacher") -> Tensor:
    """Unit vectors of a smaller width with nearly the same cosines: their first principal
    components, without centring.

    Shape: (N, W) -> (N, dim), float16
    """
    if dim > vectors.shape[1]:
        raise WordwaveError(
            f"dim must be at most the width of the teacher, {vectors.shape[1]}, got {dim}"
        )

    def unit(start: int) -> Tensor:
        chunk = torch.from_numpy(np.array(vectors[start : start + AT_ONCE], dtype=np.float32))
        norms = chunk.norm(dim=1, keepdim=True)
        if not (norms.isfinite() & (norms > 0)).all():
            raise WordwaveError(f"{name}: every vector must be finite and not 0")
        return chunk / norms

    starts = range(0, len(vectors), AT_ONCE)
    products = torch.zeros(vectors.shape[1], vectors.shape[1], dtype=torch.float64)
    for start in starts:
        chunk = unit(start).double()
        products += chunk.T @ chunk
    axes = torch.linalg.eigh(products).eigenvectors[:, -dim:].float()
    return torch.cat([F.normalize(unit(start) @ axes).half() for start in starts])


class _Result(TypedDict):
    dev: dict[str, float]
    best_epoch: int
    parameters: int
    words_per_second: float | None


class SentenceEmbeddingJob(Job[SentenceEmbeddingConfig, SentenceSplits]):
    """Train or evaluate a sentence encoder."""

    model_class, result_schema, counts_epochs = SentenceEncoder, _Result, True
    next_command = "wordwave encode {run} sentences.txt --out vectors.npy"
    config: SentenceEmbeddingConfig
    text_model: SentenceEncoder
    task: SentenceEmbeddingTask
    texts: list[str]

    def load_data(self) -> SentenceSplits:
        data = self.config.data
        if not data.data:
            raise WordwaveError("there must be sentences to train on: --data FILE.txt")
        return read_sentences(data.data, data.teacher if self._teacher_is_file else None)

    @property
    def _teacher_is_file(self) -> bool:
        """Whether the teacher is a file of vectors, not a model."""
        return (self.config.data.teacher or "").endswith(".npy")

    def prepare(self, data: SentenceSplits) -> SentenceEmbeddingJob:
        config = self.config
        rows = track(data.train, "learning subwords", len(data.train))
        texts = (data.texts[row] for row in rows)
        tokenizer = SubwordTokenizer.train(texts, config.text.bpe_size)
        n_tokens, sparse = len(vocabulary_of(tokenizer)), config.training.row_sparse

        def make() -> SentenceNetwork:
            return SentenceNetwork(config.model, n_tokens, sparse=sparse)

        check_training_fits(
            make,
            f"it has {n_tokens:,} subwords (--bpe-size) of width {config.model.dim:,} (--dim)",
            row_sparse=sparse,
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.training.seed)
            model = make()
        self.text_model = encoder = SentenceEncoder(model, tokenizer, config)
        self.notes = [
            f"{len(data.train):,} sentences to train on, {n_tokens:,} subwords, vectors of width "
            f"{encoder.width}"
        ]
        sentences, n_truncated = encoder.encoder.encode(
            track(data.texts, "encoding sentences", len(data.texts))
        )
        if n_truncated:
            self.notes.append(
                f"{n_truncated:,} of {len(data.texts):,} sentences were truncated to "
                f"{config.model.max_length} subwords (--max-length)"
            )
        tokens = TokenSentences.of(encoder.tokens(sentences))
        train = torch.tensor(data.train)
        counts = torch.bincount(tokens.batch(train).ids, minlength=n_tokens).double() + 1
        information = -(counts / counts.sum()).log().float()
        model.weigh(information)
        self.task = SentenceEmbeddingTask(
            tokens, train, torch.tensor(data.dev), information, config.training
        )
        if data.teacher is not None:
            self._imitate(data.teacher)
        self.texts, self.fingerprint = data.texts, data.fingerprint()
        return self

    def _imitate(self, vectors: Vectors) -> None:
        dim = self.config.model.dim
        self.task.targets = projected(vectors, dim, f"teacher '{self.config.data.teacher}'")

    def train(
        self,
        folder: Path,
        *,
        processes: Processes | None = None,
        save_every: float = 60.0,
        watch: Watch | None = None,
        replaces: bool = False,
    ) -> dict[str, Any]:
        name = self.config.data.teacher
        if name and not self._teacher_is_file:
            of = sha256_of([self.fingerprint.encode(), name.encode()])[:16]
            path = folder / f"teacher-{of}.npy"
            encode_by(name, self.texts, path, watch)
            self._imitate(read_teacher(path, len(self.texts)))
        options: dict[str, Any] = {"save_every": save_every, "watch": watch, "replaces": replaces}
        return super().train(folder, processes=processes, **options)

    def final_scores(self, training: Training, folder: Path) -> dict[str, Any]:
        return {"dev": self.task.score(self.text_model.model)}

    @property
    def run_name(self) -> str:
        return f"embed-{Path(self.config.data.data).name.split('.')[0]}"

    def describe(self, result: dict[str, Any]) -> list[str]:
        shown = ", ".join(f"{k.replace('_', ' ')} {v:.4f}" for k, v in result["dev"].items())
        return [f"validation {shown} (epoch {result['best_epoch']})"]

    def read_data(self, **files: Any) -> ScoredPairs:
        """Args: data, text_a, text_b, label: a file and its columns; similarity: the column of
        numbers to compare with, instead of labels."""
        names = ("text_a", "text_b", "label")
        columns: dict[str, Any] = {name: files.get(name) or name for name in names}
        if similarity := files.get("similarity"):
            columns |= {"label": similarity, "label_option": "similarity"}
        checked = number_cell if similarity else label_cell
        pairs = read_pairs(files["data"], **columns, checked=checked, table=files.get("table"))
        return ScoredPairs(pairs, is_similarity=bool(similarity))

    def test_part(self, data: SentenceSplits, folder: Path) -> Any:
        raise WordwaveError("name pairs of sentences to score: there is no test set")

    def evaluate(self, data: ScoredPairs, **options: Any) -> Evaluation:
        """Args: order_weight: of the cosine, by default that of the encoder."""
        encoder, pairs = self.text_model, data.pairs
        if (alpha := options.get("order_weight")) is not None:
            encoder.order_weight = alpha
        first, second = (encoder.encode(part) for part in (pairs.first, pairs.second))
        scores = {"n": len(pairs), **data.agreement(torch.from_numpy((first * second).sum(1)))}
        shown = ", ".join(
            f"{name.replace('_', ' ')} {value:.4f}" for name, value in scores.items() if name != "n"
        )
        return Evaluation(scores, [f"{pairs.name}: cosine {shown}, {len(pairs):,} pairs"])


@dataclass(frozen=True)
class ScoredPairs:
    """Pairs of sentences to compare cosines with."""

    pairs: TextPairs
    is_similarity: bool
    """Whether their labels are numbers."""

    def agreement(self, cosines: Tensor) -> dict[str, float]:
        """How cosines agree with similarities, or with the second of two labels. Shape: (N,)"""
        from sklearn.metrics import average_precision_score, roc_auc_score

        name, given = self.pairs.name, self.pairs.labels
        if self.is_similarity:
            numbers = torch.tensor([float(label) for label in given], dtype=torch.float64)
            return correlations(cosines, numbers)
        labels = sorted(set(given))
        if len(labels) != 2:
            raise WordwaveError(
                f"{name} must have two labels, got {len(labels)}: name a column of numbers with "
                "--similarity"
            )
        is_second = [label == labels[1] for label in given]
        return {
            "auc": float(roc_auc_score(is_second, cosines)),
            "average_precision": float(average_precision_score(is_second, cosines)),
        }


def encode_by(name: str, texts: list[str], path: Path, watch: Watch | None = None) -> None:
    """Let a sentence-transformers model encode sentences, into a float16 .npy file.

    What a stopped process has encoded is in a second file, from which the next one resumes.
    """
    part = path.with_suffix(".part.npy")
    check_inside(path.parent, (path.name, part.name))
    if path.exists():
        return
    package = import_extra("sentence_transformers")
    try:
        teacher = package.SentenceTransformer(name, device="cpu")
    except Exception as problem:  # of many libraries, and of the network
        reason = " ".join(str(problem).split())[:200]
        raise WordwaveError(f"teacher {name!r} cannot be loaded: {reason}") from None
    parts = [np.array(read_teacher(part))] if part.exists() else []
    done = sum(map(len, parts))
    stage = Stage(f"{name} encodes sentences")
    while done < len(texts):
        vectors = teacher.encode(texts[done : done + ENCODED_AT_ONCE], show_progress_bar=False)
        parts.append(np.asarray(vectors, dtype=np.float16))
        done += len(parts[-1])
        _write_array(path if done == len(texts) else part, np.concatenate(parts))
        stage.at(done / len(texts))
        if watch is not None and not is_seen("", watch):  # nobody reads the output any more
            raise KeyboardInterrupt
    part.unlink(missing_ok=True)


def _write_array(path: Path, array: Vectors) -> None:
    def write(new: Path) -> None:
        with new.open("wb") as file:  # by its name alone, numpy would add .npy
            np.save(file, array, allow_pickle=False)

    write_whole(path, write)
