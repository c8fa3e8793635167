"""Tables, figures and the report as functions of made-up records."""

import io
from dataclasses import replace

import pytest

from experiments import claims, paper, table1
from experiments.cells import TABLE2_VARIANTS, TrainingCell, table2_cells, table4_cells
from experiments.figures import draw_fig1, draw_fig5, draw_fig6
from experiments.protocol import Protocol, SearchConfig
from experiments.report import Results, report
from experiments.sensitive_words import Sensitivity, table7, valences
from experiments.summary import Summary
from experiments.table2 import draw_gains, gains, significance_table, table2, table2_columns, table3
from experiments.table4 import table4
from experiments.timing import epoch_seconds, fig5_table

PROTOCOL = Protocol()
GAINS = {"none": 0.0, "pe": 0.01, "tpe": 0.02, "complex-vanilla": 0.01, "complex-order": 0.05}


def record(cell, accuracy, **more):
    return {
        **PROTOCOL.key(cell),
        "test_accuracy": accuracy,
        "dev_accuracy": accuracy,
        "parameters": 1_000_000,
        "seconds": 1.0,
        **more,
    }


def grid_records(folds=6, **options):
    cells = table2_cells(folds=folds, rows=("paper", "matched", "anchors"), **options)
    return [
        record(c, 0.7 + GAINS.get(c.embedding, 0) - 0.01 * (c.variant == "matched") + c.fold / 1000)
        for c in cells
    ]


@pytest.fixture
def lexicon(monkeypatch):
    ratings = {"good": 1.9, "awful": -2.0, "nice": 1.8, "meh": -0.3}
    monkeypatch.setattr("experiments.sensitive_words.valences", lambda: ratings)


def words_record(encoder="cnn"):
    words = ["good", "awful", "nice", "meh", *(f"w{i}" for i in range(120))]
    wave = {"delta": 0.1, "amplitude": [0.5, 0.3, 0.2], "frequency": [1.0, 0.5, 0.25]}
    return {
        **PROTOCOL.key(TrainingCell("sst2", encoder, "complex-order"), kind="words"),
        "words": words,
        "counts": [60, 30, 8, 6, *(1 + i % 70 for i in range(120))],
        "delta": [0.9 - 0.005 * i for i in range(124)],
        "untrained_delta": 0.5,
        "waves": dict.fromkeys(("good", "the", "zebra"), wave),
    }


def timing_record():
    kinds = [(e, k) for e in ("cnn", "lstm") for k in GAINS]
    return {
        "kind": "timing",
        "dataset": "mr",
        "settings": {"rounds": 3, "steps": 20},
        "words_per_epoch": 1000,
        "measured": [
            {
                "encoder": e,
                "embedding": k,
                "words_per_second": [100, 200, 50] if k == "none" else [50, 100, 25],
                "parameters": 10,
            }
            for e, k in kinds
        ],
    }


def shown(grid):
    from rich.console import Console

    out = io.StringIO()
    Console(file=out, width=80).print(grid.to_rich())
    return out.getvalue()


def test_the_papers_figures_are_whole():
    table = paper.accuracies("table2")
    assert len(table) == 20 * 6 and table["cnn", "complex-order", "trec"] == 0.939
    assert paper.accuracy("cnn", "tpe", "matched", "trec") is None
    assert paper.accuracy("cnn", "tpe", "paper", "sst2-sentences") == 0.838
    assert paper.ablation()["complex-order", "initial-phases"] == (0.785, 11.89)
    assert [len(paper.sensitive_words(side)) for side in ("greatest", "smallest")] == [50, 50]


def test_table_2_shows_means_marks_and_the_paper():
    summary = Summary.of(grid_records(), PROTOCOL)
    grid = table2(summary, PROTOCOL)
    rows = {(row[0], i): row for i, row in enumerate(grid.rows)}
    waves = next(row for (name, _), row in rows.items() if name == "complex-order")
    mr = waves[1 + grid.columns[1:].index("mr")]
    assert mr.mean == pytest.approx(0.7525) and mr.n == 6 and mr.is_best
    assert mr.marks == "" and mr.paper == 0.787  # 6 pairs and four tests: p is 4 x 2/64
    trec = waves[grid.columns.index("trec")]
    assert trec.n == 1 and trec.half is None
    text = grid.to_markdown()
    assert "0.752 ± 0.002" in text and "/ 0.787" in text and "NB-SVM" in text
    assert "no search" in text and "mr 6" in text
    assert max(map(len, shown(grid).splitlines())) <= 80


