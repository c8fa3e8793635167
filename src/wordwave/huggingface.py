"""Waves added to the word embedding of a pretrained Hugging Face encoder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PreTrainedModel
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)

from wordwave.config_io import from_dict, read_json, to_dict
from wordwave.embedding.config import Sharing
from wordwave.embedding.wave import WaveEmbedding
from wordwave.errors import WordwaveError
from wordwave.limits import DEPTH, WIDTH, Limited
from wordwave.tensor_files import TensorFile, check_like

M = TypeVar("M", bound=PreTrainedModel)

KEY = "wordwave"
"""The key of the settings in config.json, and the module whose tensors belong to the waves."""
FREQUENCIES = (0.003, 1.0)
"""Initial ones, log-uniform: from a turn in six words to a radian in 333."""
POSITION_TABLES = ("position_embeddings", "position_embedding")
"""What transformers calls tables of absolute positions: BERT and its relatives, CLIP."""
HUB_OPTIONS = ("revision", "cache_dir", "force_download", "local_files_only", "token")
MOST_NEW = 10_000_000
"""Numbers that a model may have beyond twice those in its files, such as a head of its own."""
MESSAGE = 300
"""Characters of another library's message that are shown."""


@dataclass(frozen=True)
class EnrichConfig(Limited):
    """How a model was enriched; saved in its config.json."""

    dim: Annotated[int, WIDTH] = 64
    """Number D of complex dimensions of the waves."""
    share_frequency: Sharing = "word"
    """As in `WaveEmbedding`: shared by all words by default."""
    replace_positions: bool = False
    """Whether the model's own table of absolute positions is switched off."""


class WaveFeatures(nn.Module):
    """a ∘ W·g(id, pos): waves of a `WaveEmbedding` g, mapped to the width H of word vectors.

    The gate a has a number for each dimension of the word vectors. Where it is 0, nothing is added.
    Positions are 1, 2, … for the words of each row, whatever padding there is before, between or
    behind them; padding contributes 0.

    Args:
        words: the word vectors, whose random projections are the initial amplitudes, so that
            similar words have similar waves. W is drawn so that waves are as large as word vectors
            where the gate is 1. Shape: (V, H)
        padding_idx: the id of padding, or `None`.
        gate: initial value of the gate.
    """

    def __init__(
        self, words: Tensor, config: EnrichConfig, *, padding_idx: int | None, gate: float = 0.0
    ) -> None:
        super().__init__()
        vocab_size, width = words.shape
        made: dict[str, Any] = {"device": words.device, "dtype": words.dtype}
        known = words.detach().float()
        centred = (known - known.mean(dim=0)) / known.std(dim=0, correction=0).clamp(min=1e-12)
        drawn = torch.randn(width, config.dim, device=words.device) / width**0.5
        self.waves = WaveEmbedding(
            vocab_size,
            config.dim,
            share_frequency=config.share_frequency,
            padding_idx=padding_idx,
            frequency_init="log-uniform",
            frequency_range=FREQUENCIES,
            vectors=centred @ drawn,
            **made,
        )
        self.projection = nn.Linear(2 * config.dim, width, bias=False, **made)
        size = known.std(correction=0) / config.dim**0.5
        self.projection.weight = nn.Parameter(
            (torch.randn_like(self.projection.weight, dtype=torch.float32) * size).to(words.dtype)
        )
        self.gate = nn.Parameter(torch.full((width,), gate, **made))

    def forward(self, ids: Tensor) -> Tensor:
        """Shape: (..., L) -> (..., L, H)"""
        padding = self.waves.padding_idx
        is_word = torch.ones_like(ids) if padding is None else (ids != padding).to(ids.dtype)
        return self.gate * self.projection(self.waves(ids, is_word.cumsum(dim=-1) * is_word))


class EnrichedEmbedding(nn.Embedding):
    """E[id] + a ∘ W·g(id, pos): a word embedding with `WaveFeatures` added.

    The table E is the parameter of the embedding that it replaces, under the same name, so that
    output layers remain tied to it.
    """

    def __init__(self, words: nn.Embedding, features: WaveFeatures) -> None:
        super().__init__(
            words.num_embeddings,
            words.embedding_dim,
            padding_idx=words.padding_idx,
            max_norm=words.max_norm,
            norm_type=words.norm_type,
            scale_grad_by_freq=words.scale_grad_by_freq,
            sparse=words.sparse,
            _weight=words.weight.detach(),
        )
        self.weight = words.weight
        self.wordwave = features
        self.train(words.training)

    def forward(self, ids: Tensor) -> Tensor:
        """Shape: (..., L) -> (..., L, H)"""
        words = super().forward(ids)
        return words + self.wordwave(ids).to(words.dtype)

    @property
    def num_embeddings(self) -> int:
        """The number of words. `resize_token_embeddings` sets it, and the waves follow."""
        n: int = self.__dict__["num_embeddings"]
        return n

    @num_embeddings.setter
    def num_embeddings(self, n: int) -> None:
        self.__dict__["num_embeddings"] = n  # where torch's `extra_repr` looks for it
        features = self._modules.get("wordwave")
        if isinstance(features, WaveFeatures) and features.waves.vocab_size != n:
            features.waves.resize(n)


