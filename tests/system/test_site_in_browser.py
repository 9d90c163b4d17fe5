"""The site in a real browser, from files and served: sort, filter, open, download, light and dark, wide and narrow."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from holdfast.boards.suite_board import suite_board
from holdfast.core.suites import load_suite
from holdfast.core.table import table
from holdfast.core.types import Flag
from holdfast.site.build import build_site
from holdfast.site.serve import Pages, server
from holdfast.store.scores import Origin, Scores
from holdfast.store.store import Store

pytestmark = pytest.mark.slow  # a browser for a minute
SUITE = "oodrobustbench-cifar10-linf"
HOSTILE = "<img src=x onerror=alert(1)>"
CLOSING = "</script><script>alert(2)</script><!--"
DRIVER = re.compile("^Canvas2D: Multiple readback|GL Driver Message")  # hints of a browser that draws 3-D without a GPU
WIDTH, HEIGHT = 1280, 900


@dataclass
class Seen:
    """A page as a browser showed it, with what it asked for, complained about and popped up."""

    page: Any
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def column(self, title: str) -> list[str]:
        """What the rows that are drawn show under a heading, from the top."""
        script = """([title]) => {
          const heads = [...document.querySelectorAll("#board .tabulator-col")];
          const field = heads.find((one) => one.innerText.trim().startsWith(title)).getAttribute("tabulator-field");
          const cells = document.querySelectorAll(`#board .tabulator-row .tabulator-cell[tabulator-field="${field}"]`);
          return [...cells].map((one) => one.innerText);
        }"""
        return self.page.evaluate(script, [title])

    def head(self, title: str) -> Any:
        return self.page.locator("#board .tabulator-col button", has_text=title).first

    def wait_until_drawn(self) -> None:
        self.page.wait_for_function(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"
        )

    def find(self, text: str, count: str) -> None:
        self.page.fill("#find", text)
        self.page.wait_for_function("(said) => document.getElementById('count').textContent === said", arg=count)


@pytest.fixture(scope="module")
def store(synthetic: Any, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A measured model, and one of each origin with a name that means harm."""
    made = Store(str(tmp_path_factory.mktemp("site") / "store"))
    weak = Flag("gradient-vanishes", "warning", "The gradient was zero for 3 samples.")
    attack = synthetic.change("attack", "mm5-linf", radius=8 / 255)
    synthetic.add(made, 0.9, model="resnet18")
    synthetic.add(made, 0.5, attack, model="resnet18", flags=[weak])
    for name in (HOSTILE, CLOSING):
        synthetic.add(made, 0.8, model=name, command=f"holdfast evaluate {name}", flags=[Flag(name, "warning", name)])
    columns = load_suite(SUITE).board
    cells = {(name, column.name): 0.3 for name in (HOSTILE, CLOSING, "theirs") for column in columns}
    facts = {name: {"architecture": name, "paper": "javascript:alert(3)"} for name in (HOSTILE, CLOSING)}
    origin = Origin("csv", HOSTILE, "ab" * 32, "2026-01-01")
    counts = dict.fromkeys(cells, 10_000)
    made.add_scores(
        Scores(SUITE, table(cells, counts=counts, facts=facts, source=f"{CLOSING} arXiv:2310.12793"), {}, origin)
    )
    return made


