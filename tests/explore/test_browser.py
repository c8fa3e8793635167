"""The page in a real browser, from disk with the network off, and served."""

import random
import re
from pathlib import Path

import pytest
import torch

from wordwave.explore import Bag, Session, export_page

ROOT = Path(__file__).parents[2]
AXE = ROOT / "node_modules/axe-core/axe.min.js"
CLOSE = 1e-4
SIZES = ((360, 740), (1280, 900), (1920, 1080))
pytestmark = pytest.mark.slow


class Visit:
    """A page that is open, with all that it said and asked for."""

    def __init__(self, browser, address, *, offline=True, size=(1280, 900), **options):
        options = {"viewport": dict(zip(("width", "height"), size, strict=True))} | options
        self.context = browser.new_context(**options)
        self.context.set_default_timeout(60_000)  # for a busy machine
        self.context.set_offline(offline)
        self.page = self.context.new_page()
        self.address, self.said, self.asked = address, [], []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.said.append("dialog"), dialog.dismiss()))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(address)
        self.ready()

    def ready(self):
        """Wait until the page shows all that the last change asked for."""
        self.page.wait_for_selector("body[data-ready]", state="attached")

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                assert self.said == []
                origin = re.match(r"file:///|https?://[^/]*/", self.address)[0]
                assert all(url.startswith((origin, "data:,")) for url in self.asked), self.asked
        finally:
            self.context.close()

    def bars(self, which="ours"):
        found = self.page.locator(f"#{which} .bar")
        return [float(found.nth(i).get_attribute("data-probability")) for i in range(found.count())]

    def words(self):
        return self.page.locator("#tiles .tile").all_inner_texts()

    def tile(self, word):
        return self.page.locator("#tiles .tile", has_text=re.compile(f"^{re.escape(word)}$")).first

    def write(self, text):
        self.page.fill("#text", text)
        self.page.press("#text", "Enter")
        self.ready()

    def drag(self, word, to, side=0.9):
        """Drag a tile by mouse over another one."""
        start, end = self.tile(word).bounding_box(), self.tile(to).bounding_box()
        mouse = self.page.mouse
        mouse.move(start["x"] + start["width"] / 2, start["y"] + start["height"] / 2)
        mouse.down()
        x, y = end["x"] + end["width"] * side, end["y"] + end["height"] / 2
        mouse.move(x - 20, y, steps=4)
        mouse.move(x, y, steps=4)
        mouse.up()


@pytest.fixture
def visit(browser, page):
    with Visit(browser, page.path.as_uri(), reduced_motion="reduce") as found:
        yield found


def agrees(visit, page, text):
    """Whether both bars are those of PyTorch with the same rounded weights."""
    ours, twin = (one.probabilities([text])[0].tolist() for one in (page.ours, page.twin))
    assert visit.bars() == pytest.approx(ours, abs=CLOSE)
    assert visit.bars("twin") == pytest.approx(twin, abs=CLOSE)
    return True


def test_dragging_by_mouse_changes_the_classes_as_in_pytorch_and_not_the_twin(visit, page):
    before, twin = visit.bars(), visit.bars("twin")
    assert agrees(visit, page, "dog bites man")
    visit.drag("dog", "man")
    assert visit.words() == ["bites", "man", "dog"]
    assert agrees(visit, page, "bites man dog")
    assert max(abs(a - b) for a, b in zip(visit.bars(), before, strict=True)) > 0.01
    assert visit.bars("twin") == pytest.approx(twin, abs=1e-6)
    assert visit.page.locator("#twin-moved").inner_text() == "As in the original order."
    assert "Moved by" in visit.page.locator("#ours-moved").inner_text()
    assert "dog is at place 3 of 3" in visit.page.locator("#said").inner_text()
    visit.drag("dog", "bites", side=0.1)
    assert visit.words() == ["dog", "bites", "man"] and agrees(visit, page, "dog bites man")


def test_the_bars_follow_while_the_tile_is_still_held(visit, page):
    start, end = visit.tile("dog").bounding_box(), visit.tile("man").bounding_box()
    mouse = visit.page.mouse
    mouse.move(start["x"] + 10, start["y"] + 10)
    mouse.down()
    mouse.move(end["x"] + end["width"] - 5, end["y"] + 10, steps=5)
    assert agrees(visit, page, "bites man dog")
    visit.page.keyboard.press("Escape")
    assert visit.words() == ["dog", "bites", "man"] and agrees(visit, page, "dog bites man")
    mouse.up()