def test_marks_stand_for_significant_improvements():
    summary = Summary.of(grid_records(folds=10), PROTOCOL)
    text = table2(summary, PROTOCOL).to_markdown()
    assert "§†‡∗" in text


def test_rows_under_other_terms_or_older_settings_do_not_count():
    cell = TrainingCell("cr", "cnn", "tpe")
    old = {**record(cell, 0.1), "settings": {"model": {"dim": 1}}}
    quick = {**record(cell, 0.2), "budget": "quick"}
    new = [record(replace(cell, fold=fold), 0.8) for fold in range(2)]
    summary = Summary.of([old, quick, *new], PROTOCOL)
    assert summary.accuracies(("cnn", "tpe", "paper"), "cr") == {(0, 0): 0.8, (1, 0): 0.8}


def test_a_table_is_the_same_whatever_the_order_of_the_records():
    records = grid_records(folds=2)
    one, other = (Summary.of(order, PROTOCOL) for order in (records, list(reversed(records))))
    assert table2(one, PROTOCOL).to_markdown() == table2(other, PROTOCOL).to_markdown()


def test_sst2_stands_once_unless_both_were_run():
    only = Summary.of([record(TrainingCell("sst2-sentences", "cnn", "tpe"), 0.8)], PROTOCOL)
    assert table2_columns(only) == ["mr", "subj", "cr", "mpqa", "sst2-sentences", "trec"]
    ablation = TrainingCell("sst2-sentences", "transformer", "complex-order", "damping")
    assert table2_columns(Summary()) == ["mr", "subj", "cr", "mpqa", "sst2", "trec"]
    both = Summary.of(
        [record(ablation, 0.8), record(TrainingCell("cr", "cnn", "tpe"), 0.8)], PROTOCOL
    )
    assert table2_columns(both) == ["mr", "subj", "cr", "mpqa", "sst2", "trec"]
    alone = Summary.of(
        [record(TrainingCell("sst2-sentences", "transformer", "tpe"), 0.8)], PROTOCOL
    )
    assert "sst2-sentences" in table2_columns(alone)


def test_table_4_has_counts_and_gaps():
    cells = table4_cells("sst2-sentences", seeds=2)
    accuracy = {"complex-order": 0.80, "complex-vanilla": 0.75, "tpe": 0.78}
    summary = Summary.of([record(c, accuracy[c.embedding]) for c in cells], PROTOCOL)
    text = table4(summary, PROTOCOL).to_markdown()
    assert "| -0.050 | -0.049 |" in text  # complex-vanilla, ours and the paper's
    assert "1.00M | 8.33M" in text and "6,920 whole sentences" in text and "two layers" in text
    assert max(map(len, shown(table4(summary, PROTOCOL)).splitlines())) <= 80


def test_table_7_counts_strong_words(lexicon):
    found = Sensitivity(words_record())
    assert found.greatest[:3] == ["good", "awful", "nice"] and found.smallest[0] == "w119"
    assert found.strong_counts() == (3, 0)
    assert found.auc()[0] == 1.0 and found.auc_within_frequency() == 1.0
    text = table7([words_record()], PROTOCOL).to_markdown()
    assert "GOOD AWFUL NICE meh" in text and "0.5000 before training" in text


def test_a_lexicon_that_is_not_there_is_named(monkeypatch):
    valences.cache_clear()
    monkeypatch.setattr(
        "experiments.sensitive_words.files", lambda name: __import__("no_such_package")
    )
    with pytest.raises(ValueError, match=r"wordwave\[lexicon\]"):
        valences()


def test_seconds_are_medians_over_rounds():
    assert epoch_seconds(timing_record())["cnn", "none"] == (10, 5, 20)
    assert "2.00×" in fig5_table(timing_record(), PROTOCOL).to_markdown()


