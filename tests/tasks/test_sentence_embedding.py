"""Sentence encoders: what they learn, what their vectors are, how they are saved and loaded."""

import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

import wordwave as ww
from wordwave.config_io import with_settings
from wordwave.data.sentences import read_sentences, split_sentences
from wordwave.errors import WordwaveError
from wordwave.models.sentence_encoder import TABLE_WORDS, SentenceNetwork, TokenBatch
from wordwave.progress import listening
from wordwave.tasks import sentence_embedding, sentence_encoder
from wordwave.tasks.config import SentenceEmbeddingConfig
from wordwave.tasks.sentence_embedding import SentenceEmbeddingJob, projected
from wordwave.tasks.sentence_encoder import SentenceEncoder, SentenceTransformersModule
from wordwave.tasks.word_order import concatenated, halves, reordered, shortened
from wordwave.training.run import TrainingStopped

QUICK = {"dim": 16, "order_dim": 8, "bpe_size": 400, "epochs": 6, "batch_size": 32}
TOPICS = [[f"{name}{i}" for i in range(12)] for name in ("sea", "sky", "city")]


def sentences(n=300, seed=0):
    """Each on one of three topics, of words of that topic only."""
    rng = random.Random(seed)
    return [" ".join(rng.sample(TOPICS[i % 3], rng.randrange(4, 9))) for i in range(n)]


def teacher(texts):
    """A vector of each topic, and a little noise."""
    topics = np.random.default_rng(0).normal(size=(3, 24))
    noise = np.random.default_rng(1).normal(size=(len(texts), 24))
    return (topics[np.arange(len(texts)) % 3] + 0.1 * noise).astype(np.float32)


def prepared(with_teacher=True, **settings):
    config = with_settings(SentenceEmbeddingConfig(), **QUICK | settings)
    texts = sentences()
    given = teacher(texts) if with_teacher else None
    return SentenceEmbeddingJob(config).prepare(split_sentences(texts, teacher=given))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "topics"
    job = prepared()
    return job, folder, job.train(folder)


@pytest.fixture
def encoder(trained):
    return SentenceEncoder.load(trained[1])


def test_it_imitates_the_teacher(trained, encoder):
    _, _, result = trained
    assert result["dev"]["teacher_cosine"] > 0.9
    assert 0 <= result["dev"]["order_auc"] <= 1
    sea, other_sea, sky = "sea1 sea2 sea3", "sea4 sea5 sea6 sea7", "sky1 sky2 sky3"
    cosines = encoder.similarity([sea], [sea, other_sea, sky])[0]
    assert_allclose(cosines[0], 1, atol=1e-5)
    assert cosines[1] > cosines[2] + 0.3


def test_without_a_teacher_halves_of_a_sentence_are_similar(tmp_path):
    result = prepared(with_teacher=False).train(tmp_path)
    cosines = SentenceEncoder.load(tmp_path).similarity(
        ["sea1 sea2 sea3"], ["sea4 sea5 sea6 sea7", "sky1 sky2 sky3"]
    )
    assert cosines[0, 0] > cosines[0, 1] + 0.3
    assert 0 <= result["dev"]["halves"] <= 1


def test_vectors_are_float32_rows_of_length_one(encoder):
    texts = ["sea1 sea2", "", "!?", "unseen wörds 漢字", "sea1 " * 100]
    vectors = encoder.encode(texts)
    assert vectors.dtype == np.float32 and vectors.shape == (5, encoder.width)
    assert encoder.width == 16 + 2 * 3 * 8 and encoder.encode([]).shape == (0, encoder.width)
    assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    alone = np.concatenate([encoder.encode([text]) for text in texts])
    assert_allclose(alone, vectors, rtol=1e-4, atol=1e-5)
    assert_allclose(encoder.similarity(texts, vectors), vectors @ vectors.T, rtol=1e-4, atol=1e-5)


def test_the_order_weight_mixes_the_cosines_of_both_parts(encoder):
    texts = ["sea1 sea2 sky3", "sky3 sea2 sea1", "sky3 city4"]
    cosines = {}
    for alpha in (0, 0.25, 1):
        encoder.order_weight = alpha
        cosines[alpha] = encoder.similarity(texts, texts)
    assert_allclose(cosines[0.25], 0.75 * cosines[0] + 0.25 * cosines[1], rtol=1e-4, atol=1e-5)
    assert_allclose(cosines[0][0, 1], 1, rtol=1e-5)  # a bag of words
    assert cosines[1][0, 1] < 0.99
    with pytest.raises(WordwaveError, match="order_weight must be at most 1, got 2"):
        encoder.order_weight = 2