def test_dragging_by_touch(browser, page):
    with Visit(browser, page.path.as_uri(), size=(360, 740), has_touch=True) as visit:
        start, end = visit.tile("dog").bounding_box(), visit.tile("man").bounding_box()
        touch = visit.context.new_cdp_session(visit.page)

        def send(kind, x, y):
            points = [] if kind == "touchEnd" else [{"x": x, "y": y}]
            touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        (x, y), (u, v) = ((b["x"] + b["width"] * 0.7, b["y"] + 20) for b in (start, end))
        send("touchStart", x, y)
        for step in range(1, 9):
            send("touchMove", x + (u - x) * step / 8, y + (v - y) * step / 8)
        send("touchEnd", u, v)
        visit.ready()
        assert visit.words() == ["bites", "man", "dog"] and agrees(visit, page, "bites man dog")


def test_the_keyboard_alone_moves_words(visit, page):
    keys = visit.page.keyboard
    visit.page.focus("#text")
    for _ in range(40):
        keys.press("Tab")
        if visit.page.evaluate("document.activeElement.className") == "tile":
            break
    keys.press("Shift+ArrowRight")
    assert visit.words() == ["bites", "dog", "man"] and agrees(visit, page, "bites dog man")
    keys.press("Space")
    assert visit.page.evaluate("document.activeElement.ariaPressed") == "true"
    keys.press("End")
    assert visit.words() == ["bites", "man", "dog"] and agrees(visit, page, "bites man dog")
    assert "dog is at place 3 of 3" in visit.page.locator("#said").inner_text()
    keys.press("ArrowLeft")
    keys.press("Escape")
    assert visit.words() == ["bites", "dog", "man"]
    keys.press("ArrowLeft")
    assert visit.page.evaluate("document.activeElement.textContent") == "bites"
    assert visit.page.locator("#word-title").inner_text() == "“bites”, word 1 of 3"


def test_one_click_shows_man_bites_dog(visit, page):
    visit.page.get_by_role("button", name="man bites dog").click()
    assert visit.words() == ["man", "bites", "dog"]
    assert agrees(visit, page, "man bites dog")
    visit.page.get_by_role("button", name="Reverse").click()
    assert visit.words() == ["dog", "bites", "man"] and agrees(visit, page, "dog bites man")
    visit.page.get_by_role("button", name="Original order").click()
    assert visit.words() == ["man", "bites", "dog"]


def test_a_sentence_that_was_entered_is_not_read_again_while_its_words_move(visit, page):
    visit.page.evaluate(
        """async () => {
          const text = document.getElementById("text");
          text.value = "not good but bad";
          text.dispatchEvent(new Event("input"));
          text.form.requestSubmit();
          await new Promise((resume) => setTimeout(resume, 50));
          document.getElementById("reverse").click();
        }"""
    )
    visit.ready()
    assert visit.words() == ["bad", "but", "good", "not"]
    assert agrees(visit, page, "bad but good not")


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_words_and_all_probabilities_are_in_sight_together(browser, page, size):
    with Visit(browser, page.path.as_uri(), size=size) as visit:
        for found in (visit.tile("dog"), *visit.page.locator(".verdict .bar").all()):
            box = found.bounding_box()
            assert box["y"] >= 0 and box["y"] + box["height"] <= size[1]


def test_sliders_change_the_waves_of_a_word_and_are_reset(visit, page):
    before = visit.bars()
    visit.tile("bites").click()
    for name, value in (("frequency", 2.5), ("phase", 1), ("amplitude", 1.5), ("damping", 0.1)):
        visit.page.locator(f"#{name}").fill(str(value))
    edit = {"amplitude": 1.5, "frequency": 2.5, "phase": 1.0, "damping": 0.1, "dimension": None}
    session = Session(page.ours, page.twin, name="x")
    edit["id"] = page.ours.encoder.vocabulary.ids(["bites"])[0]
    expected = session.predict("dog bites man", [0, 1, 2], [edit])["probabilities"]
    assert visit.bars() == pytest.approx(expected, abs=CLOSE)
    assert visit.bars() != pytest.approx(before, abs=1e-3)
    visit.page.select_option("#scope", "one")
    edit["dimension"] = int(visit.page.input_value("#dimension"))
    expected = session.predict("dog bites man", [0, 1, 2], [edit])["probabilities"]
    assert visit.bars() == pytest.approx(expected, abs=CLOSE)
    visit.page.click("#reset")
    assert visit.bars() == pytest.approx(before, abs=1e-9)


