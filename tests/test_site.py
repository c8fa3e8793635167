"""The documentation site: every page is in the navigation, links lead somewhere, nothing is loaded
from the network. Only the last tests need the generator, Sphinx (the extra `docs`).
"""

import importlib
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote

import pytest
from filelock import FileLock

import wordwave
from test_docs import PAGES, ROOT, anchors

START = ROOT / "docs/index.md"
LOADED = {("link", "href"), ("img", "src"), ("script", "src"), ("iframe", "src"), ("source", "src")}


def sources() -> list[Path]:
    """All pages of the site."""
    found = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("docs/**/*.rst"), *ROOT.glob("results/**/*.md")]
    found += [ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]
    found += [*ROOT.glob("src/wordwave/**/NOTICE.md"), *ROOT.glob("src/wordwave/**/README.md")]
    return sorted(found)


def entries(page: Path) -> list[Path]:
    """The pages that the navigation has below a page."""
    text = page.read_text(encoding="utf-8") if page.suffix == ".md" else ""
    below = []
    for block in re.findall(r"(?ms)^:::\{toctree\}\n(.*?)^:::", text):
        for line in filter(None, map(str.strip, block.splitlines())):
            if line.startswith(":"):
                continue
            name = found[1] if (found := re.fullmatch(r".*<(.+)>", line)) else line
            folder = ROOT if name.startswith("/") else page.parent
            paths = [p for p in folder.glob(name.lstrip("/") + ".*") if p.suffix in (".md", ".rst")]
            assert paths, f"{page.name}: {line}"
            below += paths
    return below


def navigation(page: Path) -> list[Path]:
    return [page, *(path for child in entries(page) for path in navigation(child))]


def test_navigation_has_every_page_once():
    count = Counter(navigation(START))
    assert {str(path) for path, n in count.items() if n > 1} == set(), "listed twice"
    assert {str(p) for p in sources()} - set(map(str, count)) == set(), "not in any toctree"
    assert sorted(count) == sources()


@pytest.mark.parametrize("page", [p for p in sources() if p.suffix == ".md"], ids=lambda p: p.stem)
def test_links_between_pages(page):
    if str(page.relative_to(ROOT)) in PAGES:
        return  # tests/test_docs.py checks them
    text = page.read_text(encoding="utf-8")
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", text):
        if not target.startswith(("http", "mailto")):
            path = page.parent / target if target else page
            assert path.exists(), target
            assert not anchor or anchor in anchors(path), f"{target}#{anchor}"


def test_public_names_are_in_the_reference():
    text = "\n".join(path.read_text() for path in ROOT.glob("docs/api/*.rst"))
    for name in wordwave.__all__:
        if name != "__version__":
            assert re.search(rf"\bwordwave\.{name}\b", text), name
    for name, value in vars(wordwave.layers).items():
        if isinstance(value, type) and name in wordwave.layers.__all__:
            assert f"wordwave.layers.{name}\n" in text, name


