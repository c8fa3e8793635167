"""docs/reliability.md quotes the last run of `make torture`, in which nothing failed."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "reliability"


def test_the_figures_are_those_of_the_last_run():
    page = (ROOT / "docs" / "reliability.md").read_text()
    assert all(table.read_text() in page for table in RESULTS.rglob("torture.md"))


def test_nothing_failed_in_it():
    lines = [
        line for path in RESULTS.rglob("torture.jsonl") for line in path.read_text().split("\n")
    ]
    records = [json.loads(line) for line in lines if line]
    assert not [record for record in records if record["failure"]]
