"""`python -m benchmarks.explorer`: the explorer's page, its size and the latency of a drag.

A classifier of 20,000 words and 128 dimensions with default settings is exported as a page, its
frequencies moved and its n-grams drawn at random in place of training, and a word of a sentence of
40 words is dragged through all places by the mouse in Chromium, there and back, several times.
With --run, the page is that of a trained run, whose pairs of words take space as well.
Needs Playwright and a browser (make browser).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import torch

from benchmarks.record import cpu_name, write
from wordwave.config_io import with_settings
from wordwave.explore import Exported, export_page
from wordwave.models.classifier import Classifier
from wordwave.tasks.classifier import TextClassifier
from wordwave.tasks.config import ClassificationConfig
from wordwave.text.encoder import TextEncoder
from wordwave.text.tokenizers import build_tokenizer
from wordwave.text.vocabulary import SPECIALS, Vocabulary

RECORDS = Path(__file__).parents[1] / "results" / "explore" / "records.jsonl"
MOST_MS, MOST_MB = 50.0, 12.0
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")
TRAINED = 0.05
"""Standard deviation of the changes of frequencies."""
WATCH = """() => {
  window.latencies = [];
  const tiles = () => [...document.querySelectorAll("#tiles li")];
  const order = () => tiles().map((tile) => tile.dataset.index).join();
  let before = order();
  let began = 0;
  addEventListener("pointermove", () => (began = performance.now()), { capture: true });
  addEventListener("pointermove", (event) => {
    const now = order();
    if (now === before) return;
    before = now;
    const answered = performance.now() - began;
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => window.latencies.push([answered, performance.now() - event.timeStamp]);
    requestAnimationFrame(() => port2.postMessage(0));  // arrives after the frame is painted
  });
}"""
"""For each change of the order: milliseconds until the page has the new probabilities, and from the
mouse event, with its waiting time, to the frame that shows them."""


def classifier(n_words: int, dim: int) -> TextClassifier:
    """A classifier of two classes with words of common lengths."""
    rng = random.Random(0)
    letters, words = "etaoinshrdlcumwfgypbvk", set[str]()
    while len(words) < n_words:
        words.add("".join(rng.choices(letters, k=rng.randint(3, 11))))
    torch.manual_seed(0)
    config = with_settings(ClassificationConfig().model, dim=dim)
    vocabulary = Vocabulary([*SPECIALS, *sorted(words)])
    model = Classifier(config, len(vocabulary), 2).eval()
    with torch.no_grad():
        frequency: Any = model.embedding.frequency
        frequency.weight.add_(torch.randn_like(frequency.weight) * TRAINED)
        assert model.ngrams is not None
        # Of the word and of some ten n-grams: two coefficients, and squares of idf weights.
        sizes = torch.tensor([1.0, 1.0, 50.0, 1.0, 1.0, 500.0])
        model.ngrams.words[1:] = torch.randn(len(vocabulary) - 1, 6).abs() * sizes
    encoder = TextEncoder(build_tokenizer("plain"), vocabulary, max_length=config.max_length)
    return TextClassifier(model, encoder, ["no", "yes"], ClassificationConfig(model=config))


def drag_latencies(
    page: Exported, program: str, drags: int
) -> tuple[list[list[float]], float, str]:
    """What `WATCH` finds while a word is dragged to every place, the CPU seconds of the page's
    process, which other work on the machine does not prolong, and the version of the browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=list(FLAGS))
        tab = browser.new_page(viewport={"width": 1280, "height": 1100})
        tab.goto(page.path.as_uri())
        tab.wait_for_selector("body[data-ready]")
        tab.wait_for_timeout(1500)
        tab.evaluate(WATCH)
        devtools = tab.context.new_cdp_session(tab)
        devtools.send("Performance.enable")

        def cpu_seconds() -> float:
            metrics = devtools.send("Performance.getMetrics")["metrics"]
            return next(float(one["value"]) for one in metrics if one["name"] == "ProcessTime")

        began = cpu_seconds()
        boxes = [tile.bounding_box() for tile in tab.locator("#tiles .tile").all()]
        centres = [(b["x"] + b["width"] * 0.6, b["y"] + b["height"] / 2) for b in boxes if b]
        for _ in range(drags):
            tab.mouse.move(*centres[0])
            tab.mouse.down()
            for x, y in [*centres[1:], *reversed(centres)]:
                tab.mouse.move(x, y, steps=2)
                tab.wait_for_timeout(60)
            tab.mouse.up()
        cpu = cpu_seconds() - began
        found, version = tab.evaluate("window.latencies"), browser.version
        browser.close()
    return found, cpu, version


def summary(times: list[float]) -> dict[str, float]:
    """The median, the 95th percentile and the maximum."""
    found = {"median": median(times), "p95": quantiles(times, n=20)[-1], "max": max(times)}
    return {name: round(value, 1) for name, value in found.items()}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.explorer", description=__doc__)
    parser.add_argument("--words", type=int, default=20_000, help="size of the vocabulary")
    parser.add_argument("--dim", type=int, default=128, help="dimensions")
    parser.add_argument("--length", type=int, default=40, help="words of the sentence")
    parser.add_argument("--drags", type=int, default=5, help="there and back, so many times")
    parser.add_argument("--run", type=Path, help="a trained run, in place of random weights")
    parser.add_argument("--output", type=Path, default=RECORDS, help="append a record to this file")
    options = parser.parse_args()
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        print("no browser is installed: make browser", file=sys.stderr)
        return 2
    torch.set_num_threads(1)
    model = (
        TextClassifier.load(options.run) if options.run else classifier(options.words, options.dim)
    )
    bigrams: Any = getattr(model.model.embedding, "amplitude", None)
    bigrams = getattr(bigrams, "bigrams", None)
    text = " ".join(random.Random(1).sample(model.encoder.vocabulary.words[2:], options.length))
    with tempfile.TemporaryDirectory() as folder:
        page = export_page(model, Path(folder) / "page.html", examples=[text])
        latencies, cpu, browser = drag_latencies(page, program, options.drags)
    answer, frame = (summary([one[i] for one in latencies]) for i in range(2))
    record = {
        "words": len(model.encoder.vocabulary) - len(SPECIALS),
        "pairs": 0 if bigrams is None else int(bigrams.keys.count_nonzero()),
        "trained": options.run is not None,
        "dim": model.model.embedding.dim,
        "length": options.length,
        "megabytes": round(page.n_bytes / 1e6, 2),
        "precision": page.precision,
        "difference": page.difference,
        "loss": page.loss,
        "moves": len(latencies),
        "answer_ms": answer,
        "frame_ms": frame,
        "cpu_ms": round(1000 * cpu / len(latencies), 1),
        "load": round(os.getloadavg()[0], 1),
        "cores": os.cpu_count(),
        "browser": browser,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "torch": torch.__version__,
        "cpu": cpu_name(),
    }
    write([record], options.output)
    print(json.dumps(record, indent=2))
    return 0 if frame["median"] < MOST_MS and page.n_bytes < MOST_MB * 1e6 else 1


if __name__ == "__main__":
    sys.exit(main())