@pytest.fixture(scope="module")
def site(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_site(store, tmp_path_factory.mktemp("built") / "site").out


@pytest.fixture(scope="module")
def address(store: Store) -> Iterator[str]:
    """The same pages, served."""
    pages = Pages(store, told=lambda _: None)
    bound = server(pages, port=0)
    thread = threading.Thread(target=bound.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{bound.server_address[1]}"
    bound.shutdown()
    bound.server_close()
    pages.close()


@pytest.fixture(params=["file", "served"])
def root(request: pytest.FixtureRequest, site: Path) -> str:
    return site.as_uri() if request.param == "file" else str(request.getfixturevalue("address"))


@pytest.fixture
def opened(browser: Any) -> Iterator[Any]:
    """Opens pages and, at the end, holds each to it that nothing went wrong and nothing was asked of others."""
    contexts: list[tuple[Any, Seen, str]] = []

    def show(root: str, page: str, *, width: int = WIDTH, scheme: str = "light") -> Seen:
        context = browser.new_context(
            viewport={"width": width, "height": HEIGHT}, color_scheme=scheme, accept_downloads=True
        )
        seen = Seen(context.new_page())
        seen.page.on("request", lambda asked: seen.requests.append(asked.url))
        seen.page.on("console", lambda result: DRIVER.search(result.text) or seen.complaints.append(result.text))
        seen.page.on("pageerror", lambda error: seen.complaints.append(str(error)))
        seen.page.on(
            "dialog", lambda popped: (seen.complaints.append(f"popped up: {popped.message}"), popped.dismiss())
        )
        contexts.append((context, seen, root))
        seen.page.goto(f"{root}/{page}")
        if page.startswith("boards/"):
            seen.page.wait_for_selector('#board[data-ready="yes"]', timeout=60_000)
        return seen

    yield show
    for context, seen, root in contexts:
        context.close()
        assert seen.complaints == []
        assert [url for url in seen.requests if not url.startswith((root, "data:", "blob:"))] == []


def test_a_click_on_a_heading_sorts_and_missing_ones_stay_last(opened: Any, root: str) -> None:
    seen = opened(root, f"boards/{SUITE}.html")
    assert seen.column("Model")[0] == "AS WRN-70-16 + ResNet-152"
    values = lambda: [float(text.split()[0]) for text in seen.column("accuracy, ID") if " of " not in text]  # noqa: E731
    seen.head("accuracy, ID").click()
    seen.wait_until_drawn()
    assert values() == sorted(values(), reverse=True)
    assert values()[0] == 95.2
    seen.head("accuracy, ID").click()
    seen.wait_until_drawn()
    assert values() == sorted(values())
    assert values()[0] == 30.0
    ranking = "robustness, OOD"
    for _ in range(2):
        seen.head(ranking).click()
        seen.wait_until_drawn()
        seen.page.evaluate("document.querySelector('.tabulator-tableholder').scrollTop = 1e6")
        seen.wait_until_drawn()
        assert seen.column("Model")[-1] in ("resnet18", HOSTILE, CLOSING)
        assert seen.column("#")[-1] == "–"
        seen.page.evaluate("document.querySelector('.tabulator-tableholder').scrollTop = 0")
        seen.wait_until_drawn()


def test_headings_and_numbers_can_be_reached_by_keyboard(opened: Any, site: Path) -> None:
    seen = opened(site.as_uri(), f"boards/{SUITE}.html")
    seen.head("Model").focus()
    seen.page.keyboard.press("Enter")
    seen.wait_until_drawn()
    names = [name.lower() for name in seen.column("Model")]
    assert names == sorted(names)
    seen.page.locator("#board button.value").first.focus()
    seen.page.keyboard.press("Enter")
    assert seen.page.locator("#provenance").is_visible()
    seen.page.keyboard.press("Escape")
    assert not seen.page.locator("#provenance").is_visible()


def test_filters_by_text_and_facts(opened: Any, root: str) -> None:
    seen = opened(root, f"boards/{SUITE}.html")
    every = len(suite_board(load_suite(SUITE)).entries) + 4  # two of them are both measured and imported
    assert seen.page.inner_text("#count") == f"{every} entries"
    seen.find("bdm 28-10", f"1 of {every} entries")
    assert seen.column("Model") == ["BDM WRN-28-10"]
    seen.find("nothing like this", f"0 of {every} entries")
    assert "No entry fits." in seen.page.inner_text("#board")
    seen.find("", f"{every} entries")
    seen.page.select_option('select[data-field="origin"]', "measured")
    assert sorted(seen.column("Model")) == sorted([CLOSING, HOSTILE, "resnet18"])
    assert sorted(text.split()[0] for text in seen.column("robustness, OOD")) == ["0", "30.0", "30.0"]
    seen.page.check("#complete")
    assert seen.page.inner_text("#count") == f"2 of {every} entries"
    seen.page.select_option('select[data-field="origin"]', "imported")
    assert seen.page.inner_text("#count") == f"3 of {every} entries"


def test_a_detail_becomes_a_column(opened: Any, root: str) -> None:
    seen = opened(root, "boards/imagenet-testbed.html")
    expected = next(
        column
        for column in load_suite("imagenet-testbed").board
        if column.name == seen.page.evaluate("document.querySelectorAll('#more option')[1].value")
    )
    shown = suite_board(load_suite("imagenet-testbed"))
    seen.page.select_option("#more", expected.name)
    seen.head(expected.title or expected.name).wait_for()
    seen.head(expected.title or expected.name).click()
    seen.wait_until_drawn()
    values = [entry.details[expected.name].score for entry in shown.entries]
    best = sorted((score.value for score in values if score is not None), reverse=expected.better != "lower")
    drawn = [float(text.split()[0]) for text in seen.column(expected.title or expected.name)[:8]]
    assert drawn == [round(100 * value, 1) for value in best[:8]]


def test_a_published_number_says_its_paper(opened: Any, root: str) -> None:
    seen = opened(root, f"boards/{SUITE}.html")
    seen.page.locator("#board .tabulator-row").first.locator("button.value").first.click()
    result = seen.page.inner_text("#provenance")
    assert "AS WRN-70-16 + ResNet-152: robustness, OOD" in result
    assert "Printed in" in result
    link = seen.page.locator("#provenance a", has_text="arXiv:2310.12793, Table 1")
    assert link.get_attribute("href") == "https://arxiv.org/abs/2310.12793"


def test_a_measured_number_says_its_runs_and_the_command(opened: Any, root: str, store: Store) -> None:
    seen = opened(root, f"boards/{SUITE}.html")
    every = seen.page.inner_text("#count").split()[0]
    seen.find("resnet18", f"1 of {every} entries")
    assert seen.column("Flags") == ["gradient-vanishes"]
    seen.page.locator("#board button.value", has_text="50.0").click()
    seen.page.wait_for_selector("#provenance details")
    seen.page.locator("#provenance details summary").first.click()
    result = seen.page.inner_text("#provenance")
    footer = next(one for one in store.footers().values() if one.model == "resnet18" and one.changes)
    for text in (footer.scenario, footer.key, footer.command, footer.device, footer.digest, "gradient was zero"):
        assert text in result
    assert "holdfast evaluate resnet18 --suite oodrobustbench-cifar10-linf" in result
    seen.page.keyboard.press("Escape")
    seen.page.locator("#board button.value", has_text="0 of 79").first.click()
    seen.page.wait_for_selector("#provenance details")
    assert "79 not measured yet" in seen.page.inner_text("#provenance")


def test_names_that_mean_harm_are_text(opened: Any, root: str) -> None:
    seen = opened(root, f"boards/{SUITE}.html")
    every = seen.page.inner_text("#count").split()[0]
    for name in (HOSTILE, CLOSING):
        seen.find("", f"{every} entries")
        seen.find(name.split()[0], f"1 of {every} entries")
        assert name in seen.column("Model")[0]
        for i in range(3):  # what is imported, what was measured
            seen.page.locator("#board .tabulator-row").first.locator("button.value").nth(i).click()
            seen.page.wait_for_selector("#provenance details, #provenance table")
            for one in seen.page.locator("#provenance summary").all():
                one.click()
            assert name in seen.page.inner_text("#provenance")
            seen.page.keyboard.press("Escape")
    assert seen.page.locator("#board img, #provenance img").count() == 0
    assert seen.page.locator('a[href^="javascript:"]').count() == 0
    for page in ("index.html", "about.html", "models/img-src-x-onerror-alert-1-63b586b4.html"):
        other = opened(root, page)
        assert other.page.locator("img").count() == 0
        if page != "about.html":
            assert HOSTILE in other.page.inner_text("body")


def test_a_download_is_the_file_beside_the_page(opened: Any, root: str, site: Path) -> None:
    """From a disk a browser saves only what it cannot show, whatever a link says."""
    kinds = {"CSV": "csv"} if root.startswith("file:") else {"CSV": "csv", "JSON": "json", "LaTeX": "tex"}
    seen = opened(root, f"boards/{SUITE}.html")
    for kind, ending in kinds.items():
        with seen.page.expect_download() as coming:
            seen.page.get_by_role("link", name=kind, exact=True).click()
        assert coming.value.suggested_filename == f"{SUITE}.{ending}"
        assert Path(coming.value.path()).read_bytes() == (site / f"downloads/{SUITE}.{ending}").read_bytes()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "dark")])