def test_the_sweep_and_the_bars_under_the_words(visit, page):
    visit.tile("man").click()
    visit.ready()
    session = Session(page.ours, name="x")
    rows = session.sweep("dog bites man", [0, 1, 2], [], 2)["probabilities"]
    best = max(range(3), key=lambda c: rows[2][c])
    curve = [row[best] for row in rows]
    text = visit.page.locator("#sweep-about").inner_text()
    assert page.ours.labels[best] in text and f"{100 * max(curve):.1f}%" in text
    assert f"{100 * min(curve):.1f}%" in text
    found = session.sensitivity("dog bites man", [0, 1, 2], [])
    titles = visit.page.locator("#tiles li").evaluate_all("items => items.map((i) => i.title)")
    for title, word, place in zip(titles, found["word"], found["place"], strict=True):
        numbers = [float(x.replace("−", "-")) for x in re.findall(r"[+−]?\d+\.\d+", title)]
        assert numbers == pytest.approx([word, place], abs=6e-3)
    unit = visit.page.locator("#legend-unit").inner_text()
    assert unit == f"in log-odds of “{page.ours.labels[best]}”"


def test_charts_are_drawn_and_named(visit):
    for name, least in (("waves", 6), ("phasors", 5), ("chain", 3), ("sweep", 1)):
        svg = visit.page.locator(f"#{name} svg")
        assert svg.get_attribute("aria-label")
        kind = {"waves": "path.wave", "sweep": "path.wave"}.get(name, ".arrow")
        assert svg.locator(kind).count() >= least
    box = visit.page.locator("#scatter").bounding_box()
    assert box["width"] > 300 and box["height"] > 200


def labels_apart(visit, name):
    """Whether no label of a chart covers another or leaves the page."""
    boxes = visit.page.locator(f"#{name} text").evaluate_all(
        "all => all.map((one) => one.getBoundingClientRect().toJSON())"
    )
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            gaps = (
                max(a[p] - b[q], b[p] - a[q]) for p, q in (("left", "right"), ("top", "bottom"))
            )
            assert max(gaps) > -5, (name, a, b)  # the box of a text is higher than its letters
        assert a["left"] >= 0 and a["right"] <= visit.page.viewport_size["width"], (name, a)
    return bool(boxes)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_labels_of_a_chart_do_not_cover_each_other(browser, page, make, tmp_path, size):
    options = {"size": size, "reduced_motion": "reduce"}
    with Visit(browser, page.path.as_uri(), **options) as visit:
        for text in ("dog bites man", "the the the the", "man", "the dog bites man " * 10):
            visit.write(text)
            visit.ready()
            assert all(labels_apart(visit, name) for name in ("waves", "phasors", "chain", "sweep"))
        assert visit.page.locator("#frequency").bounding_box()["width"] > 120
    path = tmp_path / "page.html"
    export_page(make(max_length=256), path, examples=["the dog bites man " * 64])
    with Visit(browser, path.as_uri(), **options) as visit:
        visit.ready()
        assert visit.page.locator("#tiles .tile").count() == 256
        assert all(labels_apart(visit, name) for name in ("waves", "phasors", "chain"))
        assert labels_apart(visit, "sweep")


def test_the_dimension_to_begin_with_turns(browser, make, tmp_path):
    classifier = make()
    with torch.no_grad():
        classifier.model.embedding.amplitude.weight[:, 2] = 3.0
        classifier.model.embedding.frequency.weight[:, 2] = 0.0
    export_page(classifier, tmp_path / "page.html", examples=["dog bites man"])
    with Visit(browser, (tmp_path / "page.html").as_uri()) as visit:
        options = visit.page.locator("#dimension option").all_inner_texts()
        assert options[0].startswith("2 ") and "ω 0.00" in options[0]
        chosen = visit.page.locator("#dimension option:checked").inner_text()
        assert abs(float(re.search(r"ω ([+−].*)\)", chosen)[1].replace("−", "-"))) >= 0.1


def test_search_and_nearest_words(visit, page):
    visit.page.fill("#search", "goo")
    visit.page.locator("#found .chip", has_text="good").click()
    assert "good" in visit.page.locator("#nearest-title").inner_text()
    nearest = Session(page.ours, name="x").nearest(page.ours.encoder.vocabulary.ids(["good"])[0])
    assert visit.page.locator("#nearest .chip").first.inner_text() == nearest["nearest"][0]["text"]
    visit.page.fill("#search", "zzz")
    assert "No word" in visit.page.locator("#found").inner_text()


