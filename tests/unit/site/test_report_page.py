from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from synthetic import CARD, CLASSES, add, fog, pgd

from holdfast.core.errors import HoldfastError
from holdfast.core.types import Flag
from holdfast.site.addresses import link
from holdfast.site.report import report_file_name, report_html, write_report
from holdfast.store.store import Store

VOID = {"meta", "img", "br", "link", "input", "hr"}
LOADING = {"src", "srcset", "data", "poster", "action", "xlink:href", "background"}
EVIL = "<script>alert(1)</script>"


class Outline(HTMLParser):
    """What a browser would make of the page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.text.append(data)

    def values(self, name: str) -> list[str]:
        return [value for _, attribute, value in self.attributes if attribute == name]


def test_the_page_is_well_formed_with_unique_ids_and_living_links(rich_page: str) -> None:
    outline = Outline(rich_page)
    assert outline.open == []
    ids = outline.values("id")
    assert len(ids) == len(set(ids))
    for target in outline.values("href"):
        assert target.startswith("https://") or target[1:] in ids
    for named in outline.values("aria-labelledby"):
        assert set(named.split()) <= set(ids)


def test_nothing_is_loaded_from_elsewhere(rich_page: str) -> None:
    outline = Outline(rich_page)
    for tag, name, value in outline.attributes:
        if name in LOADING:
            assert value.startswith("data:image/png;base64,"), (tag, name, value[:60])
        if name == "href":
            assert tag == "a"
    assert outline.tags["link"] == outline.tags["iframe"] == outline.tags["object"] == 0
    assert not re.search(r"@import|url\(\s*['\"]?https?:", rich_page)


def test_every_picture_and_chart_has_words(rich_page: str) -> None:
    outline = Outline(rich_page)
    assert outline.tags["img"] == len(outline.values("alt"))
    charts = re.findall(r"<svg [^>]*class=\"chart.*?</svg>", rich_page, re.DOTALL)
    assert charts
    assert all("<title " in chart and "<desc " in chart for chart in charts)
    bars = re.findall(r"<svg [^>]*class=\"bar[^>]*>", rich_page)
    assert all("aria-label=" in one for one in bars)


def test_headings_step_down_one_at_a_time(rich_page: str) -> None:
    levels = [int(level) for level in re.findall(r"<h([1-6])", rich_page)]
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_the_parts_stand_in_their_order(rich_page: str) -> None:
    order = ["summary", "cautions", "scores", "charts", "other-models", "samples", "reproduce", "how-to-read"]
    assert re.findall(r'<section id="([\w-]+)"', rich_page) == order


def test_the_page_is_small_and_always_the_same(rich: Store, rich_page: str) -> None:
    assert len(rich_page.encode()) < 1_000_000
    assert report_html(rich, "resnet18-linf") == rich_page


def test_hostile_text_stays_text(store: Store) -> None:
    evil = '"><img src=x onerror=alert(1)>'
    card = replace(CARD, name=EVIL, notes=EVIL, paper="javascript:alert(1)", trained_on=evil, threats=(evil,))
    hostile = {
        "model": EVIL,
        "dataset": evil,
        "classes": [f"{EVIL}{name}" for name in CLASSES],
        "flags": [Flag(evil, EVIL, EVIL)],
        "command": EVIL,
        "device": evil,
        "versions": {evil: EVIL},
        "facts": {EVIL: evil},
        "selection": evil,
        "card": card,
    }
    for severity in (1, 2):
        add(store, 0.5, replace(fog(severity), name=EVIL), pictures=2, reasons={0: EVIL}, n=50, **hostile)  # type: ignore[arg-type]
        add(store, 0.5, replace(fog(severity), name=EVIL), **{**hostile, "model": f"other{EVIL}"})  # type: ignore[arg-type]
    add(store, 0.9, **hostile)  # type: ignore[arg-type]
    page = report_html(store, EVIL, title=f"{EVIL} & more")
    outline = Outline(page)
    assert outline.open == []
    assert outline.tags["script"] == 1
    assert not [name for _, name, _ in outline.attributes if name.startswith("on")]
    assert all(value.startswith("data:image/png;base64,") for value in outline.values("src"))
    assert not [value for value in outline.values("href") if not value.startswith("#")]
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more" in page


def test_only_plain_addresses_become_links() -> None:
    assert link("https://example.org/a") == "https://example.org/a"
    assert link("arXiv:2010.09670") == "https://arxiv.org/abs/2010.09670"
    assert link("doi:10.1000/182") == "https://doi.org/10.1000/182"
    assert link("javascript:alert(1)") is None
    assert link("Smith et al. 2020") is None


def test_a_part_is_never_shown_like_a_whole(store: Store) -> None:
    add(store, 0.9)
    add(store, 0.5, fog(1), n=50)
    add(store, 0.4, fog(2), n=50)
    add(store, 0.3, pgd(8 / 255), n=50)
    page = report_html(store, "resnet18")
    rows = re.findall(r'<tr role="row"(?: class="(\w+)")? data-accuracy.*?</tr>', page, re.DOTALL)
    assert rows == ["", "partial", "partial", "partial"]
    table = page[page.index('<table class="scores"') : page.index("</table>")]
    assert table.count('<span class="badge subset">part</span>') == 3
    assert table.count('class="bar partial"') == 3
    assert table.count("of 200</span>") == 3
    assert "Measured on a part of the samples" in page


def test_without_pictures_the_page_says_how_to_get_them(store: Store) -> None:
    add(store, 0.9)
    page = report_html(store, "resnet18")
    assert "No pictures are stored" in page
    assert "--pictures" in page


def test_small_pictures_are_enlarged_pixel_by_pixel_and_large_ones_are_not(store: Store) -> None:
    add(store, 0.5, pictures=2, side=32)
    add(store, 0.5, pictures=2, side=128, model="large")
    assert "specimen pixels" in report_html(store, "resnet18")
    assert "specimen pixels" not in report_html(store, "large")


def test_runs_can_be_made_again_from_the_page(rich: Store, rich_page: str) -> None:
    text = "".join(Outline(rich_page).text)
    for footer in rich.footers().values():
        if footer.model == "resnet18-linf":
            assert footer.command in text
            assert footer.key in text
            assert footer.digest[:16] in text


def test_a_folder_gets_a_file_named_after_the_model(store: Store, tmp_path: Path) -> None:
    add(store, 0.9, model="timm:resnet50.a1/x")
    assert write_report(store, "timm:resnet50.a1/x", tmp_path) == tmp_path / "timm-resnet50.a1-x.html"
    assert report_file_name("<//>") == "report.html"
    nested = write_report(store, "timm:resnet50.a1/x", tmp_path / "new" / "page.html", title="A title")
    assert "<h1>A title</h1>" in nested.read_text(encoding="utf-8")
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_place_that_cannot_be_written_is_named(store: Store, tmp_path: Path) -> None:
    add(store, 0.9)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(HoldfastError, match="cannot write"):
        write_report(store, "resnet18", tmp_path / "file" / "page.html")


def test_a_report_needs_no_torch() -> None:
    code = "import sys, holdfast.site.report; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
