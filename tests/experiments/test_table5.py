"""Table 5 in small: every row trained, stored, shown; again it trains nothing."""

import json
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from experiments.table5 import ROWS, Table5, draw_table5, table5_tables
from wordwave.models.encoder_decoder import translation_model
from wordwave.models.utils import count_parameters
from wordwave.tables import ResultTable

SMALL = (
    ("dim", 8), ("n_heads", 2), ("encoder_layers", 1), ("decoder_layers", 1),
    ("feed_forward_dim", 8), ("bpe_size", 300), ("words", "spaced"), ("max_length", 30),
    ("batch_size", 100), ("grad_accumulation", 1), ("eval_every", 2), ("eval_bleu", 3),
)  # fmt: skip


def _as_of_multi30k(table):
    """The same records, as if they were of the paper's data."""
    records = [json.loads(line) for line in table.store.path.open()]
    other = replace(table, out=table.out / "other", data="multi30k")
    for record in records:
        record["config"]["data"]["data"] = "multi30k"
        other.store.append(record)
    return other


def test_every_row_is_trained_once_and_shown(tmp_path, monkeypatch):
    from wordwave.data import parallel
    from wordwave.data.parallel import ParallelSentences, ParallelSplits

    texts = [f"{'ab' * (i % 3 + 1)} cd {i % 7}" for i in range(30)]
    pairs = ParallelSentences(texts, texts)
    parts = ParallelSplits(pairs, pairs, pairs)
    monkeypatch.setattr(parallel, "load_named", lambda *_: parts)
    table = Table5(tmp_path, data="built-in", steps=3, changes=SMALL)
    rows = [record["row"] for record in table.grid.run_missing(n_jobs=1)]
    assert rows == list(ROWS) and list(table.grid.run_missing(n_jobs=1)) == []
    whole, tests = map(ResultTable.to_markdown, table5_tables(table))
    assert all(f"| {row} |" in whole for row in ROWS) and "35.8" not in whole
    assert "35.8" in table5_tables(_as_of_multi30k(table))[0].to_markdown()
    assert "nrefs:1" in whole and tests.count("\n| complex-order | ") == len(ROWS) - 1
    console = Console(width=80, file=StringIO())
    console.print(table5_tables(table)[0].to_rich())
    assert "…" not in console.file.getvalue() and "complex-order, chosen" in console.file.getvalue()
    assert all(picture.stat().st_size > 1000 for picture in draw_table5(table))
    assert [len(r["curve"]) for r in table.records()] == [2] * len(ROWS)


def test_all_rows_have_as_many_parameters_and_updates():
    import torch

    table = Table5("nowhere", steps=100)
    sizes = []
    for cell in table.cells():
        with torch.device("meta"):
            sizes.append(count_parameters(translation_model(cell.config.model, 10_004)))
        assert cell.config.training.max_steps == 100 and cell.config.data.data == "multi30k"
    assert max(sizes) < 1.01 * min(sizes)


def test_a_row_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"rows must be among AED.*got 'lstm'"):
        Table5(tmp_path, rows=("lstm",))
