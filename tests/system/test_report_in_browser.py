"""The report in a real browser, from a file: laptop and phone, light and dark, without a network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.types import Flag
from holdfast.site.report import write_report
from holdfast.store.store import Store

VIEWS = [(width, scheme) for width in (1280, 390) for scheme in ("light", "dark")]

CONTRASTS = """
() => {
  const channel = (c) => { c /= 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
  const parsed = (text) => {
    const [r, g, b, a] = (text.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
    return { rgb: [r, g, b], alpha: a === undefined ? 1 : a };
  };
  const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const ground = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = parsed(getComputedStyle(one).backgroundColor);
      if (colour.alpha === 1) return colour.rgb;
    }
    return [255, 255, 255];
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
    if (["SCRIPT", "STYLE", "title", "desc"].includes(element.tagName)) continue;
    const style = getComputedStyle(element);
    const ink = parsed(element instanceof SVGElement ? style.fill : style.color).rgb;
    const [one, other] = [luminance(ink), luminance(ground(element))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    found.push([ratio, element.tagName + "." + (element.getAttribute("class") || ""), walker.currentNode.data.trim()]);
  }
  return found;
}
"""


@dataclass(frozen=True)
class Seen:
    """A page as a browser showed it, with what it asked for and complained about."""

    page: Any
    requests: list[str]
    complaints: list[str]


@pytest.fixture(scope="module")
def report(synthetic: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    return write_report(synthetic.rich_store(folder / "store"), "resnet18-linf", folder / "report.html")


@pytest.fixture(scope="module", params=VIEWS, ids=lambda view: f"{view[0]}-{view[1]}")
def seen(request: pytest.FixtureRequest, browser: Any, report: Path) -> Iterator[Seen]:
    width, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    shown = Seen(context.new_page(), [], [])
    shown.page.on("request", lambda asked: shown.requests.append(asked.url))
    shown.page.on("console", lambda result: shown.complaints.append(result.text))
    shown.page.on("pageerror", lambda error: shown.complaints.append(str(error)))
    shown.page.goto(report.as_uri())
    yield shown
    context.close()


def test_nothing_is_asked_of_a_network_and_nothing_goes_wrong(seen: Seen) -> None:
    assert [url for url in seen.requests if not url.startswith(("file:", "data:"))] == []
    assert seen.complaints == []


def test_nothing_sticks_out_sideways(seen: Seen) -> None:
    seen.page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    outside = """() => [...document.querySelectorAll("main *:not(.scroll *)")]
        .filter((one) => one.checkVisibility() && one.getBoundingClientRect().right > innerWidth + 1)
        .map((one) => one.outerHTML.slice(0, 120))"""
    assert seen.page.evaluate(outside) == []


def test_all_text_can_be_read(seen: Seen) -> None:
    contrasts = seen.page.evaluate(CONTRASTS)
    assert len(contrasts) > 500
    assert [one for one in contrasts if one[0] < 4.5] == []
    sizes = "() => [...document.querySelectorAll('p, td, th, li, dd')].map((one) => getComputedStyle(one).fontSize)"
    assert min(float(size.removesuffix("px")) for size in seen.page.evaluate(sizes)) >= 12


def test_the_verdict_and_the_next_command_stand_first(seen: Seen) -> None:
    verdicts = seen.page.locator(".verdict-of .claim:visible").all_inner_texts()
    assert verdicts == ["It holds up in part under attack, not under every corruption."]
    assert seen.page.locator(".step .command").inner_text().startswith("holdfast evaluate resnet18-linf --scenario ")
    first, second = (seen.page.locator(name).first.bounding_box() for name in (".verdict-of", ".statements"))
    assert first["y"] < second["y"]


def test_a_sweep_is_drawn_as_a_curve(browser: Any, synthetic: Any, tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    radii = [0.0] * 20 + [8 / 255] * 80 + [32 / 255] * 60 + [float("inf")] * 40
    grid = [radius / 255 for radius in (4, 8, 16, 32)]
    synthetic.add(store, 0, synthetic.sweep(grid), radii=radii)
    page = browser.new_page(viewport={"width": 390, "height": 900})
    page.goto(write_report(store, "resnet18", tmp_path).as_uri())
    chart = page.locator("#charts svg.chart:visible:has(.stroke)")
    assert chart.count() == 1
    corners = chart.locator(".stroke").get_attribute("points").split()
    assert len(corners) == 5, "the four radii, and none"
    heights = [float(corner.split(",")[1]) for corner in corners]
    assert heights == sorted(heights), "accuracy falls, so y grows"
    page.close()


def test_charts_and_pictures_are_there(seen: Seen) -> None:
    assert seen.page.locator("svg.overview:visible").count() == 1
    assert seen.page.locator("#charts .panels svg:visible").count() >= 10
    assert seen.page.locator("#scores svg.bar:visible").count() >= 50
    broken = "() => [...document.images].filter((one) => !one.complete || one.naturalWidth === 0).length"
    assert seen.page.evaluate(broken) == 0
    assert (
        seen.page.locator("#samples img").first.evaluate("one => getComputedStyle(one).imageRendering") == "pixelated"
    )
    drawn = seen.page.locator("#charts svg.chart:visible").evaluate_all("all => all.map((one) => one.clientHeight)")
    assert min(drawn) > 100


def test_the_scheme_of_the_reader_is_followed(seen: Seen) -> None:
    ground = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    is_dark = seen.page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    assert (max(int(part) for part in ground[4:-1].split(",")) < 60) == is_dark


def test_scores_sort_by_a_click_on_their_head(browser: Any, report: Path) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(report.as_uri())
    values = "() => [...document.querySelector('.scores').tBodies[1].rows].slice(1).map((r) => +r.dataset.accuracy)"
    page.get_by_role("button", name="Right").first.click()
    assert page.evaluate(values) == sorted(page.evaluate(values))
    page.get_by_role("button", name="Right").first.click()
    assert page.evaluate(values) == sorted(page.evaluate(values), reverse=True)
    page.close()


def test_names_without_a_break_do_not_stick_out_on_a_phone(browser: Any, synthetic: Any, tmp_path: Path) -> None:
    store, endless = Store(str(tmp_path / "store")), "x" * 120
    named = {"dataset": endless, "command": endless, "flags": [Flag(endless, "error", endless)]}
    for model in (endless, f"other-{endless}"):
        for severity in (1, 2):
            synthetic.add(store, 0.5, synthetic.fog(severity, endless), model=model, reasons={0: endless}, **named)
        synthetic.add(store, 0.9, model=model, n=50, **named)
    page = browser.new_page(viewport={"width": 390, "height": 900})
    page.goto(write_report(store, endless, tmp_path).as_uri())
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.close()


def test_the_page_is_whole_without_scripts_and_prints(browser: Any, report: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    text = page.inner_text("main")
    for part in (
        "Undisturbed, it gets",
        "Flags",
        "To undisturbed",
        "better",
        "How to reproduce it",
        "Robust accuracy",
    ):
        assert part in text
    assert page.pdf(format="A4", page_ranges="1-3").startswith(b"%PDF")
    context.close()
