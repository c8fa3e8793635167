"""What `wordwave reproduce` shows and writes, from its records alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.chosen import with_choices
from experiments.epoch_timing import fig5_table, timing_in
from experiments.protocol import Protocol
from experiments.reproduce import ReproduceOptions
from experiments.sensitive_words import table7
from experiments.statistics import Summary, made_under, named
from experiments.table2 import comparisons_of_table2, table2, table3
from experiments.table4 import table4
from wordwave.errors import WordwaveError
from wordwave.files import write_text
from wordwave.grid import Record, Store
from wordwave.tables import Grid, terminal, write_grid

if TYPE_CHECKING:
    from wordwave.cli.console import Console


def show(
    options: ReproduceOptions, protocol: Protocol, store: Store, words: Store, console: Console
) -> None:
    """The table or figure of a target."""
    protocol, records = with_choices(protocol, store), store.records()
    summary = Summary.of(records, protocol)
    trained, timing = words_in(words.records(), protocol), timing_in(records, protocol)
    folder = options.folder
    written: list[Path] = []
    target = options.target
    if target in ("table2", "table3", "table4", "report") and not summary.runs:
        raise WordwaveError(
            f"'{store.path}' holds no training with these settings: give the --search flags it was "
            "made with, or train with wordwave reproduce table2"
        )
    if target in ("table7", "fig1", "fig6") and not trained:
        raise WordwaveError(f"'{words.path}' holds no such training; leave --report-only out")
    if target == "fig5" and timing is None:
        raise WordwaveError(f"'{store.path}' holds no measurement; leave --report-only out")
    if target == "report":
        quick = "-quick" if options.quick else ""
        path = options.out / f"REPORT{quick}.md"
        written += write_report(path, folder, summary, protocol, trained, timing)
    elif target in ("fig1", "fig6"):
        written += draw(target, trained, folder / named(target, protocol))
    else:
        grid = grid_of(target, summary, protocol, trained, timing)
        console.print(terminal(grid))
        written += write_grid(grid, folder)
        if target == "table2":
            written += write_grid(comparisons_of_table2(summary, protocol), folder)
        if target == "fig5" and timing is not None:
            from experiments.figures import draw_fig5

            written += draw_fig5(timing, folder / named("fig5", protocol))
    console.print("Written: " + ", ".join(map(str, written)))


def grid_of(
    target: str,
    summary: Summary,
    protocol: Protocol,
    trained: Sequence[Record],
    timing: Record | None,
) -> Grid:
    """The table of a target."""
    if target == "table7":
        return table7(trained, protocol)
    if target == "fig5":
        assert timing is not None
        return fig5_table(timing, protocol)
    return {"table2": table2, "table3": table3, "table4": table4}[target](summary, protocol)


def draw(target: str, trained: Sequence[Record], path: Path) -> list[Path]:
    """Waves of one model, of a CNN where there is one, or the density of δ of all."""
    from experiments.figures import draw_fig1, draw_fig6

    if target == "fig6":
        return draw_fig6(trained, path)
    cnn = [record for record in trained if record["encoder"] == "cnn"]
    return draw_fig1((cnn or trained)[0], path)


def write_report(
    path: Path,
    folder: Path,
    summary: Summary,
    protocol: Protocol,
    trained: Sequence[Record],
    timing: Record | None,
) -> list[Path]:
    """The report with Table 2 as a picture."""
    from experiments.report import report
    from experiments.table2 import draw_gains, gains

    drawn: list[Path] = []
    if gains(summary):
        note = "QUICK" if protocol.budget == "quick" else ""
        drawn = draw_gains(summary, folder / named("gains", protocol), note=note)
    picture = drawn[0].relative_to(path.parent).as_posix() if drawn else None
    write_text(path, report(summary, protocol, trained, timing, picture))
    return [path, *drawn]


def words_in(records: Sequence[Record], protocol: Protocol) -> list[Record]:
    """The record of each encoder with seed 0, of SST-2's phrases where there are any."""
    own = [r for r in records if r["seed"] == 0 and made_under(protocol, r)]
    phrases = [r for r in own if r["dataset"] == "sst2"]
    return list({r["encoder"]: r for r in phrases or own}.values())
