"""`SentenceEncoder`: sentence vectors that encode word order, at the speed of a bag of words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PureWindowsPath
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from wordwave.errors import WordwaveError, unknown
from wordwave.files import check_writable, write_whole
from wordwave.limits import check_limit
from wordwave.models.sentence_encoder import SentenceNetwork, TokenBatch
from wordwave.models.utils import eval_mode
from wordwave.tasks.classifier import finite
from wordwave.tasks.config import SentenceEmbeddingConfig
from wordwave.tasks.run import TextModel
from wordwave.tasks.run_folder import WEIGHTS, reading, save_config
from wordwave.tensor_files import TensorFile, check_like, write_tensors
from wordwave.text.batching import Sentences
from wordwave.text.encoder import TextEncoder
from wordwave.text.tokenizers import BPETokenizer, SubwordTokenizer
from wordwave.text.vocabulary import SPECIALS, Vocabulary

Array = np.ndarray[Any, np.dtype[np.float32]]
Storage = Literal["float32", "float16", "int8"]

CHUNK = 256
"""Texts encoded at once: their waves fit in the cache of a processor."""
TABLES = ("embedding.meaning", "embedding.order")
"""What `save` may store in fewer bits."""
PRETRAINED = Path(__file__).parents[1] / "pretrained"
"""The encoders that come with the package, a folder each."""
DEFAULT_ENCODER = "english"


class SentenceEncoder(TextModel):
    """Encodes sentences as vectors whose cosine depends on their words and on the order of words.

    Args:
        model: computes vectors from tokens.
        tokenizer: splits texts into subwords.
        config: how it was trained.
    """

    task = "embed"
    config_class = SentenceEmbeddingConfig
    model: SentenceNetwork
    config: SentenceEmbeddingConfig

    def __init__(
        self, model: SentenceNetwork, tokenizer: SubwordTokenizer, config: SentenceEmbeddingConfig
    ) -> None:
        self.model, self.tokenizer, self.config = model, tokenizer, config
        vocabulary = vocabulary_of(tokenizer)
        self.encoder = TextEncoder(tokenizer, vocabulary, max_length=config.model.max_length)
        self._begins = torch.tensor([*(True for _ in SPECIALS), *tokenizer.begins_word()])

    @property
    def width(self) -> int:
        """Of the vectors."""
        return self.model.sentence_dim

    @property
    def order_weight(self) -> float:
        """α in (1 − α)·cos(meaning) + α·cos(order). It can be set at any time, from 0 to 1."""
        return self.model.order_weight

    @order_weight.setter
    def order_weight(self, alpha: float) -> None:
        if isinstance(alpha, bool) or not isinstance(alpha, (int, float)):
            raise WordwaveError(f"order_weight must be a number, got {alpha!r}")
        check_limit("order_weight", alpha, (0, 1))
        self.model.order_weight = float(alpha)

    def encode(self, texts: Sequence[str]) -> Array:
        """Vectors of length 1, one a text. Shape: N texts -> (N, width), float32"""
        vectors: Array = self.encode_and_truncated(texts)[0].numpy()
        return vectors

    def encode_and_truncated(self, texts: Sequence[str]) -> tuple[Tensor, int]:
        """Vectors, and the number of texts that were truncated. Shape: N texts -> (N, width)"""
        if isinstance(texts, str):
            raise WordwaveError(f"texts must be a list of texts, got the text {texts[:60]!r}")
        texts, n_truncated = list(texts), 0
        vectors = torch.empty(len(texts), self.width)
        with eval_mode(self.model) as device:
            for i in range(0, len(texts), CHUNK):
                sentences, n = self.encoder.encode(texts[i : i + CHUNK])
                vectors[i : i + CHUNK] = self.model.vectors(self.tokens(sentences).to(device))
                n_truncated += n
        return finite(vectors, "vectors"), n_truncated

    def similarity(self, a: Sequence[str] | Array, b: Sequence[str] | Array) -> Array:
        """The cosine of each of the texts, or vectors of `encode`, with each other one.

        Shape: N and M texts -> (N, M), float32
        """
        cosines: Array = self._vectors(a) @ self._vectors(b).T
        return cosines

    def _vectors(self, given: Sequence[str] | Array) -> Array:
        if not isinstance(given, np.ndarray) or given.dtype.kind in "UO":
            return self.encode(list(given) if isinstance(given, np.ndarray) else given)
        if given.ndim != 2 or given.shape[1] != self.width:
            raise WordwaveError(
                f"vectors must be of shape (N, {self.width}), got {given.shape}; a single one is "
                "vector[None]"
            )
        return given

    def tokens(self, sentences: Sentences) -> TokenBatch:
        """The tokens of sentences with the positions of their words; punctuation has that of the
        word before it."""
        ids, lengths = sentences.ids.long(), sentences.lengths
        begins = self._begins[ids].long()
        counted = begins.cumsum(0)
        before = counted[sentences.starts] - begins[sentences.starts]
        positions = (counted - before.repeat_interleave(lengths)).clamp_(min=1)
        last = sentences.starts + lengths - 1
        return TokenBatch(ids, positions, lengths, positions[last])

    def save(self, folder: str | Path, dtype: Storage = "float32") -> None:
        """Write config.yaml, tokenizer.json and the weights as safetensors.

        Args:
            dtype: of the tables of token vectors; int8 has a scale for each row.
        """
        if dtype not in get_args(Storage):
            raise unknown("dtype", dtype, get_args(Storage))
        folder, data = Path(folder), self.config.data
        check_writable(folder / WEIGHTS)
        # Weights of an earlier model must not be combined with this tokenizer.
        (folder / WEIGHTS).unlink(missing_ok=True)
        teacher = data.teacher and _bare(data.teacher)
        config = replace(
            self.config,
            data=replace(data, data=_bare(data.data), teacher=teacher),
            model=replace(self.config.model, order_weight=self.order_weight),
        )
        save_config(folder, self.task, config)
        self.save_vocabulary(folder)
        write_tensors(folder / WEIGHTS, _stored(self.model.state_dict(), dtype), format="pt")

    def save_vocabulary(self, folder: Path) -> None:
        write_whole(folder / "tokenizer.json", self.tokenizer.bpe.save)

    @classmethod
    def from_pretrained(cls, name_or_folder: str | Path = DEFAULT_ENCODER) -> SentenceEncoder:
        """An encoder that comes with the package by its name, or one from a folder."""
        there = sorted(path.name for path in PRETRAINED.glob("*") if path.is_dir())
        if str(name_or_folder) not in there and Path(name_or_folder).is_dir():
            return cls.load(name_or_folder)
        if str(name_or_folder) not in there:
            shown = ", ".join(there) or "none"
            raise WordwaveError(
                f"there is no folder or encoder '{name_or_folder}'; encoders that come with this "
                f"installation: {shown}"
            )
        return cls.load(PRETRAINED / name_or_folder)

    @classmethod
    def load_parts(cls, folder: Path, config: SentenceEmbeddingConfig) -> SentenceEncoder:
        tokenizer = SubwordTokenizer(BPETokenizer.load(folder / "tokenizer.json"))
        n_tokens, path = len(vocabulary_of(tokenizer)), folder / WEIGHTS
        with reading(path, "does not hold this model"):
            file = TensorFile(path)
            with torch.device("meta"):
                wanted = SentenceNetwork(config.model, n_tokens).state_dict()
            dtype = file.meta.get(f"{TABLES[0]}.weight", torch.empty(0)).dtype
            named = {getattr(torch, name): name for name in get_args(Storage)}
            check_like(file.meta, _stored(wanted, named.get(dtype, "float32")))
            weights = _restored(file.load())
        model = SentenceNetwork(config.model, n_tokens)
        model.load_state_dict(weights)
        return cls(model.eval(), tokenizer, config)


class SentenceTransformersModule(nn.Module):
    """An encoder as the only module of a `sentence_transformers.SentenceTransformer`:

    SentenceTransformer(modules=[SentenceTransformersModule(encoder)])

    It has the methods that such a module needs, and does not import that package.
    """

    def __init__(self, encoder: SentenceEncoder) -> None:
        super().__init__()
        self.encoder, self.network = encoder, encoder.model
        self.max_seq_length = encoder.config.model.max_length

    @property
    def tokenizer(self) -> SubwordTokenizer:
        return self.encoder.tokenizer

    def preprocess(
        self, inputs: Sequence[str], prompt: str | None = None, **_: Any
    ) -> dict[str, Tensor]:
        """The tokens of texts, each after a prompt, as `forward` needs them."""
        sentences, _n = self.encoder.encoder.encode((prompt or "") + text for text in inputs)
        return self.encoder.tokens(sentences)._asdict()

    def tokenize(self, texts: Sequence[str], **options: Any) -> dict[str, Tensor]:
        """The former name of `preprocess`."""
        return self.preprocess(texts, **options)

    def forward(self, features: dict[str, Tensor], **_: Any) -> dict[str, Tensor]:
        """Add `sentence_embedding`, the vectors. Shape: (B, width)"""
        tokens = TokenBatch(*(features[name] for name in TokenBatch._fields))
        return {**features, "sentence_embedding": self.network.vectors(tokens)}

    def get_embedding_dimension(self) -> int:
        return self.encoder.width

    get_sentence_embedding_dimension = get_embedding_dimension
    """The former name."""

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        self.encoder.save(output_path)

    @classmethod
    def load(
        cls, model_name_or_path: str, subfolder: str = "", **_: Any
    ) -> SentenceTransformersModule:
        """Read what `save` wrote to a folder."""
        return cls(SentenceEncoder.load(Path(model_name_or_path) / subfolder))


def vocabulary_of(tokenizer: SubwordTokenizer) -> Vocabulary:
    """The subwords of a tokenizer, in its order."""
    return Vocabulary([*SPECIALS, *tokenizer.bpe.words])


def _stored(weights: dict[str, Tensor], dtype: Storage) -> dict[str, Tensor]:
    """Weights as a file holds them: tables of float16, or of int8 with a scale for each row."""
    stored = dict(weights)
    for table in TABLES:
        weight = weights[f"{table}.weight"]
        if dtype == "float16":
            stored[f"{table}.weight"] = weight.half()
        elif dtype == "int8":
            scale = (weight.abs().amax(dim=1) / 127).clamp(min=torch.finfo(torch.float32).tiny)
            stored[f"{table}.weight"] = (weight / scale.unsqueeze(1)).round().to(torch.int8)
            stored[f"{table}.scale"] = scale
    return stored


def _restored(stored: dict[str, Tensor]) -> dict[str, Tensor]:
    """The float32 weights of `_stored`."""
    weights = {name: tensor.float() for name, tensor in stored.items()}
    for table in TABLES:
        if (scale := weights.pop(f"{table}.scale", None)) is not None:
            weights[f"{table}.weight"] *= scale.unsqueeze(1)
    return weights


def _bare(path: str) -> str:
    """The name of a file: folders are not published. Windows paths are split at both / and \\."""
    return PureWindowsPath(path).name
