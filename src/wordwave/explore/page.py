"""The page of the explorer: served live, or as one file with the model inside."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from wordwave.errors import WordwaveError
from wordwave.explore.bag import ELSEWHERE, N_CHECKED, Bag, Precision
from wordwave.explore.quantization import pack
from wordwave.explore.session import Session
from wordwave.files import write_text
from wordwave.tasks.classifier import TextClassifier

FOLDER = Path(__file__).parent / "static"
MODULES = (
    *("format", "arithmetic", "tokenizer", "backends", "drawing", "charts", "tiles", "vocabulary"),
    *("link", "theme", "main"),
)
"""The scripts, each after those that it imports."""
TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css"}
MOST_BYTES = 32 * 10**6
"""Of an exported page."""
SMALL = 10**6
"""Amplitudes of at most so many numbers are stored as float16, more of them as int8."""
SECURITY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every answer: nothing of other origins is loaded, nor may embed it."""


def _read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


STATIC: dict[str, Callable[[], str]] = {
    name: partial(_read, name) for name in (*(f"{m}.js" for m in MODULES), "style.css")
}
"""The files that a server gives out."""


def _as_json(value: Any) -> str:
    """JSON that may stand in a script element: no tag can end it."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    # Half of a character outside the basic plane cannot be written as UTF-8.
    return re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", text)


def _filled(**parts: str) -> str:
    """The page with its parts in place, which are not searched for names of other parts."""
    return re.sub(r"<!--(\w+)-->", lambda found: parts.get(found[1], ""), _read("index.html"))


def live_page(about: dict[str, Any]) -> str:
    """The page that asks the server."""
    data = f'<script type="application/json" id="about">{_as_json(about)}</script>'
    return _filled(
        style='<link rel="stylesheet" href="static/style.css">',
        data=data,
        script='<script type="module" src="static/main.js"></script>',
    )


_IMPORT = re.compile(r'^import \{[^}]*\} from "\./[a-z]+\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)


def bundle() -> str:
    """All scripts as one module: imports and exports of each other are left out."""
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", _read(f"{name}.js"))) for name in MODULES)


@dataclass(frozen=True)
class Exported:
    """A page that was written."""

    path: Path
    n_bytes: int
    n_checked: int
    """Random sentences that were compared, for each model."""
    precision: str
    """Of amplitudes and word vectors."""
    difference: float
    """The largest difference between the page's arithmetic and PyTorch with the same rounded
    weights, of the probabilities of random sentences."""
    loss: float
    """The largest difference that rounding the weights makes to them."""


def export_page(
    run: str | os.PathLike[str] | TextClassifier,
    path: str | os.PathLike[str],
    *,
    twin: str | os.PathLike[str] | TextClassifier | None = None,
    name: str | None = None,
    examples: Sequence[str] = (),
    precision: Precision | None = None,
    most_bytes: int = MOST_BYTES,
) -> Exported:
    """Write the explorer of a bag-of-waves classifier as one HTML file, which works offline.

    Args:
        run: a run folder of `wordwave train classify`, or a classifier.
        path: of the page.
        twin: a run or classifier with the same classes and added positions, shown beside it.
        name: of the model, by default that of the folder.
        examples: texts to choose from.
        precision: of amplitudes and word vectors; by default float16, or int8 for large tables.
        most_bytes: a page that would be larger is refused.
    """
    classifier, other = (
        one if one is None or isinstance(one, TextClassifier) else TextClassifier.load(Path(one))
        for one in (run, twin)
    )
    assert classifier is not None
    if name is None:
        name = "classifier" if isinstance(run, TextClassifier) else Path(run).resolve().name
    session = Session(classifier, other, name=name, examples=examples)
    kind: Precision = precision or _precision(classifier)
    about, parts, difference, loss = session.about(), [], 0.0, 0.0
    models = [classifier] if other is None else [classifier, other]
    _check_size(models, most_bytes)
    for key, one in zip(("model", "twin_model"), models, strict=False):
        bag = Bag.describe(one, kind)
        found = bag.check(one)
        difference, loss = max(difference, found[0]), max(loss, found[1])
        tables, content = pack(bag.tables)
        vocabulary = one.encoder.vocabulary
        about[key] = {
            "layers": bag.layers,
            "tables": tables,
            "words": list(vocabulary.words),
            "tokenizer": one.encoder.tokenizer.kind,
            "hashed": one.encoder.hashed,
            "first_rare": vocabulary.first_rare,
            "longest": one.encoder.max_length,
        }
        coded = base64.b64encode(zlib.compress(content, 9)).decode()
        parts.append(f'<script type="text/plain" id="data-{key}">{coded}</script>')
    about["rounding"] = {"precision": kind, "loss": loss}
    data = f'<script type="application/json" id="about">{_as_json(about)}</script>'
    script, style = bundle(), _read("style.css")
    text = _filled(
        policy='<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        f"script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'\">",
        style=f"<style>{style}</style>",
        data=data + "\n".join(parts),
        script=f'<script type="module">{script}</script>',
    )
    n_bytes = len(text.encode())
    if n_bytes > most_bytes:
        raise _too_large(n_bytes, most_bytes)
    write_text(Path(path), text)
    return Exported(Path(path), n_bytes, N_CHECKED, kind, difference, loss)


def _hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _precision(classifier: TextClassifier) -> Precision:
    return "float16" if classifier.model.embedding.vectors.numel() <= SMALL else "int8"


def _check_size(models: Sequence[TextClassifier], most: int) -> None:
    """Refuse a model that cannot fit, before all of it is rounded: half a byte for an amplitude, at
    least, and every word once."""
    least = 0
    for one in models:
        least += one.model.embedding.vectors.numel() // 2
        least += sum(len(word) + 3 for word in one.encoder.vocabulary.words)
    if least > most:
        raise _too_large(least, most)


def _too_large(n_bytes: int, most: int) -> WordwaveError:
    return WordwaveError(
        f"the page would have {n_bytes / 1e6:,.1f} MB or more, the limit is {most / 1e6:,.1f} MB: "
        "train with fewer words (--max-vocabulary), a smaller --dim or --share-frequency word"
        + ELSEWHERE
    )
