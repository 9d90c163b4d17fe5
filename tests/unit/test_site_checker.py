"""The checker of the documents' site finds links that lead nowhere, and the index lists every page."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]


def checker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_site", ROOT / "scripts" / "check_site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_missing_page_and_a_missing_place_are_found_and_sound_links_are_not(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "index.html").write_text('<h1 id="top">A</h1><a href="../a.html#here">back</a>')
    (tmp_path / "a b.css").write_text("")
    (tmp_path / "a.html").write_text(
        '<h1 id="here">A</h1><link href="a%20b.css"><a href="#here">x</a><a href="sub/#top">x</a>'
        '<a href="https://example.org/none">x</a><a href="mailto:a@b">x</a>'
        '<a href="gone.html">x</a><a href="#gone">x</a><a href="sub/index.html#gone">x</a><img src="gone.png">'
    )
    broken = checker().broken_links(tmp_path)
    assert sorted(broken) == [
        "a.html: #gone",
        "a.html: gone.html",
        "a.html: gone.png",
        "a.html: sub/index.html#gone",
    ]


def test_every_page_has_a_title_and_is_reached_from_an_index() -> None:
    for folder in (ROOT / "docs", ROOT / "docs" / "how-to"):
        index = (folder / "index.md").read_text(encoding="utf-8")
        for page in folder.glob("*.md"):
            assert page.read_text(encoding="utf-8").startswith("# "), f"{page.name} begins with its title"
            named = page.stem in index.split() or page.stem == "index" or "@further@" in index
            assert named, f"{folder.name}/index.md does not name {page.stem}"


def test_the_citation_names_this_version() -> None:
    from holdfast import __version__

    assert f"version: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