def enrich(
    model: M,
    *,
    dim: int = 64,
    share_frequency: Sharing = "word",
    replace_positions: bool = False,
    gate: float = 0.0,
) -> M:
    """Add waves to the word embedding of a Hugging Face encoder, in place.

    Its word embedding becomes an `EnrichedEmbedding`: E[id] + a ∘ W·g(id, pos), where g is a
    `WaveEmbedding`. The gate a is 0 at first, so that the outputs are those of the model until
    it is trained. Save with `save_pretrained`, load with `load_enriched`.

    Args:
        model: an encoder such as BERT, RoBERTa, DistilBERT, MPNet or ELECTRA, with any head.
        dim: number of complex dimensions of the waves.
        share_frequency: as in `WaveEmbedding`: `"word"`, `"dim"` or `None`.
        replace_positions: set the model's own table of absolute positions to 0 and freeze it, so
            that only waves encode positions. Relative positions in attention are left as they are.
        gate: initial value of the gate; 1 for waves that are as large as the word vectors.

    Returns:
        The same model.
    """
    config = EnrichConfig(dim, share_frequency, replace_positions)
    words = _word_embedding(model)
    if getattr(model.config, KEY, None) is not None:
        raise WordwaveError(
            f"this {type(model).__name__} was saved with waves, which have not been loaded: use "
            f"ww.load_enriched, or start over with `del model.config.{KEY}`"
        )
    positions = _position_table(model, words) if replace_positions else None
    features = WaveFeatures(words.weight, config, padding_idx=_padding_id(model, words), gate=gate)
    _attach(model, words, features, positions)
    setattr(model.config, KEY, to_dict(config))
    return model


def load_enriched(name: str | Path, auto_class: type[Any] = AutoModel, **options: Any) -> Any:
    """Load a model that was enriched and saved with `save_pretrained`, in evaluation mode.

    Only config.json and safetensors files are read; no code that comes with a model is run.

    Args:
        name: a folder, or a model of the Hugging Face hub.
        auto_class: `AutoModel`, another class with `from_pretrained` for a model with a head, or
            the class of the model itself.
        options: of `from_pretrained`, such as `dtype`, `num_labels` or `revision`.
    """
    for_hub = {key: options.pop(key) for key in HUB_OPTIONS if key in options}
    folder = _folder(name, for_hub)
    with _naming(folder / "config.json"):
        found = read_json(folder / "config.json")
        for key, value in (found if isinstance(found, dict) else {}).items():
            if "layers" in key and isinstance(value, (int, float)) and value > DEPTH[1]:
                raise WordwaveError(f"{key} must be at most {DEPTH[1]:,}, got {value:,}")
        config, unused = AutoConfig.from_pretrained(
            folder, trust_remote_code=False, return_unused_kwargs=True, **options
        )
        settings = getattr(config, KEY, None)
        if settings is None:
            raise WordwaveError(f"has no key {KEY!r}, so the model was saved without waves")
        enriched = from_dict(EnrichConfig, settings, where=KEY)
    base, waves = _tensors(folder)
    given = {key: options[key] for key in ("dtype", "torch_dtype") if key in options}
    with _naming(folder):
        model_class = _checked_class(auto_class, config, base)
        model, info = model_class.from_pretrained(
            None, config=config, state_dict=base, output_loading_info=True, **unused | given
        )
        # Another class has a head of its own, which transformers reports as new.
        if model_class.__name__ in (config.architectures or ()) and info["missing_keys"]:
            raise WordwaveError(f"the tensor {min(info['missing_keys'])!r} is missing")
        words = _word_embedding(model)
        positions = _position_table(model, words) if enriched.replace_positions else None
        waves = {
            key: tensor.to(words.weight) if tensor.is_floating_point() else tensor
            for key, tensor in waves.items()
        }
        padding_idx = _padding_id(model, words)
        # Without data at first, before memory is taken for sizes that a file demands.
        like = WaveFeatures(words.weight.to("meta"), enriched, padding_idx=padding_idx)
        check_like(waves, like.state_dict())
        features = WaveFeatures(words.weight, enriched, padding_idx=padding_idx)
        features.load_state_dict(waves)
    _attach(model, words, features, positions)
    model.config.name_or_path = str(name)
    return model.eval()