@pytest.mark.parametrize("page", ["index.html", f"boards/{SUITE}.html", "boards/imagenet-testbed.html"])
def test_pages_fit_the_screen_and_follow_its_scheme(
    opened: Any, site: Path, page: str, width: int, scheme: str
) -> None:
    seen = opened(site.as_uri(), page, width=width, scheme=scheme)
    assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for selector in ("body", "#board .tabulator-row .tabulator-cell", "#board .tabulator-header"):
        if seen.page.locator(selector).count():
            ground = seen.page.locator(selector).first.evaluate("one => getComputedStyle(one).backgroundColor")
            assert (max(int(part) for part in ground[4:-1].split(",")[:3]) < 60) == (scheme == "dark"), selector


def test_on_a_phone_the_first_columns_stay_and_the_panel_fits(opened: Any, site: Path) -> None:
    seen = opened(site.as_uri(), f"boards/{SUITE}.html", width=390)
    before = seen.page.locator("#board .tabulator-row .tabulator-cell").nth(1).bounding_box()
    seen.page.evaluate("document.querySelector('.tabulator-tableholder').scrollLeft = 400")
    seen.wait_until_drawn()
    assert seen.page.locator("#board .tabulator-row .tabulator-cell").nth(1).bounding_box() == before
    seen.page.evaluate("document.querySelector('.tabulator-tableholder').scrollLeft = 0")
    seen.page.locator("#board button.value").first.click()
    box = seen.page.locator("#provenance").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_links_lead_from_index_to_board_to_report_and_back(opened: Any, root: str) -> None:
    seen = opened(root, "index.html")
    seen.page.get_by_role("link", name=load_suite(SUITE).title, exact=True).first.click()
    seen.page.wait_for_selector('#board[data-ready="yes"]', timeout=60_000)
    every = seen.page.inner_text("#count").split()[0]
    seen.find("resnet18", f"1 of {every} entries")
    seen.page.get_by_role("link", name="resnet18").click()
    seen.page.wait_for_selector("#summary")
    seen.page.get_by_role("link", name=load_suite(SUITE).title, exact=True).click()
    seen.page.wait_for_selector("#board")


