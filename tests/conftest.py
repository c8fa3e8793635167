"""What every test stands on: one thread, fixed seeds, any order, and oracles from the definitions.

The oracles use torch's own complex numbers in complex128 and take nothing from `wordwave` but the
values of parameters, so that a mistake in the `[real | imag]` layout cannot hide in them.
"""

import getpass
import os
import random
import re
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import HealthCheck, Phase, settings

from tolerance import rounding

settings.register_profile(
    "wordwave",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=25,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("wordwave")


def compile_cache():
    """A folder for the kernels of `torch.compile`, shared by all runs on the same vector unit.

    One cache for all would hand kernels compiled for one vector unit to a process that plays
    another (ATEN_CPU_CAPABILITY), and they compute garbage there.
    """
    unit = torch.backends.cpu.get_cpu_capability()
    mode = f"{torch.__version__} {unit} {os.environ.get('ONEDNN_MAX_CPU_ISA', '')}".strip()
    folder = f"wordwave_inductor_{getpass.getuser()}"
    return Path(tempfile.gettempdir(), folder, re.sub(r"\W+", "-", mode))


os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(compile_cache())  # also for processes of tests


def pytest_addoption(parser):
    parser.addoption("--random-order", metavar="SEED", help="shuffle files, and the tests in each")


def pytest_collection_modifyitems(config, items):
    seed = config.getoption("--random-order")
    if seed is not None:  # the same order in every worker of pytest-xdist
        places = {item: random.Random(f"{seed} {item.nodeid}").random() for item in items}
        files = {item.path: random.Random(f"{seed} {item.path.name}").random() for item in items}
        items.sort(key=lambda item: (files[item.path], item.path, places[item]))


def pytest_configure(config):
    torch.set_num_threads(1)
    # Trainings keep a key there, see wordwave.tasks.run_folder: tests leave the user's alone.
    os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="wordwave-state-")


def pytest_unconfigure(config):
    shutil.rmtree(os.environ["XDG_STATE_HOME"], ignore_errors=True)


def start_afresh():
    """What a test may have changed for the next: the generator and the number of threads."""
    torch.manual_seed(0)
    torch.set_num_threads(1)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    start_afresh()  # for fixtures of a module or session, whichever test asks for them first


@pytest.fixture(autouse=True)
def _start_afresh():
    start_afresh()  # once more for the test, whether or not such a fixture was made just now


def native(z):
    """[real | imag] as torch's own complex dtype. Shape: (..., 2·D) -> (..., D)"""
    dim = z.shape[-1] // 2
    return torch.complex(z[..., :dim].double(), z[..., dim:].double())


def halves(z):
    """The opposite of `native`. Shape: (..., D) -> (..., 2·D)"""
    return torch.cat([z.real, z.imag], dim=-1)


def wave(emb, ids, positions=None):
    """r·r₁^pos·e^{i(ω·pos + θ)}, word for word and dimension for dimension; 0 for padding."""

    def value(table):
        full = table.weight.detach().double().expand(emb.vocab_size, emb.dim)
        return full[ids.long()]

    if positions is None:
        positions = torch.arange(1, ids.shape[-1] + 1)
    pos = torch.as_tensor(positions).double().expand(ids.shape).unsqueeze(-1)
    phase = value(emb.frequency) * pos
    if emb.phase is not None:
        phase = phase + value(emb.phase)
    height = value(emb.amplitude)
    if emb.damping is not None:
        r1 = torch.exp(-torch.nn.functional.softplus(value(emb.damping)))
        height = height * r1**pos
    z = torch.complex(height * phase.cos(), height * phase.sin())
    if emb.padding_idx is not None:
        z[ids == emb.padding_idx] = 0
    return z


def weight(w):
    """W = A + i·B of a complex layer."""
    a = w.a.detach().double()
    b = {"none": w.b, "real": torch.zeros_like(a), "tied": a}[w.share]
    return torch.complex(a, b.detach().double())


