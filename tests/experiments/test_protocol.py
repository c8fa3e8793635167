"""Who is trained on what, with which settings, and what a record's key holds."""

import json
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import fmean

import pytest

from experiments.cells import (
    DATASETS,
    SST2_SENTENCES,
    TABLE4,
    VARIANTS,
    TrainingCell,
    table2_cells,
    table4_cells,
)
from experiments.protocol import KEY, Protocol, SearchConfig, load_cell_splits
from experiments.records import upgrade
from experiments.settings_search import (
    SearchRun,
    search_cells,
    search_key,
    select_settings,
    with_best_settings,
)
from experiments.statistics import unpack_bits
from experiments.training_runs import (
    CellRun,
    match_parameters,
    model_size,
    run_model,
    widen,
    without_searched,
)
from wordwave.config_io import flatten, with_settings
from wordwave.embedding.config import PAPER_EMBEDDINGS
from wordwave.grid import Store
from wordwave.models.config import ENCODERS, ModelConfig
from wordwave.search.spaces import given
from wordwave.tasks.classification_job import ClassificationJob
from wordwave.tasks.config import TextConfig

WAVES = TrainingCell("cr", "fasttext", "complex-order")


def test_table_2_has_the_papers_rows_and_ours():
    once = table2_cells(folds=1)
    assert len({c for c in once if c.dataset == "mr"}) == 20 + 2 + 14 + 3
    assert Counter(c.dataset for c in once) == dict.fromkeys(DATASETS, 39)
    assert all(c.encoder == "transformer" for c in once if c.embedding in ("rope", "alibi"))
    matched = [c for c in once if c.variant == "matched"]
    assert not any(c.embedding.startswith("complex") for c in matched)


def test_only_sets_without_a_test_part_have_folds():
    cells = table2_cells(rows=("paper",), encoders=["cnn"], embeddings=["none"], folds=3, seeds=2)
    counts = Counter(c.dataset for c in cells)
    assert counts == {"mr": 6, "subj": 6, "cr": 6, "mpqa": 6, "sst2": 2, "trec": 2}


def test_a_narrowed_grid_keeps_the_keys_of_the_whole_one():
    narrow = table2_cells(encoders=["cnn"], embeddings=["tpe"], datasets=["cr"], folds=2)
    assert set(narrow) <= set(table2_cells())


def test_table_4_has_all_thirteen_rows_of_the_paper():
    from experiments import paper

    assert set(paper.ablation()) <= set(TABLE4)
    assert len(paper.ablation()) == 13
    assert {cell.variant for cell in table4_cells()} <= set(VARIANTS)


def test_the_key_holds_what_is_set_and_nothing_else(tiny_recipes):
    protocol = Protocol(folder=tiny_recipes)
    settings = protocol.settings(WAVES)
    assert set(settings["model"]) == {
        "encoder", "embedding", "dim", "hidden_dim", "n_filters", "n_heads", "feed_forward_dim",
        "state_dim", "dropout",
    }  # fmt: skip
    assert settings["training"] == {"epochs": 2, "batch_size": 16, "learning_rate": 0.02}
    assert "seed" not in settings["training"] and protocol.key(replace(WAVES, seed=3))["seed"] == 3
    assert set(protocol.key(WAVES)) == set(KEY)


def test_how_a_number_is_written_in_a_recipe_does_not_matter(tiny_recipes):
    path = tiny_recipes / "fasttext.yaml"
    before = Protocol(folder=tiny_recipes).key(WAVES)
    path.write_text(path.read_text().replace("0.02", "2e-2"))
    assert Protocol(folder=tiny_recipes).key(WAVES) == before


def test_a_recipe_for_a_data_set_counts_more(tiny_recipes):
    (tiny_recipes / "fasttext-cr.yaml").write_text("training: {epochs: 7}\n")
    protocol = Protocol(folder=tiny_recipes)
    assert protocol.config(WAVES).training.epochs == 7
    assert protocol.config(replace(WAVES, dataset="trec")).training.epochs == 2


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_makes_a_config(variant):
    cell = TrainingCell("sst2", "transformer", "complex-order", variant, seed=4)
    config = Protocol().config(cell)
    assert config.training.seed == 4
    assert flatten(config).items() >= VARIANTS[variant].items()