@pytest.mark.slow
def test_a_served_page_offers_what_is_new(opened: Any, synthetic: Any, tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    synthetic.add(store, 0.9, model="first")
    pages = Pages(store, told=lambda _: None, pause=0.1)
    bound = server(pages, port=0)
    threading.Thread(target=bound.serve_forever, args=(0.05,), daemon=True).start()
    threading.Thread(target=pages.watch, args=(lambda _: None,), daemon=True).start()
    try:
        seen = opened(f"http://127.0.0.1:{bound.server_address[1]}", "index.html")
        synthetic.add(store, 0.8, model="second")
        seen.page.get_by_role("button", name="Show it").click(timeout=60_000)
        seen.page.get_by_role("link", name="second").wait_for()
    finally:
        bound.shutdown()
        bound.server_close()
        pages.close()


def test_places_are_counted_again_by_any_score(opened: Any, site: Path) -> None:
    seen = opened(site.as_uri(), "boards/multirobustbench.html")
    suite = load_suite("multirobustbench")
    ranked = lambda by: [entry.model for entry in suite_board(suite, sort=by).entries if entry.rank is not None]  # noqa: E731
    assert seen.column("Model")[:3] == ranked("cr-ind-avg")[:3]
    for title, by in (("CR, worst", "cr-ind-worst"), ("stability constant", "stability-constant")):
        seen.page.select_option("#rank-by", label=title)
        seen.page.wait_for_function("(by) => document.getElementById('board').dataset.ranked === by", arg=by)
        seen.wait_until_drawn()
        assert seen.column("Model")[:10] == ranked(by)[:10]
        assert seen.column("#")[:10] == [str(selector) for selector in range(1, 11)]
    assert ranked("cr-ind-worst")[:3] == ["Dai2022Formulating_LPIPS", "LaidLaw2021Perceptual", "Jin2020Manifold"]
    seen.page.locator("#plot-single-ratios").scroll_into_view_if_needed()
    seen.page.wait_for_selector('#plot-single-ratios[data-drawn="yes"]', timeout=60_000)
    bars = seen.page.evaluate("document.querySelector('#plot-single-ratios .plot-area').data[0].y")
    stored = [suite_board(suite).entries, [c.name for c in suite.board if c.name.startswith("single-cr-")]]
    values = [[e.cell(name).score.value for e in stored[0] if e.cell(name).score is not None] for name in stored[1]]
    assert bars == pytest.approx([sum(some) / len(some) for some in values])