def test_figures_are_drawn(tmp_path, lexicon):
    drawn = draw_fig5(timing_record(), tmp_path / "fig5")
    drawn += draw_fig6([words_record(e) for e in ("cnn", "lstm", "fasttext")], tmp_path / "fig6")
    drawn += draw_fig1(words_record(), tmp_path / "fig1")
    assert {p.name for p in drawn} == {f"fig{n}.{e}" for n in (1, 5, 6) for e in ("png", "svg")}
    assert all(p.stat().st_size > 5000 for p in drawn)
    assert "complex-order" in (tmp_path / "fig5.svg").read_text()


def test_claims_are_judged_by_their_records(lexicon):
    summary = Summary.of(grid_records(folds=10), PROTOCOL)
    best = claims.beats_all(summary)
    assert best.verdict == "holds" and "in 24 of 24 cells" in best.evidence[0]
    assert best.basis == "24 of 24"
    most = claims.transformer_gains_most(summary)
    assert most.basis == "6 data sets" and "transformer +4.00" in most.evidence[0]
    assert "better in 24 and worse in 0 of 24 cells" in best.evidence[1]
    assert (
        "of the 16 with enough runs for a signed-rank test, significantly better in 16"
        in best.evidence[1]
    )
    assert claims.reaches_the_paper(summary).verdict == "does not hold"
    assert claims.beats_equal_size(summary).verdict == "holds"
    assert claims.beats_later_encodings(summary).verdict == "holds"
    assert claims.beats_anchors(summary).verdict == "holds"
    assert claims.cost_is_negligible(timing_record()).verdict == "does not hold"
    assert claims.cost_is_negligible(None).verdict == "not measured"
    assert claims.sentiment_is_sensitive([]).verdict == "not measured"
    assert claims.beats_all(Summary()).verdict == "not measured"


def test_a_claim_that_fails_is_said_to_fail():
    worse = [
        {**r, "test_accuracy": 0.5} if r["embedding"] == "complex-order" else r
        for r in grid_records(folds=10)
    ]
    best = claims.beats_all(Summary.of(worse, PROTOCOL))
    assert best.verdict == "does not hold"
    assert "significantly better in 0 and worse in 16" in best.evidence[1]


def test_models_are_told_apart_by_their_answers_from_one_run_each():
    right = {"none": "0" * 10, "tpe": "f" * 10, "complex-order": "f" * 10}
    records = [
        {**r, "correct": right[r["embedding"]], "n_test": 40} if r["embedding"] in right else r
        for r in grid_records(folds=1)
    ]
    summary = Summary.of(records, PROTOCOL)
    _, none, pe, tpe, _ = claims.beats_all(summary).evidence
    assert "on one run of each, significantly better in 24 and worse in 0 of the 24" in none
    assert "significantly better in 0 and worse in 0 of the 24" in tpe and "McNemar" not in pe
    tests = significance_table(summary, PROTOCOL)
    assert [row[6:9] for row in tests.rows if row[1] == "none"] == [[40, 40, 0]] * 24


def test_gains_are_over_the_mean_of_the_real_rows_ours_and_the_papers(tmp_path):
    summary = Summary.of(grid_records(folds=2), PROTOCOL)
    found = gains(summary)
    assert len(found) == 24 and found["cnn", "trec"] == (
        pytest.approx(100 * (0.05 - 0.01)),
        pytest.approx(100 * (0.939 - (0.898 + 0.890 + 0.918) / 3)),
    )
    assert all(p.stat().st_size > 1000 for p in draw_gains(summary, tmp_path / "gains"))


def test_no_test_is_not_a_test_without_a_finding():
    few = Summary.of(grid_records(folds=2), PROTOCOL)
    assert (
        "none of which has enough runs for a signed-rank test" in claims.beats_all(few).evidence[1]
    )


def test_the_encoder_beside_an_anchor_is_chosen_by_dev():
    records = grid_records(folds=2, datasets=["mr"])
    for r in records:
        if r["embedding"] == "complex-order" and r["encoder"] == "cnn":
            r |= {"dev_accuracy": 0.99, "test_accuracy": 0.5}
    claim = claims.beats_anchors(Summary.of(records, PROTOCOL))
    assert claim.verdict == "does not hold" and "on 0 of 1 data sets" in claim.evidence[0]