def test_every_embedding_gets_the_same_recipe():
    for encoder in ENCODERS:
        kinds = ("none", "pe", "tpe", "complex-vanilla", "complex-order")
        found = [Protocol().settings(TrainingCell("mr", encoder, kind)) for kind in kinds]
        for settings in found:
            settings["model"]["embedding"].pop("kind")
        assert all(settings == found[0] for settings in found)


def test_quick_runs_are_kept_apart():
    full, quick = Protocol(), Protocol("quick")
    assert full.key(WAVES)["budget"] != quick.key(WAVES)["budget"]
    assert quick.config(WAVES).training.epochs < full.config(WAVES).training.epochs


def test_parts_never_overlap(tiny_home):
    for fold in range(10):
        parts = load_cell_splits("cr", fold)
        assert len(parts.train) + len(parts.dev) + len(parts.test) == 80
    sentences, phrases = load_cell_splits(SST2_SENTENCES), load_cell_splits("sst2")
    assert len(sentences.train) == 40 and len(phrases.train) == 80
    assert sentences.test.texts == phrases.test.texts and sentences.dev == phrases.dev


def test_a_record_says_what_was_run_and_repeats_exactly(tiny_home, tiny_recipes):
    protocol = Protocol(folder=tiny_recipes)
    first, second = (CellRun(protocol)(WAVES) for _ in range(2))
    assert {**protocol.key(WAVES)}.items() <= first.items()
    assert first["test_accuracy"] == second["test_accuracy"]
    assert fmean(unpack_bits(first["correct"], first["n_test"])) == first["test_accuracy"]
    assert first["config"]["model"]["embedding"]["kind"] == "complex-order" and first["epochs"] == 2
    assert first["versions"]["torch"] and first["parameters"] > 0 and first["n_test"] == 8
    assert "commit" in first


def test_a_matched_row_has_as_many_parameters(tiny_home, tiny_recipes):
    protocol = Protocol(folder=tiny_recipes)
    waves = run_model(protocol, WAVES)[0]
    matched, _ = run_model(protocol, replace(WAVES, embedding="none", variant="matched"))
    plain = run_model(protocol, replace(WAVES, embedding="none"))[0]
    assert plain["parameters"] < matched["parameters"]
    assert matched["parameters"] == pytest.approx(waves["parameters"], rel=0.06)
    assert matched["config"]["model"]["dim"] > plain["config"]["model"]["dim"]


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("embedding", ["none", "pe", "tpe"])
def test_widths_grow_until_the_counts_agree(encoder, embedding):
    model = with_settings(ModelConfig(), embedding=embedding, encoder=encoder, dim=64)
    wanted = model_size(with_settings(model, embedding="complex-order"), 5000, 2)
    assert model_size(match_parameters(model, wanted, 5000, 2), 5000, 2) == pytest.approx(
        wanted, rel=0.07
    )


def test_a_wider_model_keeps_its_pretrained_vectors(tiny_home, tiny_recipes, tmp_path):
    lines = [f"{w} " + " ".join(str(0.1 * (i + d)) for d in range(6)) for i, w in enumerate(
        ["the", "good", "awful", "film"])]  # fmt: skip
    (tmp_path / "some.vec").write_text("\n".join(lines) + "\n")
    protocol = Protocol(folder=tiny_recipes)
    text = TextConfig(tokenizer="kim", vectors=str(tmp_path / "some.vec"))
    config = replace(protocol.config(replace(WAVES, embedding="none")), text=text)
    prepared = ClassificationJob(config).prepare(load_cell_splits("cr"))
    waves = replace(protocol.config(WAVES), text=text)
    wide = widen(prepared, waves)
    before = prepared.text_model.model.embedding.vectors
    after = wide.text_model.model.embedding.vectors
    assert before.shape[1] == 6 and after.shape[1] > 6
    words = list(prepared.text_model.encoder.vocabulary.words)
    assert (after[:, :6] == before).all() and after[words.index("good"), 6:].std() > 0
    assert (after[1, 6:] == 0).all()  # no unknown word is met in training