@pytest.mark.slow
def test_figures_are_drawn(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(ROOT / "docs")
    figures = importlib.import_module("figures")
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    figures.main()
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn == {path.name for path in (ROOT / "docs/figures").iterdir()}
    assert all(f"figures/{name}" in (ROOT / "docs/idea.md").read_text() for name in drawn)


class Page(HTMLParser):
    """The links, loaded files and anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links, self.loaded, self.ids = [], [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id":
                self.ids.add(value)
            elif (tag, name) in LOADED:
                self.loaded.append(value)
            elif (tag, name) == ("a", "href"):
                self.links.append(value)


def build(source: Path, out: Path) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--quiet", "--jobs", "1"]
    command += ["-c", str(source / "docs"), "-d", str(out / "doctrees"), str(source), str(out)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=source)


def built(site: Path) -> list[Path]:
    """The pages, without the templates of the theme."""
    return [path for path in site.rglob("*.html") if "_static" not in path.parts]


needs_sphinx = pytest.mark.skipif(
    not all(map(find_spec, ("sphinx", "myst_parser", "pydata_sphinx_theme"))),
    reason="the extra docs is not installed",
)


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    """The site, built once for all workers of a test run."""
    folder = tmp_path_factory.getbasetemp()
    folder = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    out = folder / "site"
    with FileLock(folder / "site.lock"):
        if not (out / "searchindex.js").exists():
            done = build(ROOT, out)
            assert done.returncode == 0, done.stderr
    return out


@needs_sphinx
@pytest.mark.slow
def test_site_is_built_without_a_warning_and_its_links_resolve(site):
    pages = {path: Page(path) for path in built(site)}
    assert len(pages) > len(sources())
    for path, page in pages.items():
        for target in [*page.links, *page.loaded]:
            if re.match(r"https?:|mailto:|data:", target):
                continue
            name, _, anchor = unquote(target).partition("#")
            aim = (path.parent / name.split("?")[0]).resolve() if name else path
            assert aim.is_file(), f"{path.name}: {target}"
            if anchor and aim in pages:
                assert anchor in pages[aim].ids, f"{path.name}: {target}"


@needs_sphinx
@pytest.mark.slow
def test_site_loads_nothing_from_the_network(site):
    for path in built(site):
        assert [x for x in Page(path).loaded if re.match(r"https?:|//", x)] == [], path.name
        assert str(ROOT) not in path.read_text(encoding="utf-8"), path.name
    for path in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*['\"]?(https?:)?//", path.read_text()), path.name


@needs_sphinx
@pytest.mark.slow
def test_site_has_formulas_shapes_and_a_search_index(site):
    assert (site / "docs/idea.html").read_text().count("<math") > 50
    reference = (site / "docs/api/embedding.html").read_text()
    assert '<p class="shape">Shape: ids (..., L) integers' in reference
    # A script, not JSON: browsers refuse to fetch files, but run scripts from file://.
    assert (site / "searchindex.js").read_text().startswith("Search.setIndex(")
    assert "url=docs/index.html" in (site / "index.html").read_text()


@needs_sphinx
@pytest.mark.slow
def test_search_works_from_files_without_a_network(site, tmp_path):
    program = os.environ.get("WORDWAVE_BROWSER") or shutil.which("chromium")
    if program is None:
        pytest.skip("no browser is installed")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"]
    flags += ["--disable-background-networking", "--disable-component-update", "--disable-quic"]
    flags += ["--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={tmp_path}"]
    flags += ["--virtual-time-budget=10000", "--dump-dom"]
    url = f"{(site / 'search.html').as_uri()}?q=damping"
    ended = subprocess.run([program, *flags, url], capture_output=True, text=True, timeout=120)
    assert 'href="docs/glossary.html"' in ended.stdout.partition('id="search-results"')[2]


@pytest.fixture
def small_site(tmp_path) -> Path:
    """A source folder with the settings of the site and two pages."""
    for name in ("_static", "_root"):
        (tmp_path / "docs" / name).mkdir(parents=True)
    shutil.copy(ROOT / "docs/conf.py", tmp_path / "docs")
    (tmp_path / "docs/page.md").write_text("# B\n")
    (tmp_path / "docs/index.md").write_text(INDEX)
    return tmp_path


INDEX = "# A\n\n[page](page.md#b)\n\n:::{toctree}\npage\n:::\n"


@needs_sphinx
@pytest.mark.slow
@pytest.mark.parametrize("link", ["[gone](gone.md)", "[gone](page.md#gone)", "![gone](gone.png)"])
def test_a_broken_link_fails_the_build(link, small_site):
    assert build(small_site, small_site / "site").returncode == 0
    (small_site / "docs/index.md").write_text(f"{INDEX}\n{link}\n")
    done = build(small_site, small_site / "site")
    assert done.returncode == 1 and "gone" in done.stderr


@needs_sphinx
@pytest.mark.slow
def test_the_explorer_is_embedded_where_there_is_one(small_site):
    start = START.read_text(encoding="utf-8").split("Positions that are added")[0]
    (small_site / "docs/index.md").write_text(start + "\n:::{toctree}\npage\n:::\n")
    shutil.copy(ROOT / "docs/explore-drag.png", small_site / "docs")
    for is_there in (False, True):
        if is_there:
            (small_site / "out/docs").mkdir(parents=True)
            (small_site / "out/docs/explorer.html").write_text("<p>explorer</p>")
        out = small_site / f"site-{is_there}"
        done = build(small_site, out)
        assert done.returncode == 0, done.stderr
        text = (out / "docs/index.html").read_text(encoding="utf-8")
        assert ("explore-drag.png" in text, '<iframe src="../explorer.html"' in text) == (
            not is_there,
            is_there,
        )
        assert (out / "explorer.html").is_file() == is_there
