"""The interactive plots in a real browser: what a reader chooses gives the numbers that Python gives."""

from __future__ import annotations

import html
import importlib.util
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.boards.column_scores import BEST, published_training, strengths_of
from holdfast.boards.suite_board import suite_board
from holdfast.core.intervals import wilson
from holdfast.core.suites import Column, Suite
from holdfast.core.table import Table
from holdfast.core.types import Score
from holdfast.metrics.means import difference
from holdfast.metrics.multi_attack import CLEAN, Battery, Strength, battery, competitiveness
from holdfast.metrics.stability import stability
from holdfast.site.plots import Plot, plots_of
from holdfast.site.policy import csp_hash, site_policy
from holdfast.site.report import inline_json
from holdfast.store.store import Store
from holdfast.trends.bands import band
from holdfast.trends.fits import fit, near_zero
from holdfast.trends.robustness import effective_robustness
from holdfast.trends.spaces import SPACES

pytestmark = pytest.mark.slow  # a browser for a minute
STATIC = Path(importlib.import_module("holdfast.site").__path__[0]) / "static"
STYLE = ":root { color-scheme: light dark; } body { margin: 12px; font: 16px/1.5 sans-serif; }"
POLICY = site_policy().replace("style-src", f"style-src {csp_hash(STYLE)}")  # as in pages, with this one's own style
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<link rel="icon" href="data:,"><link rel="stylesheet" href="{static}/plots.css"><title>Plots</title>
<style>{style}</style></head>
<body>{sections}<script src="{plotly}"></script><script src="{static}/plots.js"></script></body></html>"""
SECTION = """<section class="plot" id="plot-{id}" data-plot="{kind}"><h2>{title}</h2><p>{about}</p>
<div class="plot-area"></div><script type="application/json">{data}</script></section>"""
HOSTILE = "<img src=x onerror=alert(1)>"
NAMES = ("one", "two", "three", HOSTILE, "five", "six", "seven")


@dataclass(frozen=True)
class Seen:
    """A page as a browser showed it, with what it asked for and complained about."""

    page: Any
    requests: list[str]
    complaints: list[str]

    def draw(self, *plots: str) -> None:
        """Brings plots into view, all of them by default, for they wait until they are near."""
        for plot in plots or self.page.locator("section.plot").evaluate_all(
            "(all) => all.map((one) => one.id.slice(5))"
        ):
            self.page.locator(f"#plot-{plot}").scroll_into_view_if_needed()
            self.page.locator(f"#plot-{plot}[data-drawn]").wait_for()

    def data(self, plot: str, what: str) -> Any:
        """A part of the figure as Plotly holds it."""
        return self.page.evaluate(f"document.querySelector('#plot-{plot} .plot-area').{what}")

    def note(self, plot: str) -> str:
        return str(self.page.inner_text(f"#plot-{plot} .plot-area + .plot-note"))


def _module(name: str) -> Any:
    folder = Path(__file__).parents[1] / "unit" / "site"
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(folder))


simulated = _module("simulated")


def written(path: Path, plots: Sequence[Plot]) -> Path:
    plotly = importlib.util.find_spec("plotly")
    assert plotly is not None
    assert plotly.origin is not None
    sections = [
        SECTION.format(
            id=plot.id,
            kind=plot.kind,
            title=html.escape(plot.title),
            about=html.escape(plot.about),
            data=inline_json(plot.data),
        )
        for plot in plots
    ]
    script = Path(plotly.origin).parent / "package_data" / "plotly.min.js"
    page = PAGE.format(
        policy=POLICY, style=STYLE, static=STATIC.as_uri(), plotly=script.as_uri(), sections="".join(sections)
    )
    path.write_text(page, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plots")


@pytest.fixture(scope="module")
def shifts(folder: Path) -> Path:
    """Printed models, and two measured here: scatter, plane, degradation and agreement."""
    suite = simulated.suite(folder, simulated.SHIFTS)
    store = simulated.measured_store(folder / "shifts")
    return written(folder / "shifts.html", plots_of(suite, suite_board(suite, store), store))


@pytest.fixture(scope="module")
def cells(folder: Path) -> Table:
    table = simulated.battery(NAMES).table
    assert isinstance(table, Table)
    return table


@pytest.fixture(scope="module")
def attacked(folder: Path, cells: Table) -> Path:
    """Seven models under four attacks at four strengths."""
    suite = simulated.suite(folder, simulated.MANY_ATTACKS, "attacked")
    store = Store(str(folder / "attacked"))
    store.add_scores(simulated.battery(NAMES, benchmark="attacked"))
    return written(folder / "attacked.html", plots_of(suite, suite_board(suite, store), store))


@pytest.fixture(scope="module")
def planar(folder: Path) -> tuple[Path, Table]:
    suite: Suite = simulated.suite(folder, simulated.PLANE, "planar")
    scores = simulated.on_a_plane(40, benchmark="planar")
    store = Store(str(folder / "planar"))
    store.add_scores(scores)
    beyond = Column("beyond", score="effective-robustness", of=("imagenet-v2", "imagenet", "yfcc"))
    plots = plots_of(replace(suite, board=(*suite.board, beyond)), suite_board(suite, store), store)
    return written(folder / "planar.html", plots), scores.table


@pytest.fixture(scope="module")
def opened(browser: Any) -> Iterator[Any]:
    """Opens a page once for all tests; each sets what it looks at."""
    known: dict[tuple[Path, int, str], Seen] = {}

    def open_page(path: Path, *plots: str, width: int = 1280, scheme: str = "light") -> Seen:
        key = (path, width, scheme)
        if key not in known:
            context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
            known[key] = seen = Seen(context.new_page(), [], [])
            seen.page.on("request", lambda asked: seen.requests.append(asked.url))
            # a driver's remarks on its own speed are no errors
            seen.page.on(
                "console", lambda result: seen.complaints.append(result.text) if result.type == "error" else None
            )
            seen.page.on("pageerror", lambda error: seen.complaints.append(str(error)))
            seen.page.on("dialog", lambda asked: seen.complaints.append(f"dialog {asked.message}"))
            seen.page.goto(path.as_uri())
        known[key].draw(*plots)
        return known[key]

    yield open_page
    for seen in known.values():
        seen.page.context.close()


def until(page: Any, what: Callable[[], bool]) -> None:
    """Waits for something to happen; the page itself may evaluate no text."""
    for _ in range(300):
        if what():
            return
        page.wait_for_timeout(100)
    pytest.fail("waited 30 s in vain")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
@pytest.mark.parametrize("name", ["shifts", "attacked", "planar"])
def test_plots_stay_inside_the_page_and_ask_nothing_of_a_network(
    name: str, width: int, scheme: str, opened: Any, folder: Path, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(name)
    seen = opened(folder / f"{name}.html", width=width, scheme=scheme)
    assert seen.complaints == []
    assert [url for url in seen.requests if not url.startswith(("file:", "data:", "blob:"))] == []
    assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert seen.page.locator(".plot-area .main-svg").count() > 0
    assert seen.page.locator("a[href*='plot.ly'], a[href*='plotly.com']").count() == 0


def test_maths_of_the_page_are_those_of_python(opened: Any, shifts: Path) -> None:
    page = opened(shifts, "scatter").page

    def maths(call: str, *values: object) -> Any:
        return page.evaluate(f"(values) => {{ const m = holdfastPlots.maths; return ({call}); }}", list(values))

    for name, space in SPACES.items():
        shares = np.array([1e-4, 0.01, 0.2, 0.5, 0.77, 0.99, 0.9999])
        assert maths(f"values[0].map(m.SPACES.{name}.forward)", shares.tolist()) == pytest.approx(space.forward(shares))
        there = space.forward(shares)
        assert maths(f"values[0].map(m.SPACES.{name}.inverse)", there.tolist()) == pytest.approx(shares)
    for right, n in ((0, 50), (50, 50), (37, 50), (9312, 10_000)):
        expected = wilson(right, n)
        assert maths("m.wilson(values[0], values[1])", right / n, n) == pytest.approx([expected.low, expected.high])
    one, other = Score(0.5, 0.45, 0.56, 100), Score(0.9, 0.85, 0.93, 100)
    expected = difference(one, other)
    made = maths("m.difference(values[0], values[1])", [0.5, 0.45, 0.56], [0.9, 0.85, 0.93])
    assert made == pytest.approx([expected.value, expected.low, expected.high])
    assert maths("m.difference([null, null, null], [0.9, 0.8, 1])") == [None, None, None]


def test_a_pair_of_scores_that_python_did_not_fit_is_fitted_alike(opened: Any, planar: tuple[Path, Table]) -> None:
    path, table = planar
    seen = opened(path, "scatter")
    names = ("imagenet-125", "yfcc-125", "v2-125")
    ask = "(([x, y, space]) => holdfastPlots.maths.lineOf({...data, lines: []}, x, y, space))"
    for space in SPACES:
        made = seen.page.evaluate(
            "(asked) => { const data = JSON.parse(document.querySelector('#plot-scatter script').textContent); "
            f"return {ask}(asked); }}",
            [0, 2, space],
        )
        line = fit(table, names[2], names[0], space=space)
        assert made["slope"] == pytest.approx(line.slope, rel=1e-3)  # the page has scores of five digits
        assert made["r2"] == pytest.approx(line.r2, abs=1e-3)
        expected = band(line, np.array(made["at"]), draws=4000)
        width = expected.high - expected.low
        # two bootstraps with their own draws: bounds agree to a fraction of the band
        assert np.abs(np.array(made["low"]) - expected.low).max() < 0.2 * width.max()
        assert np.abs(np.array(made["high"]) - expected.high).max() < 0.2 * width.max()
    plane = seen.page.evaluate(
        "() => { const data = JSON.parse(document.querySelector('#plot-scatter script').textContent); "
        "return holdfastPlots.maths.planeOf(data, [], 0, 1, 2, 'logit'); }"
    )
    expected_plane = fit(table, names[2], names[:2])
    assert plane["weights"] == pytest.approx(expected_plane.weights, rel=1e-3)
    assert plane["r2"] == pytest.approx(expected_plane.r2, abs=1e-3)
    assert plane["mae"] == pytest.approx(expected_plane.mae, rel=1e-2)


def test_a_fit_that_means_little_says_so_under_the_plot(opened: Any, shifts: Path) -> None:
    seen = opened(shifts, "scatter")

    def result(fit: dict[str, object], what: str) -> list[str]:
        ask = "([fit, what]) => holdfastPlots.maths.cautions(fit, what, [...Array(41)].map(() => 0.3))"
        return list(seen.page.evaluate(ask, [fit, what]))

    assert result({"n": 40, "r2": 0.9}, "line") == []
    assert result({"n": 9, "r2": 0.9}, "line") == ["Fitted on 9 models: fewer than 10 do not determine a line."]
    assert result({"n": 40, "r2": 0.2}, "plane") == ["R² is near 0: the plane explains little."]
    assert result({"n": 40, "r2": None}, "line") == ["The scores to explain do not vary: the line says nothing."]
    data = json.loads(seen.page.evaluate("document.querySelector('#plot-scatter script').textContent"))
    assert ("do not determine a line" in seen.note("scatter")) == (sum(data["fitted"]) < 10)
    assert data["weak"] == pytest.approx([near_zero(n) for n in range(len(data["weak"]))], abs=1e-4)


def test_axes_switch_and_keep_their_ticks_in_percent(opened: Any, shifts: Path) -> None:
    seen = opened(shifts, "scatter")
    section = seen.page.locator("#plot-scatter")
    positions = {}
    for space in ("logit", "probit", "linear"):
        section.get_by_label(space, exact=True).focus()
        seen.page.keyboard.press("Space")
        assert f"{space} space" in seen.note("scatter")
        axis = seen.data("scatter", "layout.xaxis")
        assert all(text.endswith(" %") for text in axis["ticktext"])
        assert len(axis["ticktext"]) > 2
        shares = [float(text.removesuffix(" %")) / 100 for text in axis["ticktext"]]
        assert axis["tickvals"] == pytest.approx(SPACES[space].forward(np.array(shares)))
        traces = {trace["name"]: trace for trace in seen.data("scatter", "data.map((t) => ({name: t.name, x: t.x}))")}
        assert {"line", "band (95 %)", "published", "measured"} <= set(traces)
        positions[space] = traces["published"]["x"]
    assert positions["logit"] == pytest.approx(SPACES["logit"].forward(np.array(positions["linear"])), abs=1e-9)


def test_a_model_that_is_found_shows_its_effective_robustness(opened: Any, planar: tuple[Path, Table]) -> None:
    path, table = planar
    seen = opened(path, "scatter")
    section = seen.page.locator("#plot-scatter")
    section.get_by_label("logit", exact=True).check()
    section.get_by_label("Find a model").fill("model-7")
    chosen = seen.data("scatter", "layout.xaxis.title.text")
    line = fit(table, "v2-125", {"imagenet": "imagenet-125", "yfcc": "yfcc-125"}[chosen])
    beyond = 100 * effective_robustness(line, table)[7]
    text = section.locator(".plot-reading").inner_text()
    assert "model-7" in text
    assert f"{'+' if beyond > 0 else '−'}{abs(beyond):.1f} points" in text.replace("\u2212", "−")


def test_the_plane_turns_by_drag_and_by_button(opened: Any, planar: tuple[Path, Table]) -> None:
    seen = opened(planar[0], "plane")
    assert {"scatter3d", "surface"} <= set(seen.data("plane", "data.map((trace) => trace.type)"))
    section = seen.page.locator("#plot-plane")
    assert "Plane over 40" in seen.note("plane")
    assert "do not determine" not in seen.note("plane")
    section.scroll_into_view_if_needed()
    eye = "layout.scene.camera.eye"
    before = seen.data("plane", eye)
    section.get_by_role("button", name="→").focus()
    seen.page.keyboard.press("Enter")
    turned = seen.data("plane", eye)
    assert math.dist(before.values(), turned.values()) > 0.1
    assert math.hypot(*turned.values()) == pytest.approx(math.hypot(*before.values()))
    box = section.locator(".plot-area").bounding_box()
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    seen.page.mouse.move(*middle)
    seen.page.mouse.down()
    for step in range(1, 8):
        seen.page.mouse.move(middle[0] + 15 * step, middle[1] + 6 * step)
    seen.page.mouse.up()
    until(seen.page, lambda: seen.data("plane", eye) != turned)
    assert seen.complaints == []


def expected_scores(table: Table, model: str, kept: Sequence[Strength]) -> tuple[float, float, float] | None:
    """CR average, CR worst and SC by Python; None where an accuracy is missing."""
    attacks = (*simulated.ATTACKS, "NoAttack")
    best = strengths_of(table, BEST, attacks)
    made: Battery = battery(strengths_of(table, model, attacks), best).of(kept)
    if made.missing:
        return None
    ratios = competitiveness(made, resamples=1)
    constant = stability(made, published_training(table.facts[model])).constant
    return ratios.average.value, ratios.individual_worst.value, constant.value


@pytest.mark.parametrize("seed", range(6))
def test_scores_of_any_attack_set_are_those_of_python(seed: int, opened: Any, attacked: Path, cells: Table) -> None:
    random = np.random.default_rng(seed)
    seen = opened(attacked, "attacks")
    section = seen.page.locator("#plot-attacks")
    section.locator("details").evaluate("(one) => { one.open = true; }")
    names = [name for name in simulated.ATTACKS if random.random() < 0.6] or [simulated.ATTACKS[0]]
    low, high = sorted(random.integers(1, 5, 2).tolist())
    with_clean = bool(random.integers(2))
    for name in (*simulated.ATTACKS, ""):
        section.locator(f'.plot-set input[type="checkbox"][value="{name}"]').set_checked(
            with_clean if name == "" else name in names
        )
    for label, level in (("Strongest level", high), ("Weakest level", low)):
        section.get_by_label(label).fill(str(level))
        section.get_by_label(label).press("Tab")
    strengths = simulated.STRENGTHS[low - 1 : high]
    kept = [*([CLEAN] if with_clean else []), *(Strength(name, each) for name in names for each in strengths)]
    assert f"K holds {len(kept)} attacks" in section.inner_text()
    rows = section.locator(".plot-table tbody tr").evaluate_all(
        "(rows) => rows.map((row) => [...row.cells].slice(1).map((cell) => [cell.dataset.value, cell.textContent]))"
    )
    assert len(rows) == len(NAMES)
    for _, (name, _), _, average, worst, constant in rows:
        expected = expected_scores(cells, name, kept)
        if expected is None:
            assert (average[0], worst[0], constant[0]) == ("", "", "")
            assert average[1].endswith(f"of {len(kept)}")
        else:
            assert [float(each[0]) for each in (average, worst, constant)] == pytest.approx(expected, rel=1e-9)


def test_the_official_set_gives_the_official_scores_again(opened: Any, attacked: Path) -> None:
    seen = opened(attacked, "attacks")
    section = seen.page.locator("#plot-attacks")
    section.locator('.plot-set input[value="StAdvAttack"]').uncheck()
    section.get_by_role("button", name="The official set").click()
    rows = section.locator(".plot-table tbody tr").evaluate_all(
        "(rows) => rows.map((row) => [...row.cells].map((cell) => cell.dataset.value))"
    )
    known = [row for row in rows if row[3]]
    assert len(known) == len(NAMES) - 1
    assert [float(row[4]) for row in known] == pytest.approx([float(row[3]) for row in known])
    assert [int(row[1]) for row in known] == list(range(1, len(NAMES)))
    section.get_by_role("button", name="SC", exact=True).click()
    constants = section.locator(".plot-table tbody tr td:last-child").evaluate_all(
        "(c) => c.map((x) => x.dataset.value)"
    )
    values = [float(value) for value in constants if value]
    assert values == sorted(values)
    assert constants[-1] == ""


def test_five_models_are_compared_in_four_views_and_no_sixth(opened: Any, attacked: Path, cells: Table) -> None:
    seen = opened(attacked, "attacks")
    section = seen.page.locator("#plot-attacks")
    section.get_by_role("button", name="The official set").click()  # another test may have chosen otherwise
    for name in ("one", "two", "three", "five", "six", "seven", HOSTILE):
        box = section.locator(f'input[aria-label="Compare {name}"]')
        if not box.is_checked() and box.is_enabled():
            box.check()
    boxes = section.locator(".plot-table input[type=checkbox]")
    assert boxes.evaluate_all("(all) => all.filter((one) => one.checked).length") == 5
    assert boxes.evaluate_all("(all) => all.filter((one) => one.disabled).length") == len(NAMES) - 5
    chosen = section.locator("tr.chosen td:nth-child(3)").evaluate_all("(all) => all.map((one) => one.dataset.value)")
    views = {
        "Against models trained on the attack": ("scatter", 6),
        "Over strengths": ("scatter", 3 * 6),
        "Seen and unforeseen": ("bar", 5),
        "Per attack": ("bar", 5),
    }

    def drawn() -> list[dict[str, Any]]:
        what = "data.filter((t) => t.x.length).map((t) => ({type: t.type, name: t.name, x: t.x, y: t.y}))"
        found: list[dict[str, Any]] = seen.data("attacks", what)
        return found

    for title, (kind, traces) in views.items():
        section.get_by_label(title).check()
        until(seen.page, lambda kind=kind, traces=traces: [trace["type"] for trace in drawn()] == [kind] * traces)
    until(seen.page, lambda: all("ElasticAttack" in trace["x"] for trace in drawn()))
    single = {trace["name"]: dict(zip(trace["x"], trace["y"], strict=True)) for trace in drawn()}
    for name in chosen:
        kept = [CLEAN, *(Strength("ElasticAttack", each) for each in simulated.STRENGTHS)]
        expected = expected_scores(cells, name, kept)
        value = single[html.escape(name, quote=False)]["ElasticAttack"]
        assert value == (None if expected is None else pytest.approx(expected[0]))
    assert seen.complaints == []


def test_what_a_shift_costs_is_the_difference_of_two_scores(opened: Any, shifts: Path) -> None:
    seen = opened(shifts, "degradation")
    section = seen.page.locator("#plot-degradation")
    section.get_by_label("Score").select_option(label="Under mm5-linf:radius=8/255")
    bars = {trace["name"]: dict(zip(trace["y"], trace["x"], strict=True)) for trace in seen.data("degradation", "data")}
    assert bars["ours (measured here)"]["fog"] == pytest.approx(100 * (0.5 - 0.05 * 2 - 0.55), abs=0.5)  # 120 samples
    section.get_by_label("map of levels").check()
    grid = next(trace for trace in seen.data("degradation", "data") if "ours" in trace["hovertext"][0][0])
    row = dict(zip(grid["y"], grid["z"], strict=True))["jpeg"]
    assert [round(value, 1) for value in row] == pytest.approx(
        [100 * (0.5 - 0.03 * s - 0.55) for s in (1, 2, 3)], abs=0.9
    )
    assert html.escape(HOSTILE, quote=False) in str(seen.data("degradation", "layout.annotations"))


def test_agreement_is_drawn_over_ratios_and_over_radii(opened: Any, shifts: Path) -> None:
    seen = opened(shifts, "agreement")
    section = seen.page.locator("#plot-agreement")
    data = json.loads(section.locator("script").text_content())
    curve = next(one for one in data["curves"] if one["model"] == "ours")
    section.locator("label", has_text="Change").locator("select").select_option(curve["scenario"])
    agreed, kept = (trace for trace in seen.data("agreement", "data") if trace["name"] == "ours")
    assert agreed["x"] == curve["ratios"]
    assert agreed["y"] == [value for value, _, _ in curve["agreement"]]
    assert kept["y"] == [value for value, _, _ in curve["afr_t"]]
    section.get_by_label("radius of the attack").check()
    _, kept = (trace for trace in seen.data("agreement", "data") if trace["name"] == "ours")
    assert kept["x"] == pytest.approx([4 / 255, 8 / 255, 16 / 255])
    assert kept["y"] == pytest.approx([0.7, 0.55, 0.2], abs=0.01)


def test_a_hostile_name_is_text_and_nothing_else(opened: Any, shifts: Path, attacked: Path) -> None:
    for path, plot in ((shifts, "scatter"), (attacked, "attacks")):
        seen = opened(path, plot)
        assert seen.page.locator("img").count() == 0
        assert HOSTILE in seen.page.content().replace("&lt;", "<").replace("&gt;", ">")
        if plot == "scatter":
            seen.page.locator("#plot-scatter").scroll_into_view_if_needed()
            seen.page.locator("#plot-scatter").get_by_label("Find a model").fill(HOSTILE)
            assert HOSTILE in seen.page.inner_text("#plot-scatter .plot-reading")
            where = "data.findIndex((t) => (t.text || []).some((x) => x.includes('onerror')))"
            trace = seen.data("scatter", where)
            point = seen.data("scatter", f"data[{trace}].text.findIndex((x) => x.includes('onerror'))")
            seen.page.evaluate(
                "([trace, point]) => Plotly.Fx.hover(document.querySelector('#plot-scatter .plot-area'), "
                "[{curveNumber: trace, pointNumber: point}])",
                [trace, point],
            )
            shown = seen.page.locator("#plot-scatter .hoverlayer")
            shown.get_by_text(HOSTILE).first.wait_for()
            assert "effective robustness" in shown.text_content()
            assert "measured here" in shown.text_content()
        assert seen.page.locator("img").count() == 0
        assert seen.complaints == []


def test_colours_follow_the_scheme_of_the_reader_at_once(opened: Any, shifts: Path) -> None:
    seen = opened(shifts)
    ink = "layout.font.color"
    light = {plot: seen.data(plot, ink) for plot in ("scatter", "plane", "degradation", "agreement")}
    seen.page.emulate_media(color_scheme="dark")
    until(seen.page, lambda: seen.data("scatter", ink) != light["scatter"])
    for plot, before in light.items():
        assert seen.data(plot, ink) != before
    text = "getComputedStyle(document.querySelector('#plot-scatter .xtick text')).fill"
    assert seen.page.evaluate(text) == "rgb(232, 236, 233)"
    seen.page.emulate_media(color_scheme="light")
    until(seen.page, lambda: seen.data("scatter", ink) == light["scatter"])


def test_every_control_has_a_name_and_takes_the_keyboard(opened: Any, shifts: Path) -> None:
    seen = opened(shifts)
    nameless = """() => [...document.querySelectorAll(".plot-controls :is(select, input, button)")]
        .filter((one) => one.tabIndex < 0 || !(one.labels?.length || one.textContent.trim() || one.title))
        .map((one) => one.outerHTML.slice(0, 100))"""
    assert seen.page.evaluate(nameless) == []


def test_a_line_per_colour_goes_through_the_models_of_each(opened: Any, shifts: Path) -> None:
    seen = opened(shifts, "scatter")
    section = seen.page.locator("#plot-scatter")
    choose = section.locator("select:has(option[value='group']):has(option[value='one'])")
    choose.select_option("group")
    until(seen.page, lambda: any(str(n).startswith("line, ") for n in seen.data("scatter", "data.map((t) => t.name)")))
    traces = seen.data(
        "scatter", "data.map((t) => ({name: t.name, x: t.x, y: t.y, mode: t.mode, meta: t.meta ?? null}))"
    )
    lines = {t["name"].removeprefix("line, "): t for t in traces if t["name"].startswith("line, ")}
    dots = {t["name"]: t for t in traces if t["mode"] == "markers" and len(t["x"]) > 2}
    assert lines
    assert lines.keys() == dots.keys()
    for name, drawn in lines.items():
        slope, intercept = np.polyfit(dots[name]["x"], dots[name]["y"], 1)
        assert (drawn["meta"]["slope"], drawn["meta"]["intercept"]) == (pytest.approx(slope), pytest.approx(intercept))
        assert drawn["x"] == [min(dots[name]["x"]), max(dots[name]["x"])]
    choose.select_option("one")
    until(seen.page, lambda: "line" in seen.data("scatter", "data.map((t) => t.name)"))