def test_searches_are_one_for_each_embedding_and_data_set():
    cells = table2_cells(datasets=["cr", "trec"], encoders=["cnn"], folds=2, seeds=2)
    wanted = search_cells(cells, SearchConfig(5))
    kinds = {"none", "pe", "tpe", "complex-vanilla", "complex-order"}
    assert {(c.dataset, c.embedding) for c in wanted} == {
        (d, k) for d in ("cr", "trec") for k in kinds
    }
    matched = [TrainingCell("cr", "cnn", "none", "matched")]
    wanted = search_cells(matched, SearchConfig(5))
    assert {c.embedding for c in wanted} == kinds  # a select_settings takes all five
    rope = search_cells([TrainingCell("cr", "transformer", "rope")], SearchConfig(5))
    assert {c.embedding for c in rope} == {*kinds, "rope"}
    on_trec = search_cells(cells, SearchConfig(5, on="trec"))
    assert {(c.dataset, c.embedding) for c in on_trec} == {("trec", k) for k in kinds}


def test_one_search_may_serve_all_data_sets(tmp_path, tiny_recipes):
    protocol = Protocol(search=SearchConfig(5, on="trec"), folder=tiny_recipes)
    store = Store(tmp_path / "records.jsonl", KEY)
    searched = replace(WAVES, dataset="trec")
    searches(store, protocol, searched)
    found = with_best_settings(protocol, store)
    assert found.config(WAVES).training.batch_size == 64
    with pytest.raises(ValueError, match="cnn with none on trec"):
        found.config(replace(WAVES, encoder="cnn", embedding="none"))


def test_large_sets_are_read_less_often():
    def epochs(protocol):
        cells = (TrainingCell(dataset, "cnn", "tpe") for dataset in DATASETS)
        return [protocol.config(cell).training.epochs for cell in cells]

    assert epochs(Protocol()) == [6, 6, 10, 8, 3, 10]
    assert epochs(Protocol(version="first")) == [4, 4, 10, 6, 2, 10]


def test_the_first_version_has_narrow_windows_and_one_dropout():
    cell = TrainingCell("mr", "cnn", "tpe")
    first, now = (Protocol(version=v).config(cell).model for v in ("first", "current"))
    assert (first.padding, first.word_vector_dropout, first.dropout) == ("narrow", 0.5, 0.5)
    assert (now.padding, now.word_vector_dropout, now.dropout) == ("wide", 0.0, 0.5)


def test_records_of_a_cnn_that_say_nothing_of_its_windows_are_of_the_first_version():
    cell = TrainingCell("mr", "cnn", "tpe")
    key = Protocol(version="first").key(cell)
    old = json.loads(json.dumps(key))
    del old["settings"]["model"]["padding"]
    assert upgrade(old) == key != Protocol().key(cell)


def test_reviews_use_what_was_searched_on_mr():
    search = SearchConfig(8, "table", "similar")
    of = {d: search.key(TrainingCell(d, "cnn", "tpe"))[0] for d in (*DATASETS, SST2_SENTENCES)}
    assert of == {"mr": "mr", "cr": "mr", "sst2": "mr", SST2_SENTENCES: "mr"} | {
        name: name for name in ("subj", "mpqa", "trec")
    }
    assert search.flags() == " --search-trials 8 --search-space table --search-on similar"


def test_a_search_of_the_table_is_short_and_starts_from_the_recipe(tmp_path, tiny_home):
    for encoder, embedding in product(ENCODERS, PAPER_EMBEDDINGS):
        protocol = Protocol(search=SearchConfig(8, "table"))
        cell = TrainingCell("trec", encoder, embedding)
        plan = SearchRun(protocol, tmp_path)._plan(cell)
        whole = protocol.without_search().config(cell).training.epochs
        assert plan.config.training.epochs == whole / 2 and plan.parts.test is None
        assert given(plan.varied, plan.config) is not None, "the first trial is the recipe"