def test_case_spaces_and_punctuation_do_not_move_words(encoder):
    """Punctuation has a vector, at the position of the word before it, like further subwords."""

    def placed(text):
        sentences, _ = encoder.encoder.encode([text])
        tokens = encoder.tokens(sentences)
        words = [encoder.encoder.vocabulary.words[i].strip("Ġ") for i in tokens.ids]
        return list(zip(words, tokens.positions.tolist(), strict=True)), tokens.n_words.tolist()

    assert placed("sea1 sky2") == ([("sea", 1), ("1", 1), ("sky", 2), ("2", 2)], [2])
    marked, n_words = placed("Sea, (sky) Unbelievable.")
    spelled = [pair for pair in marked if pair[0].isalpha()]
    assert spelled[:2] == [("sea", 1), ("sky", 2)] and n_words == [3]
    assert len(spelled) > 4 and {p for _, p in spelled[2:]} == {3}  # an unknown word
    assert [p for word, p in marked if word in (",", "(", ")", ".")] == [1, 1, 2, 3]
    vectors = encoder.encode(["SEA1   sea2", "sea1\tsea2 "])
    assert_allclose(vectors[0], vectors[1], rtol=1e-5)


def reference(network, ids, positions):
    """The vector of one sentence by the formula, in complex128."""
    weights = {name: w.detach().numpy().astype(float) for name, w in network.state_dict().items()}
    meaning = weights["embedding.meaning.weight"][ids].sum(0)
    r, end = weights["embedding.order.weight"][ids], max(positions) + 1
    p = np.array(positions)[:, None]
    counted = {"start": p, "end": end - p, "relative": p / end}
    order = []
    for view, omega in zip(
        network.config.views, weights["embedding.frequency.weight"], strict=True
    ):
        wave = (r * np.exp(1j * omega * counted[view])).sum(0)
        order += [wave.real, wave.imag]
    parts, alpha = (meaning, np.concatenate(order)), network.order_weight
    scaled = [
        x / np.linalg.norm(x) * s**0.5 for x, s in zip(parts, (1 - alpha, alpha), strict=True)
    ]
    return np.concatenate(scaled)