def bias(b):
    """c + i·d of a complex layer, the gates of an LSTM one after the other."""
    c = b.c.detach().double()  # (gates, 2, out), or (gates, 1, out) where both parts share it
    return torch.complex(c[:, 0], c[:, -1]).flatten()


def by_part(f, z):
    """f(Re z) + i·f(Im z): how the paper activates."""
    return torch.complex(f(z.real), f(z.imag))


def randomise(module, scale=0.5):
    """Every parameter away from its start, so that a forgotten bias or part shows."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0, scale)
    return module


@pytest.fixture(scope="session")
def oracle():
    return SimpleNamespace(
        native=native,
        halves=halves,
        wave=wave,
        weight=weight,
        bias=bias,
        by_part=by_part,
        randomise=randomise,
    )


@pytest.fixture(scope="session")
def tolerance():
    """How close to a complex128 oracle a small layer of each dtype must be."""
    return {dtype: rounding(terms=64, dtype=dtype) for dtype in (torch.float32, torch.float64)}


@pytest.fixture(scope="session")
def encoder_folder(tmp_path_factory):
    """A tiny random BERT with a tokenizer of letters and digits, as `save_pretrained` writes it."""
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    folder = tmp_path_factory.mktemp("encoder")
    signs = "abcdefghijklmnopqrstuvwxyz0123456789"
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]"}
    special |= {"sep_token": "[SEP]", "mask_token": "[MASK]"}
    tokens = [*special.values(), *signs, *(f"##{sign}" for sign in signs)]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=64, **special
    ).save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=len(tokens),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=64,
    )
    transformers.BertModel(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def with_ngrams():
    """Builds a default classifier of 12 words and 3 classes: a bag of words and pairs with random
    weights, and a linear model of n-grams."""
    import numpy as np

    from wordwave.config_io import with_settings
    from wordwave.models.classifier import Classifier
    from wordwave.tasks.classifier import TextClassifier
    from wordwave.tasks.config import ClassificationConfig
    from wordwave.tasks.stacking import Counts, fit
    from wordwave.text.encoder import TextEncoder
    from wordwave.text.tokenizers import build_tokenizer
    from wordwave.text.vocabulary import SPECIALS, Vocabulary

    words = "the dog bites man not good but bad , schön café n't"
    texts = ["the dog bites the man", "not good , but bad", "the man bites not", "schön , the café"]
    labels = ["yes", "no", "perhaps"]
    sizes = {"dim": 6, "hidden_dim": 16, "max_length": 40, "n_bigrams": 40, "n_subwords": 200}
    vocabulary = Vocabulary([*SPECIALS, *words.split()])
    encoder = TextEncoder(build_tokenizer("plain"), vocabulary, max_length=40, keep_unknown=True)
    sentences = encoder.encode(texts).sentences
    ids = sentences.padded(torch.arange(len(texts)))
    pairs = (ids[:, :-1] * len(vocabulary) + ids[:, 1:])[ids[:, 1:] > 0].unique()

    def build(**options):
        torch.manual_seed(7)
        config = with_settings(ClassificationConfig(), **sizes | options)
        model = Classifier(config.model, len(vocabulary), len(labels)).eval()
        if model.bigrams is not None:
            model.bigrams.assign(pairs)
        for name, parameter in model.named_parameters():
            if "frequency" not in name:
                torch.nn.init.normal_(parameter, 0, 0.4)
        for table in model.embedding.modules():
            if hasattr(table, "zero_padding"):
                table.zero_padding()
        counts = Counts(sentences, vocabulary, model.bigrams, sizes["n_subwords"])
        fitted = fit(counts, np.arange(len(texts)) % len(labels), len(labels))
        fitted.assign(model.ngrams, counts.keys, 0.7)
        model.scale.fill_(0.3)
        return TextClassifier(model, encoder, labels, config)

    return build