def test_a_link_restores_the_state(browser, visit, page):
    visit.write("not good but bad")
    visit.drag("not", "but")
    visit.tile("good").click()
    visit.page.locator("#amplitude").fill("2")
    visit.ready()
    words, bars, address = visit.words(), visit.bars(), visit.page.url
    assert words == ["good", "but", "not", "bad"]
    with Visit(browser, address) as other:
        assert other.words() == words
        assert other.bars() == pytest.approx(bars, abs=1e-9)
        assert other.page.locator("#word-title").inner_text() == "“good”, word 1 of 4"
        assert other.page.input_value("#amplitude") == "2"
        assert other.page.input_value("#text") == "not good but bad"


@pytest.mark.parametrize(
    "fragment",
    ["#s=%F0%28&o=9.9.9&w=-1&d=1e9&e=1", "#o=1.0&s=a+b+c&v=7&e=3_99_0_0_0_", "#%00", "#s=&d=x"],
)
def test_a_broken_link_does_no_harm(browser, page, fragment):
    with Visit(browser, page.path.as_uri() + fragment) as visit:
        assert sum(visit.bars()) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_nothing_is_wider_than_the_page_and_axe_finds_nothing(browser, page, size, colours):
    if not AXE.exists():
        pytest.skip("axe-core is not installed: make browser")
    options = {"color_scheme": colours, "reduced_motion": "reduce"}
    with Visit(browser, page.path.as_uri(), size=size, **options) as visit:
        visit.write("not good but bad , the dog bites an unknown man")
        visit.ready()
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= size[0]
        visit.page.evaluate(AXE.read_text(encoding="utf-8"))
        found = visit.page.evaluate("axe.run().then((found) => found.violations)")
        assert [(one["id"], one["nodes"][0]["html"]) for one in found] == []


MARKUP = (
    "<img src=x onerror=window.pwned=1>",
    "</script><script>window.pwned=1</script>",
    "<!--script-->",
    "javascript:window.pwned=1",
    "\u202eevil",
    "\x00\x1b[31m",
    "__proto__",
    "constructor",
    "\u2028'\"`${window.pwned=1}",
)


def test_markup_in_words_classes_and_names_is_text(browser, make, tmp_path):
    labels = ("<b>bold</b>", "</script><script>window.pwned=1</script>", "&lt;i&gt;")
    classifier = make(words=("dog", *MARKUP), labels=labels)
    path = tmp_path / "page <i>.html"
    name = "<svg onload=window.pwned=1>"
    export_page(classifier, path, name=name, examples=[*MARKUP, "dog"])
    with Visit(browser, path.as_uri()) as visit:
        for text in MARKUP:
            visit.write(f"dog {text} dog")
            assert sum(visit.bars()) == pytest.approx(1, abs=1e-6)
        visit.page.fill("#search", "script")
        assert "</script>" in visit.page.locator("#found").inner_text()
        visit.page.locator("#found .chip").first.click()
        assert visit.page.locator("#ours .name").all_inner_texts() == [
            text if len(text) <= 40 else text[:39] + "…" for text in labels
        ]
        assert visit.page.locator("#model").inner_text() == name
        assert visit.page.evaluate("window.pwned === undefined && !({}).pwned")
        assert visit.page.locator("main img, main script, main b, main i").count() == 0


def test_markup_is_text_in_the_served_page_too(browser, make, serve):
    session = Session(make(words=("dog", *MARKUP), labels=MARKUP[:8]), name=MARKUP[1])
    with (
        serve(session) as site,
        Visit(browser, f"http://127.0.0.1:{site.port}/#s=dog", offline=False) as visit,
    ):
        visit.write(" ".join(MARKUP))
        visit.page.fill("#search", "script")
        visit.page.locator("#found .chip").first.click()
        visit.page.evaluate("document.getElementById('text').removeAttribute('maxlength')")
        visit.write("dog 😀 " * 200_000)  # 1.6 MB
        visit.page.wait_for_selector("#cut:not([hidden])")
        visit.drag("dog", "😀")
        assert visit.page.locator("#problem").is_hidden()
        assert visit.page.locator("#ours .name").count() == 8
        assert visit.page.evaluate("window.pwned === undefined && !({}).pwned")
        assert visit.page.locator("main img, main script, main b, main i").count() == 0


def test_a_sentence_of_a_megabyte_is_cut(visit):
    visit.page.evaluate("document.getElementById('text').removeAttribute('maxlength')")
    visit.write("dog bites " * 100_000)
    assert visit.page.locator("#tiles .tile").count() == 40  # the model's longest text
    assert "more are left out" in visit.page.locator("#cut").inner_text()
    assert sum(visit.bars()) == pytest.approx(1, abs=1e-6)