@pytest.mark.parametrize("longest", [9, TABLE_WORDS, TABLE_WORDS + 5])
def test_the_network_computes_its_formula(longest):
    torch.manual_seed(0)
    network = SentenceNetwork(with_settings(SentenceEmbeddingConfig(), **QUICK).model, 50)
    rows = [(range(3, 3 + n), range(1, n + 1)) for n in (1, 3, 9)]
    rows.append(([7] * (longest + 1), [1, *range(1, longest + 1)]))
    batch = TokenBatch(
        torch.tensor([i for ids, _ in rows for i in ids]),
        torch.tensor([p for _, positions in rows for p in positions]),
        torch.tensor([len(ids) for ids, _ in rows]),
        torch.tensor([max(positions) for _, positions in rows]),
    )
    wanted = np.stack([reference(network, list(ids), list(p)) for ids, p in rows])
    with torch.no_grad():
        assert_allclose(network.vectors(batch).numpy(), wanted, rtol=1e-4, atol=1e-5)
    assert_allclose(network.vectors(batch).detach().numpy(), wanted, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        network.frequency.mul_(2)  # the table follows the frequencies
        wanted = np.stack([reference(network, list(ids), list(p)) for ids, p in rows])
        assert_allclose(network.vectors(batch).numpy(), wanted, rtol=1e-4, atol=1e-5)


def batch_of(*lengths):
    """Sentences of so many words, in which word k has the id k and every third word two tokens."""
    rows = [[p for p in range(1, n + 1) for _ in range(2 if p % 3 == 0 else 1)] for n in lengths]
    positions = torch.tensor([p for row in rows for p in row])
    ids = positions + 1
    return TokenBatch(ids, positions, torch.tensor([len(r) for r in rows]), torch.tensor(lengths))


def split(batch, values):
    return [part.tolist() for part in values.split(batch.lengths.tolist())]


def test_reordered_sentences_have_the_same_words_at_other_positions():
    batch = batch_of(*[1, 2, 3, 5, 8, 13] * 30)
    generator = torch.Generator().manual_seed(0)
    other, is_changed = reordered(batch, torch.ones(20), generator=generator)
    assert torch.equal(other.ids, batch.ids) and torch.equal(other.n_words, batch.n_words)
    rows = zip(
        split(batch, batch.positions), split(other, other.positions), is_changed, strict=True
    )
    for before, after, changed in rows:
        mapped = dict(zip(before, after, strict=True))
        assert sorted(mapped.values()) == sorted(mapped)  # a permutation of words
        assert len(set(zip(before, after, strict=True))) == len(mapped)  # subwords stay together
        assert bool(changed) == (before != after)
    assert is_changed[batch.n_words > 3].float().mean() > 0.7
    assert not is_changed[batch.n_words == 1].any()
    same = batch._replace(ids=torch.full_like(batch.ids, 5))
    assert not reordered(batch_of(2, 2)._replace(ids=torch.full((4,), 5)), torch.ones(20))[1].any()
    assert reordered(same, torch.ones(20), generator=generator)[0].ids.unique().tolist() == [5]


def test_shortened_sentences_keep_the_order_of_the_rest():
    batch = batch_of(*[1, 2, 3, 5, 8] * 20)
    short = shortened(batch, generator=torch.Generator().manual_seed(0))
    n_dropped = (batch.n_words - short.n_words).view(-1, 5)
    assert set(n_dropped[:, 3:].flatten().tolist()) == {1, 2}
    assert n_dropped[:, :2].eq(0).all() and n_dropped[:, 2].eq(1).all()
    for ids, positions, n in zip(
        split(short, short.ids), split(short, short.positions), short.n_words.tolist(), strict=True
    ):
        assert ids == sorted(ids) and sorted(set(positions)) == list(range(1, n + 1))
    both = concatenated(batch, short)
    assert len(both.lengths) == 200 and int(both.lengths.sum()) == len(both.ids)


def test_halves_share_no_word():
    batch = batch_of(1, 2, 5, 8)
    one, other = (split(half, half.ids) for half in halves(batch))
    for i, (a, b) in enumerate(zip(one, other, strict=True)):
        whole = set(split(batch, batch.ids)[i])
        assert set(a) | set(b) == whole and a and b
        assert len(whole) % 2 == 1 or not set(a) & set(b)


def test_projection_keeps_the_cosines_of_the_teacher():
    rng = np.random.default_rng(0)
    vectors = (rng.normal(size=(500, 6)) @ rng.normal(size=(6, 40))).astype(np.float16)
    small = projected(vectors, 8).float()
    unit = torch.nn.functional.normalize(torch.from_numpy(vectors).float())
    assert_close(small @ small.T, unit @ unit.T, atol=5e-3, rtol=0)
    with pytest.raises(WordwaveError, match="dim must be at most the width of the teacher, 40"):
        projected(vectors, 41)
    vectors[3] = 0
    with pytest.raises(WordwaveError, match="every vector must be finite and not 0"):
        projected(vectors, 8)


def stopping(after):
    seen = []

    def watch(report):
        seen.append(report)
        if len(seen) == after:
            raise TrainingStopped

    return watch


def test_a_stopped_training_goes_on_to_the_same_weights(trained, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        prepared().train(tmp_path, save_every=0, watch=stopping(12))
    assert (tmp_path / "state").exists()
    prepared().train(tmp_path)
    one, other = (load_file(f / "model.safetensors") for f in (trained[1], tmp_path))
    assert one.keys() == other.keys() and all(one[k].equal(other[k]) for k in one)


@pytest.mark.parametrize(("dtype", "atol"), [("float32", 1e-6), ("float16", 2e-3), ("int8", 2e-2)])
def test_tables_are_stored_in_fewer_bits(encoder, dtype, atol, tmp_path):
    texts = sentences(40, seed=3)
    encoder.order_weight = 0.4
    encoder.save(tmp_path / "small", dtype=dtype)
    loaded = SentenceEncoder.from_pretrained(tmp_path / "small")
    assert loaded.order_weight == 0.4
    assert_allclose(loaded.encode(texts), encoder.encode(texts), atol=atol)
    stored = load_file(tmp_path / "small" / "model.safetensors")
    assert stored["embedding.meaning.weight"].dtype == getattr(torch, dtype)
    loaded.save(tmp_path / "again", dtype=dtype)
    again = SentenceEncoder.load(tmp_path / "again")
    assert_allclose(again.encode(texts), loaded.encode(texts), atol=1e-5)
    assert "/" not in (tmp_path / "small" / "config.yaml").read_text()


def test_mistakes_are_told_in_one_line(encoder, tmp_path):
    with pytest.raises(WordwaveError, match="dtype must be one of float32, float16, int8, got 'in"):
        encoder.save(tmp_path, dtype="int4")
    with pytest.raises(WordwaveError, match="texts must be a list of texts, got the text 'sea1'"):
        encoder.encode("sea1")
    with pytest.raises(WordwaveError, match="there is no folder or encoder 'nowhere'"):
        SentenceEncoder.from_pretrained("nowhere")


def test_vectors_and_weights_of_the_wrong_kind_are_told_in_one_line(encoder):
    texts = np.array(["sea1 sea2", "sea2"])
    assert_allclose(
        encoder.similarity(texts, texts.astype(object)), encoder.similarity(*[list(texts)] * 2)
    )
    for vectors in (np.zeros(encoder.width, np.float32), np.zeros((2, 3), np.float32)):
        with pytest.raises(WordwaveError, match="vectors must be of shape"):
            encoder.similarity(texts, vectors)
    for alpha in ("x", None, True, 1.5):
        with pytest.raises(WordwaveError, match="order_weight must be"):
            encoder.order_weight = alpha


def test_a_folder_does_not_hide_an_encoder_of_the_package(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "english").mkdir()
    assert SentenceEncoder.from_pretrained().width == 448


def test_an_encoder_of_the_package_has_a_name(encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(sentence_encoder, "PRETRAINED", tmp_path)
    encoder.save(tmp_path / sentence_encoder.DEFAULT_ENCODER, dtype="int8")
    loaded = ww.SentenceEncoder.from_pretrained()
    assert loaded.similarity(["sea1 sea2"], ["sea2 sea1"]).shape == (1, 1)
    with pytest.raises(WordwaveError, match="that come with this installation: english"):
        SentenceEncoder.from_pretrained("../english")


def test_the_shipped_encoder_encodes_meaning_and_word_order():
    folder = sentence_encoder.PRETRAINED / sentence_encoder.DEFAULT_ENCODER
    assert sum(path.stat().st_size for path in folder.iterdir()) < 10_000_000
    loaded = SentenceEncoder.from_pretrained()
    others = ["dog bites man", "man bites dog", "a cat sleeps on the sofa"]
    same, swapped, different = loaded.similarity(others[:1], others)[0]
    assert same == pytest.approx(1, abs=1e-5) and different + 0.3 < swapped < 0.99
    loaded.order_weight = 0
    assert loaded.similarity(others[:1], others)[0, 1] == pytest.approx(1, abs=1e-5)


def damaged(folder, change):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.pop("embedding.meaning.scale"), "'embedding.meaning.scale' is missing"),
        (lambda t: t.update(more=torch.ones(1)), "'more' is not expected"),
        (
            lambda t: t.update({"embedding.order.weight": torch.ones(3, 8)}),
            "size mismatch for the tensor 'embedding.order.weight'",
        ),
        (
            lambda t: t.update(
                {"embedding.meaning.weight": t["embedding.meaning.weight"].double()}
            ),
            "is not expected",
        ),
        (lambda t: t["embedding.meaning.scale"].fill_(float("nan")), "has a NaN or infinite value"),
    ],
)
def test_damaged_weights_are_refused(encoder, change, said, tmp_path):
    encoder.save(tmp_path, dtype="int8")
    damaged(tmp_path, change)
    with pytest.raises(WordwaveError, match=r"does not hold this model") as caught:
        SentenceEncoder.load(tmp_path)
    assert said in str(caught.value)


