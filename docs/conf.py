"""The documentation as a site: `make docs-site`. Builds offline; a link that leads nowhere is an error."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE)]
os.environ.setdefault("HOLDFAST_OFFLINE", "1")

import notebook_pages  # noqa: E402
import reference_pages  # noqa: E402

import holdfast  # noqa: E402

project, author, copyright = "holdfast", "the holdfast authors", "the holdfast authors, Apache-2.0"  # noqa: A001
version = release = holdfast.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build", "**.ipynb_checkpoints"]
html_theme = "furo"
html_title = f"holdfast {release}"
html_static_path: list[str] = []
html_extra_path: list[str] = []
html_theme_options = {"source_directory": "docs/"}
myst_heading_anchors = 4
myst_enable_extensions = ["attrs_inline", "colon_fence"]
myst_url_schemes = ["http", "https", "mailto"]
suppress_warnings = ["misc.highlighting_failure"]  # blocks with arrows and ellipses are read by people
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
default_role = "code"  # docstrings write `names` as Markdown does


def setup(app: Any) -> None:
    """Writes the pages that are made from code and notebooks, before the rest is read."""
    app.connect("source-read", _list_further)
    app.connect("autodoc-process-docstring", _escape)
    reference_pages.write(HERE / "reference")
    notebook_pages.write(HERE / "notebooks")
    (HERE / "made").mkdir(exist_ok=True)
    for name in ("CHANGELOG.md", "CONTRIBUTING.md"):
        text = (HERE.parent / name).read_text(encoding="utf-8").replace("](docs/", "](../")
        (HERE / "made" / name.lower()).write_text(text, encoding="utf-8")


def _list_further(_app: Any, name: str, source: list[str]) -> None:
    """Puts every page that the index does not name into its list."""
    if name == "index":
        stems = sorted(path.stem for path in HERE.glob("*.md") if path.stem != "index")
        named = set(source[0].split())
        source[0] = source[0].replace("@further@", "\n".join(stem for stem in stems if stem not in named))


def _escape(_app: Any, _what: str, _name: str, _thing: object, _options: object, lines: list[str]) -> None:
    """Bars and stars in docstrings are signs of formulas, not of markup; names in backticks stay as they are."""
    for i, line in enumerate(lines):
        pieces = line.split("`")
        pieces[::2] = [re.sub(r"([|*])", r"\\\1", piece) for piece in pieces[::2]]
        lines[i] = "`".join(pieces)