def test_versions_of_the_protocol_share_no_search(tmp_path, tiny_home):
    cell = TrainingCell("trec", "cnn", "complex-order")
    first, current, again = (
        SearchRun(Protocol(search=SearchConfig(5), version=version), tmp_path)._plan(cell)
        for version in ("first", "current", "first")
    )
    result = {"kind": "result", "trial": 1, "params": given(first.varied, first.config)}
    result |= {"search": first.fixed, "curve": [[100, 0.5]], "stopped": "", "seconds": 1.0}
    first.store.append(result)
    assert len(again.results()) == 1 and current.results() == []
    there = Path(__file__).parents[2] / "results/reproduce/searches"
    assert (there / first.folder.name).is_dir(), "recorded searches keep their names"
    wrong = replace(current, folder=first.folder)
    with pytest.raises(ValueError, match=r"holds a search with .* choose another --out$"):
        wrong.results()


def test_accuracy_without_examples_that_a_search_was_validated_on(tiny_home):
    protocol = Protocol(search=SearchConfig(8, "table"))
    cell = TrainingCell("cr", "fasttext", "none", fold=1)
    splits, searched = load_cell_splits("cr", 1), load_cell_splits("cr").dev
    known = set(zip(searched.texts, searched.labels, strict=True))
    examples = zip(splits.test.texts, splits.test.labels, strict=True)
    correct = [example not in known for example in examples]
    found = without_searched(protocol, cell, splits, correct)
    assert found == {"n_unsearched": sum(correct), "unsearched_accuracy": 1.0}
    for other in (replace(cell, fold=0), replace(cell, dataset="trec")):
        assert without_searched(Protocol(search=SearchConfig(8, on="mr")), other, splits, []) == {}


def test_what_a_search_chose_counts_more_than_the_recipe(tmp_path, tiny_recipes):
    protocol = Protocol(search=SearchConfig(5), folder=tiny_recipes)
    store = Store(tmp_path / "records.jsonl", KEY)
    with pytest.raises(ValueError, match="no search of 5 trials"):
        protocol.config(WAVES)
    searches(store, protocol, WAVES)
    found = with_best_settings(protocol, store)
    assert found.config(WAVES).training.batch_size == 64
    assert found.config(replace(WAVES, variant="initial-phases")).training.batch_size == 64
    assert found.key(WAVES) != protocol.without_search().key(WAVES)
    other = Protocol(search=SearchConfig(6), folder=tiny_recipes)
    assert with_best_settings(other, store).best_settings == {}


def tried(n_dev=400, **accuracies):
    """A search whose trials differ in batch size."""
    trials = [
        {"settings": {"training": {"batch_size": int(name[1:])}}, "dev_accuracy": accuracy}
        for name, accuracy in accuracies.items()
    ]
    return {"trials": trials, "n_dev": n_dev}


def searches(store, protocol, cell):
    """Searches of all five embeddings, each of them for batches of 64."""
    for kind in PAPER_EMBEDDINGS:
        key = search_key(protocol, replace(cell, embedding=kind))
        store.append({**key, **tried(b32=0.8, b64=0.9)})


def test_what_a_row_cannot_tell_apart_is_decided_by_all_rows():
    rows = [tried(b32=0.80, b64=0.85, b128=0.70) for _ in range(4)]
    close = tried(b32=0.86, b64=0.85, b128=0.70)  # a standard error is 0.017
    far = tried(b32=0.90, b64=0.85, b128=0.70)
    assert select_settings(close, [*rows, close]) == {"training": {"batch_size": 64}}
    assert select_settings(far, [*rows, far]) == {"training": {"batch_size": 32}}
    assert select_settings(tried(b256=0.9), rows) == {"training": {"batch_size": 256}}


def test_a_missing_recipe_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"must hold a recipe fasttext\.yaml"):
        Protocol(folder=tmp_path).settings(WAVES)