def _checked_class(auto_class: type[Any], config: Any, tensors: Mapping[str, Tensor]) -> type[Any]:
    """The class that an auto class chooses for a config; refuses a config.json that asks for far
    more than the files hold, before it is allocated."""
    is_auto = not issubclass(auto_class, PreTrainedModel)
    make = partial(auto_class.from_config, trust_remote_code=False) if is_auto else auto_class
    with torch.device("meta"):
        empty = make(config)
    wanted = sum(p.numel() for p in empty.parameters())
    there = sum(tensor.numel() for tensor in tensors.values())
    if wanted > 2 * there + MOST_NEW:
        raise WordwaveError(f"config.json asks for {wanted:,} numbers, the files hold {there:,}")
    return type(empty)


def _word_embedding(model: PreTrainedModel) -> nn.Embedding:
    """The word embedding of an encoder; an error for any other model."""
    if not isinstance(model, PreTrainedModel):
        raise WordwaveError(f"model must be one of transformers, got {type(model).__name__}")
    name, config = type(model).__name__, model.config
    kind = getattr(config, "model_type", "")
    is_causal = (
        kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and kind not in MODEL_FOR_MASKED_LM_MAPPING_NAMES
    )
    if is_causal or config.is_encoder_decoder or getattr(config, "is_decoder", False):
        raise WordwaveError(
            f"model must be an encoder, which is given whole texts, got the decoder {name}"
        )
    try:
        words = model.get_input_embeddings()
    except NotImplementedError:
        words = None
    if isinstance(words, EnrichedEmbedding):
        raise WordwaveError(f"this {name} has been enriched already")
    if type(words) is not nn.Embedding:
        found = "none" if words is None else type(words).__name__
        raise WordwaveError(
            f"model must have a torch.nn.Embedding for words, got {name}, which has {found}"
        )
    return words


def _position_table(model: PreTrainedModel, words: nn.Embedding) -> nn.Embedding:
    """The table of absolute positions, which stands beside the word embedding."""
    name = next(name for name, module in model.named_modules() if module is words)
    beside = model.get_submodule(name.rpartition(".")[0])
    found = (getattr(beside, name, None) for name in POSITION_TABLES)
    table = next((module for module in found if isinstance(module, nn.Embedding)), None)
    if table is None:
        raise WordwaveError(
            f"replace_positions needs a table of absolute positions, and {type(model).__name__} "
            "has none"
        )
    return table


def _padding_id(model: PreTrainedModel, words: nn.Embedding) -> int | None:
    """The id of padding, of the table or of the config."""
    found = words.padding_idx
    if found is None:
        found = getattr(model.config, "pad_token_id", None)
    is_word = isinstance(found, int) and 0 <= found < words.weight.shape[0]
    return found if is_word else None


def _attach(
    model: PreTrainedModel,
    words: nn.Embedding,
    features: WaveFeatures,
    positions: nn.Embedding | None,
) -> None:
    """Replace the word embedding, and switch off a table of positions."""
    model.set_input_embeddings(EnrichedEmbedding(words, features))
    if positions is not None:
        nn.init.zeros_(positions.weight)
        positions.weight.requires_grad_(False)


def _folder(name: str | Path, options: dict[str, Any]) -> Path:
    """The folder of a model, downloaded from the hub unless it is one."""
    if Path(name).is_dir():
        return Path(name)
    try:
        patterns = ["config.json", "model*.safetensors"]
        return Path(snapshot_download(str(name), allow_patterns=patterns, **options))
    except (OSError, ValueError, HfHubHTTPError) as problem:
        raise WordwaveError(
            f"'{name}' is neither a folder nor a model that can be downloaded: {_one_line(problem)}"
        ) from None


def _tensors(folder: Path) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The tensors of the model itself, and those of the waves without what precedes their names."""
    single = folder / "model.safetensors"
    files = [single] if single.exists() else sorted(folder.glob("model-*-of-*.safetensors"))
    if not files:
        raise WordwaveError(f"'{folder}' has no model.safetensors")
    base: dict[str, Tensor] = {}
    waves: dict[str, Tensor] = {}
    for path in files:
        with _naming(path):
            for name, tensor in TensorFile(path).load().items():
                _, is_wave, own = name.rpartition(f".{KEY}.")
                part, key = (waves, own) if is_wave else (base, name)
                if key in part:
                    raise WordwaveError(f"the tensor {name[:100]!r} is there twice")
                part[key] = tensor
    return base, waves


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Turn an error of loading a file or folder into one line that names it."""
    try:
        yield
    except Exception as problem:  # transformers may fail in any way on a config of a stranger
        raise WordwaveError(
            f"'{path}' does not hold an enriched model: {_one_line(problem)}"
        ) from problem


def _one_line(problem: Exception) -> str:
    return " ".join(str(problem).split())[:MESSAGE] or type(problem).__name__