@pytest.mark.parametrize(("phases", "vanilla", "verdict"), [
    (0.77, 0.75, "holds"), (0.75, 0.77, "holds in part"), (0.85, 0.85, "holds in part"),
])  # fmt: skip
def test_the_ablation_is_judged_by_its_order_too(phases, vanilla, verdict):
    found = {("complex-order", "paper"): 0.80, ("complex-order", "initial-phases"): phases}
    found |= {("complex-vanilla", "paper"): vanilla}
    cells = table4_cells("sst2-sentences")
    records = [record(c, found.get((c.embedding, c.variant), 0.79)) for c in cells]
    assert claims.sharing_costs_little(Summary.of(records, PROTOCOL)).verdict == verdict


def test_a_best_row_is_best_on_what_all_rows_have():
    records = grid_records(folds=2, datasets=["mr"], encoders=["cnn"])
    lucky = replace(TrainingCell("mr", "cnn", "none"), fold=5)
    rows = table2(Summary.of([*records, record(lucky, 1.0)], PROTOCOL), PROTOCOL).rows
    best = [row[0] for row in rows if len(row) > 1 and row[1] and row[1].is_best]
    assert best == ["complex-order"]


def test_the_report_tells_all_of_it(lexicon):
    summary = Summary.of(grid_records(folds=2), PROTOCOL)
    text = report(
        Results(PROTOCOL, summary, [words_record()], timing_record()), "reproduce/gains.png"
    )
    assert "](reproduce/gains.png)" in text and "above the paper's, in points" in text
    for part in ("Table 2", "Table 3", "Table 4", "Table 7", "Fig. 5", "cell by cell"):
        assert part in text
    assert "| cnn | trec | 0.750 | 0.939 | -0.189 | 1 |" in text
    empty = report(Results(PROTOCOL, Summary()))
    assert empty.count("**not measured**") == 10
    chosen = {("trec", "cnn", "tpe"): {"training": {"learning_rate": 0.002}}}
    searched = replace(PROTOCOL, search=SearchConfig(5, on="trec"), best_settings=chosen)
    text = report(Results(searched, Summary()))
    assert "| cnn | tpe | trec | learning_rate 0.002 |" in text
    assert "`python -m experiments report --search-trials 5 --search-on trec`" in text
    assert "infersent" in table3(summary, PROTOCOL).to_markdown()


def test_table1_counts_the_data_sets_and_has_the_papers_sizes(tiny_home, monkeypatch):
    monkeypatch.setattr(table1, "DATASETS", ("cr", "trec"))
    cr, trec = table1.table1().rows
    assert cr[0] == "cr (CV)" and sum(cr[1:4]) == 80 and cr[6:] == [2, "4K", "CV", "6K"]
    assert trec[:1] + trec[3:4] == ["trec", 24] and trec[6:] == [6, "5.4k", "0.5k", "10k"]


def test_rows_of_fewer_folds_are_named_and_rows_without_runs_left_out():
    cells = table2_cells(folds=2, rows=("paper",), datasets=("mr",), encoders=("transformer",))
    records = [record(c, 0.7) for c in cells if not (c.embedding == "rope" and c.fold)]
    ablation = TrainingCell("sst2-sentences", "transformer", "tpe", "matched")
    made = table2(Summary.of([*records, record(ablation, 0.7)], PROTOCOL), PROTOCOL)
    assert "tpe, parameter-matched" not in [row[0] for row in made.rows]
    (note,) = [note for note in made.notes if note.startswith("Fewer runs")]
    assert note.endswith(": transformer rope.")


def test_variants_are_rows_of_their_encoder():
    cells = table2_cells(rows=("variants",), datasets=("mr",), folds=1)
    assert len(cells) == len({*cells}) == len(TABLE2_VARIANTS)
    for cell in cells:  # every one of them can be built
        assert Protocol().config(cell).model.dim
    only = table2_cells(rows=("variants",), datasets=("mr",), folds=1, encoders=("cnn",))
    assert {cell.variant for cell in only} == {
        "complex-head", "trainable-sinusoids", "narrow", "real-layers"
    }  # fmt: skip


def test_rows_reported_by_others_are_context():
    assert paper.reported("table5")["AED + BPE (Sennrich et al. 2016)"] == "34.2"
    assert len(paper.reported("table6")) == 4
