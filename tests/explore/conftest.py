"""Small classifiers with random weights, pages of them, node and a browser where they are."""

import http.client
import json
import os
import shutil
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from wordwave.config_io import with_settings
from wordwave.embedding.table import Table
from wordwave.explore import export_page
from wordwave.explore.page import FOLDER
from wordwave.explore.server import bound_socket, build_app
from wordwave.models.classifier import Bag, Classifier, pool_sum
from wordwave.tasks.classifier import TextClassifier
from wordwave.tasks.config import ClassificationConfig
from wordwave.text.encoder import TextEncoder
from wordwave.text.tokenizers import build_tokenizer
from wordwave.text.vocabulary import SPECIALS, Vocabulary

WORDS = ("the", "dog", "bites", "man", "not", "good", "but", "bad", ",", "schön", "café", "n't")
LABELS = ("yes", "no", "perhaps")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
HARNESS = Path(__file__).with_name("node.mjs")


def classifier(words=WORDS, labels=LABELS, *, tokenizer="plain", hashed=False, **settings):
    """A classifier whose weights are random, and large enough to tell classes apart."""
    torch.manual_seed(7)
    settings = {"encoder": "fasttext", "dim": 6, "hidden_dim": 16, "max_length": 40} | settings
    config = with_settings(ClassificationConfig().model, **settings)
    vocabulary = Vocabulary([*SPECIALS, *words])
    model = Classifier(config, len(vocabulary), len(labels))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "frequency" not in name and "frequencies" not in name:
                parameter.normal_(0, 0.4)
        for table in model.embedding.modules():
            if hasattr(table, "zero_padding"):
                table.zero_padding()
    encoder = TextEncoder(
        build_tokenizer(tokenizer), vocabulary, max_length=config.max_length, hashed=hashed
    )
    settings = with_settings(ClassificationConfig(model=config), tokenizer=tokenizer)
    return TextClassifier(model.eval(), encoder, list(labels), settings)


class Site:
    """A running explorer, asked by raw requests."""

    def __init__(self, session):
        self.socket = bound_socket(0)
        self.port = self.socket.getsockname()[1]
        uvicorn = pytest.importorskip("uvicorn")
        config = uvicorn.Config(build_app(session, self.port), log_level="error", lifespan="off")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]})

    def __enter__(self):
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        self.server.should_exit = True
        self.thread.join(10)
        self.socket.close()

    def ask(self, path, body=None, method=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        given = {"Host": f"127.0.0.1:{self.port}", "Content-Type": "application/json"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        method = method or ("GET" if body is None else "POST")
        connection.putrequest(method, path, skip_host=True)
        for name, value in given.items():
            if value is not None:
                connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders()
        with suppress(OSError):  # it may answer before all of a large request has come
            connection.send(body or b"")
        answer = connection.getresponse()
        content = answer.read().decode()
        connection.close()
        return answer, content


class Bigrams(torch.nn.Module):
    """Vectors of pairs of neighbours, which are added to that of the second word."""

    def __init__(self, keys, dim, n_words):
        super().__init__()
        self.n_words = n_words
        self.weight = torch.nn.Parameter(torch.randn(len(keys), dim))
        self.register_buffer("keys", torch.tensor(keys))

    def forward(self, ids):
        key = torch.nn.functional.pad(ids, (1, 0))[..., :-1] * self.n_words + ids
        hit = (key.unsqueeze(-1) == self.keys) & (self.keys > 0)
        return 0.5 * hit.float() @ self.weight


class TableWithBigrams(Table):
    def forward(self, ids):
        return torch.nn.functional.embedding(ids, self.weight) + self.bigrams(ids)


class ScaledBag(Bag):
    def forward(self, x, mask, positions=None):
        return pool_sum(x, mask) / mask.sum(1, keepdim=True).sqrt()


@pytest.fixture(scope="session")
def with_bigrams():
    """A classifier with a scaled sum of words and of some of their pairs."""

    def build(**settings):
        found = classifier(share_frequency="word", **settings)
        embedding = found.model.embedding
        words = embedding.amplitude if hasattr(embedding, "amplitude") else embedding.words
        n = embedding.vocab_size
        pairs = [(3, 4), (4, 5), (5, 3), (2, 2), (7, 3)]
        words.bigrams = Bigrams([0, *(a * n + b for a, b in pairs), 0], embedding.dim, n)
        words.__class__, found.model.encoder.__class__ = TableWithBigrams, ScaledBag
        return found

    return build


@pytest.fixture(scope="session")
def serve():
    pytest.importorskip("starlette")
    return Site


@pytest.fixture(scope="session")
def make():
    return classifier


@pytest.fixture(scope="session")
def page(tmp_path_factory):
    """An exported page with a twin: its path, and both models as they are in it."""
    from wordwave.explore import Bag

    path = tmp_path_factory.mktemp("page") / "page.html"
    ours, twin = classifier(pooling="sum"), classifier(embedding="tpe", dim=8, pooling="mean")
    examples = ["dog bites man", "man bites dog", "not good but bad"]
    done = export_page(ours, path, twin=twin, name="a <b>model</b>", examples=examples)
    rounded = [Bag.describe(one, done.precision).rounded(one) for one in (ours, twin)]
    return SimpleNamespace(path=path, done=done, ours=rounded[0], twin=rounded[1])


@pytest.fixture(scope="session")
def node(tmp_path_factory):
    """Asks the scripts of an exported page, run by node: [[verb, arguments], …] -> answers."""
    program = shutil.which("node")
    if program is None:
        pytest.skip("node is not installed, so the page's arithmetic is tested in numpy only")
    folder = tmp_path_factory.mktemp("modules")
    for script in FOLDER.glob("*.js"):
        shutil.copy(script, folder)
    shutil.copy(HARNESS, folder)
    (folder / "package.json").write_text('{"type": "module"}')

    def ask(path, requests):
        ended = subprocess.run(
            [program, folder / HARNESS.name, path],
            input=json.dumps(requests),
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=120,
        )
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)

    return ask


@pytest.fixture(scope="session")
def browser():
    """Chromium, driven by Playwright."""
    asked = os.environ.get("WORDWAVE_BROWSER")
    program = asked or next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip("no browser is installed: make browser, or WORDWAVE_BROWSER=PATH")
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=program, args=FLAGS)
        yield found
        found.close()
