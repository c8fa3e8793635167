"""Sphinx settings of the documentation site: `make docs`.

The source folder is the repository, not docs/, so that a link to CONTRIBUTING.md or to a file in
results/ is a link between pages, and the same Markdown is read on the site and in a checkout.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.ext.napoleon import GoogleDocstring

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))
import wordwave  # noqa: E402

project = "wordwave"
author = "the wordwave developers"
copyright = author
version = release = wordwave.__version__

root_doc = "docs/index"
include_patterns = ["docs/**.md", "docs/api/*.rst", "results/**.md", "CHANGELOG.md"]
include_patterns += ["CONTRIBUTING.md", "src/wordwave/**/NOTICE.md", "src/wordwave/**/README.md"]
exclude_patterns = [".*", "site", "out", "tests"]
extensions = ["myst_parser", "sphinx.ext.autodoc"]
smartquotes_action = "D"  # dashes, no curly quotes
suppress_warnings = ["myst.header"]  # some tables in results/ skip a level of headings

myst_enable_extensions = ["dollarmath", "colon_fence", "attrs_block"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True}
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True
add_module_names = False
default_role = "code"  # docstrings are written with single backticks

html_theme = "pydata_sphinx_theme"
html_title = "wordwave"
html_static_path = ["_static"]
html_css_files = ["wordwave.css"]
html_js_files = [("wordwave.js", {"defer": "defer"})]
html_copy_source = False
html_show_sourcelink = False
html_extra_path = ["_root"]
EXPLORER = ROOT / "out/docs/explorer.html"  # `make docs` writes it
if EXPLORER.is_file():
    html_extra_path.append(str(EXPLORER))
    tags.add("explorer")  # type: ignore[name-defined] # noqa: F821 (given by Sphinx)
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": True,
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "navbar_persistent": ["search-button"],
    "navbar_end": ["theme-switcher"],
    "primary_sidebar_end": [],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "secondary_sidebar_items": ["page-toc"],
    "back_to_top_button": False,
    "show_toc_level": 2,
}
SINGLE = ["index", "get-started", "idea", "laboratory", "architecture"]
html_sidebars = {f"docs/{page}": [] for page in SINGLE}
html_sidebars |= {page: [] for page in ("CONTRIBUTING", "CHANGELOG", "search", "genindex")}
html_context = {"default_mode": "auto"}
html_math_renderer = "mathml"


def mathml(self: Any, node: nodes.Element, *, block: bool) -> None:
    """Formulas as MathML, made when the site is built: no script and no font is loaded."""
    formula = tex2mathml(node.astext(), as_block=block)
    # A wide formula scrolls on a phone, also by the keyboard.
    self.body.append(f'<div class="formula" tabindex="0">{formula}</div>' if block else formula)
    raise nodes.SkipNode


SHAPE = re.compile(r"(?:(?<=[.:)`\"])\s+|^\s*)Shape: *(.*)", re.DOTALL)


def shape_and_markup(
    app: object, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Docstrings as reStructuredText: `Args:`, `Shape:` and formulas that are indented are set
    apart, other markup is escaped."""
    text: list[str] = []
    shapes: list[str] = []
    for paragraph in "\n".join(lines).split("\n\n"):
        if (found := SHAPE.search(paragraph)) is not None:
            shapes.append(" ".join(found[1].split()).replace("->", "→"))
            paragraph = paragraph[: found.start()]
        is_formula = all(line.startswith("    ") for line in paragraph.splitlines())
        text.append(f"::\n\n{paragraph}" if is_formula and paragraph else escaped(paragraph))
    lines[:] = GoogleDocstring("\n\n".join(text), what="function", obj=obj).lines()
    for shape in shapes:
        lines += ["", ".. rst-class:: shape", "", f"Shape: {escaped(shape)}", ""]


TITLES = {
    "results/probe/probe": "The laboratory's tasks",
    "results/probe-long/probe": "Length generalisation",
    "results/reliability/torture": "Kills and full disks",
}
"""Of pages that commands write without one."""


def add_title(app: object, page: str, source: list[str]) -> None:
    if page in TITLES:
        source[0] = f"# {TITLES[page]}\n\n{source[0]}"


def escaped(text: str) -> str:
    """Escape what reStructuredText would take as markup, outside of `code`."""
    parts = re.split(r"(`[^`\n]+`)", text)
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"([\\*|])|(?<=\w)(_)(?!\w)", r"\\\1\2", parts[i])
    for i in range(1, len(parts), 2):
        parts[i] = f"`{parts[i]}`"
    return "".join(parts)


def setup(app: Any) -> None:
    app.add_html_math_renderer(
        "mathml",
        (lambda self, node: mathml(self, node, block=False), None),
        (lambda self, node: mathml(self, node, block=True), None),
    )
    app.connect("source-read", add_title)
    app.connect("autodoc-process-docstring", shape_and_markup, priority=100)