def test_forty_words_can_be_dragged(browser, make, tmp_path):
    rng, words = random.Random(0), [f"w{i}" for i in range(60)]
    classifier = make(words=words, dim=32, hidden_dim=32, max_length=60)
    text = " ".join(rng.sample(words, 40))
    done = export_page(classifier, tmp_path / "page.html", examples=[text])
    rounded = Bag.describe(classifier, done.precision).rounded(classifier)
    with Visit(browser, (tmp_path / "page.html").as_uri(), size=(360, 740)) as visit:
        first, third = visit.words()[0], visit.words()[2]
        visit.drag(first, third)
        moved = visit.words()
        assert moved[2] == first and sorted(moved) == sorted(text.split())
        expected = rounded.probabilities([" ".join(moved)])[0].tolist()
        assert visit.bars() == pytest.approx(expected, abs=CLOSE)


@pytest.mark.parametrize(
    "settings",
    [
        {"pooling": "sum"},
        {"encoder": "transformer", "dim": 8, "n_heads": 2, "feed_forward_dim": 8},
        {"encoder": "cnn", "embedding": "none", "n_filters": 3},
    ],
    ids=str,
)
def test_the_served_page_computes_in_pytorch(browser, make, serve, settings):
    classifier, twin = make(**settings), make(embedding="tpe", dim=8)
    session = Session(classifier, twin, name="served", examples=["dog bites man"])
    with (
        serve(session) as site,
        Visit(browser, f"http://127.0.0.1:{site.port}/", offline=False) as visit,
    ):
        visit.drag("dog", "man")
        visit.ready()
        assert visit.words() == ["bites", "man", "dog"]
        expected = classifier.probabilities(["bites man dog"])[0].tolist()
        assert visit.bars() == pytest.approx(expected, abs=CLOSE)
        assert visit.bars("twin") == pytest.approx(
            twin.probabilities(["dog bites man"])[0].tolist(), abs=CLOSE
        )
        if session.about()["views"]:
            visit.page.locator("#frequency").fill("3")
            visit.ready()
            chosen = classifier.encoder.vocabulary.ids(["dog"])[0]
            edit = {"id": chosen, "amplitude": 1, "frequency": 3, "phase": 0, "damping": 0}
            changed = session.predict("dog bites man", [1, 2, 0], [edit | {"dimension": None}])
            assert visit.bars() == pytest.approx(changed["probabilities"], abs=CLOSE)
        else:
            assert visit.page.locator("#waves").is_hidden()
        visit.page.fill("#search", "goo")
        visit.page.locator("#found .chip", has_text="good").click()
        visit.page.locator("#nearest .chip").first.wait_for()


def test_a_server_that_has_ended_is_told(browser, make, serve):
    with serve(Session(make(), name="x", examples=["dog bites man"])) as site:
        visit = Visit(browser, f"http://127.0.0.1:{site.port}/", offline=False)
    visit.write("man bites dog")
    assert "does not answer" in visit.page.locator("#problem").inner_text()
    visit.context.close()


def test_a_page_with_contexts_follows_a_drag(browser, make, tmp_path):
    classifier, path = make(views=("start", "context")), tmp_path / "page.html"
    done = export_page(classifier, path, examples=["the dog bites the man"])
    rounded = Bag.describe(classifier, done.precision).rounded(classifier)
    with Visit(browser, path.as_uri()) as visit:
        visit.drag("dog", "man")
        visit.ready()
        assert visit.words() == ["the", "bites", "the", "man", "dog"]
        expected = rounded.probabilities(["the bites the man dog"])[0].tolist()
        assert visit.bars() == pytest.approx(expected, abs=CLOSE)
        assert "(the view context) count, but are not drawn" in visit.page.inner_text("#facts")


def test_a_page_with_ngrams_is_as_predict_but_for_unknown_words_and_says_so(
    browser, with_ngrams, tmp_path
):
    classifier, path = with_ngrams(), tmp_path / "page.html"
    export_page(classifier, path, examples=["the dog bites the man"], precision="float32")
    with Visit(browser, path.as_uri()) as visit:
        for text in ("the dog bites the man", "man bites not , good"):
            visit.write(text)
            expected = classifier.probabilities([text])[0].tolist()
            assert visit.bars() == pytest.approx(expected, abs=CLOSE)
        assert "character n-grams of unknown words" in visit.page.inner_text("#facts")