def test_weights_that_are_too_large_are_refused(encoder, tmp_path):
    encoder.save(tmp_path, dtype="int8")
    damaged(tmp_path, lambda t: t["embedding.meaning.scale"].fill_(1e37))
    with pytest.raises(WordwaveError, match="vectors are not finite"):
        SentenceEncoder.load(tmp_path).encode(["sea1 sea2 sea3"])


def test_sentences_and_teachers_are_checked(tmp_path):
    texts, data, file = sentences(40), tmp_path / "s.txt", tmp_path / "t.npy"
    data.write_text("\n".join(texts) + "\n")
    np.save(file, teacher(texts).astype(np.float16))
    found = read_sentences(data, file)
    assert found.texts == texts and found.teacher.shape == (40, 24)
    assert sorted(found.train + found.dev) == list(range(40)) and len(found.dev) == 4
    assert found.fingerprint() != read_sentences(data).fingerprint()

    def refused(said, vectors=None, text=None):
        if vectors is not None:
            np.save(file, vectors, allow_pickle=True)
        if text is not None:
            data.write_text(text)
        with pytest.raises(WordwaveError, match=said):
            read_sentences(data, file)

    refused("must have a row for each of the 40 sentences, got 39", np.ones((39, 4), "float32"))
    refused("must be float16 or float32, got float64", np.ones((40, 4)))
    refused("must have a row per sentence, got", np.ones(40, "float32"))
    refused("is not a .npy file of numbers", np.array([{}] * 40, dtype=object))
    file.write_bytes(b"no array")
    refused("is not a .npy file of numbers")
    refused("line 2 must hold a sentence", text="one\n \nthree\n")
    np.save(file, np.ones((40, 4), "float32"))
    refused("20 different sentences or more, got 1", text="one\n" * 40)


def test_equal_sentences_are_on_one_side_only():
    texts = [f"a sentence {i % 30}" for i in range(90)]
    found = split_sentences(texts)
    assert not {texts[i] for i in found.train} & {texts[i] for i in found.dev}
    assert len(found.dev) == 3


def test_a_module_of_sentence_transformers_has_the_same_vectors(encoder, tmp_path):
    module = SentenceTransformersModule(encoder)
    texts = ["sea1 sea2", "sky3", ""]
    with torch.no_grad():
        found = module(module.preprocess(texts))["sentence_embedding"]
        prompted = module(module.tokenize(["sea2"], prompt="sea1 "))["sentence_embedding"]
    assert_allclose(found.numpy(), encoder.encode(texts), rtol=1e-4, atol=1e-5)
    assert_allclose(prompted[0].numpy(), encoder.encode(texts)[0], rtol=1e-4, atol=1e-5)
    assert module.get_embedding_dimension() == encoder.width
    module.save(str(tmp_path))
    again = SentenceTransformersModule.load(str(tmp_path))
    assert_allclose(again.encoder.encode(texts), encoder.encode(texts), rtol=1e-5, atol=1e-6)


def test_sentence_transformers_takes_the_module(encoder, tmp_path):
    package = pytest.importorskip("sentence_transformers")
    model = package.SentenceTransformer(modules=[ww.SentenceTransformersModule(encoder)])
    texts = sentences(10, seed=4)
    assert_allclose(model.encode(texts), encoder.encode(texts), rtol=1e-4, atol=1e-5)
    assert model.get_embedding_dimension() == encoder.width


def test_a_teacher_by_name_encodes_the_sentences_once(tmp_path, monkeypatch):
    texts, seen, encoded = sentences(), [], []
    vectors = dict(zip(texts, teacher(texts), strict=True))

    class Teacher:
        def __init__(self, name, device):
            assert (name, device) == ("a-model", "cpu")

        def encode(self, batch, show_progress_bar):
            encoded.extend(batch)
            return np.stack([vectors[text] for text in batch])

    package = SimpleNamespace(SentenceTransformer=Teacher)
    monkeypatch.setattr(sentence_embedding, "import_extra", lambda name: package)
    monkeypatch.setattr(sentence_embedding, "ENCODED_AT_ONCE", 100)
    job = prepared(with_teacher=False, teacher="a-model", epochs=1)
    with pytest.raises(KeyboardInterrupt):
        job.train(tmp_path, watch=stopping(1))
    assert len(encoded) == 100
    listener = SimpleNamespace(stage=lambda *stage: seen.append(stage))
    with listening(listener):
        result = job.train(tmp_path)
    assert ("a-model encodes sentences", 1.0) in seen and "teacher_cosine" in result["dev"]
    (tmp_path / "result.json").unlink()
    prepared(with_teacher=False, teacher="a-model", epochs=1).train(tmp_path)
    assert encoded == texts
    (file,) = tmp_path.glob("teacher-*")
    assert_allclose(np.load(file), teacher(texts), rtol=1e-2, atol=1e-2)
