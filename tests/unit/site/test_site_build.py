"""The site as files: what is there, what is escaped, what is refused, what damage does not stop."""

from __future__ import annotations

import csv
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import add, change, fog

from holdfast.boards.board_text import records
from holdfast.boards.provenance import scenarios_of, score_bases
from holdfast.boards.suite_board import suite_board
from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.suites import load_suite
from holdfast.core.table import table
from holdfast.core.types import Flag
from holdfast.site import build as building
from holdfast.site import site_folder
from holdfast.site.addresses import paper, slug
from holdfast.site.build import Site, build_site, inline_json, script
from holdfast.store.scores import Origin, Scores
from holdfast.store.site_store import SiteStore, stamp
from holdfast.store.store import Store

SUITE = "oodrobustbench-cifar10-linf"
HOSTILE = "<img src=x onerror=alert(1)>"
CLOSING = "</script><script>alert(2)</script><!--"


class Links(HTMLParser):
    """Every address that a page refers to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.elements: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.found += [value for name, value in attrs if name in ("href", "src") and value]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Site:
    base = tmp_path_factory.mktemp("fresh")
    return build_site(Store(str(base / "no-store")), base / "site")


@pytest.fixture
def small(store: Store) -> Store:
    weak = Flag("gradient-vanishes", "warning", "The gradient was zero for 3 samples.")
    add(store, 0.9, model="resnet18")
    add(store, 0.5, change("attack", "mm5-linf", radius=8 / 255), model="resnet18", flags=[weak])
    add(store, 0.7, fog(3), model="resnet18", n=100)
    return store


def imported(store: Store, models: list[str]) -> Scores:
    suite = load_suite(SUITE)
    cells = {(model, column.name): 0.5 for model in models for column in suite.board}
    origin = Origin("csv", "results.csv", "ab" * 32, "2026-01-01")
    scores = Scores(SUITE, table(cells, counts=dict.fromkeys(cells, 10_000), source=str(origin)), {}, origin)
    store.add_scores(scores)
    return scores


def data_of(site: Site, suite: str = SUITE) -> dict:
    text = (site.out / f"boards/{suite}.html").read_text()
    return json.loads(re.search(r'id="board-data">(.*?)</script>', text, re.DOTALL)[1])


def test_a_fresh_install_is_full_of_what_papers_print(fresh: Site) -> None:
    index = (fresh.out / "index.html").read_text()
    assert "OODRobustBench: CIFAR-10, linf" in index
    assert "None yet: this is what the papers print." in index
    rows = {row["model"]: row for row in data_of(fresh)["rows"]}
    assert rows["AS WRN-70-16 + ResNet-152"]["rank"] == 1
    names = [column["name"] for column in data_of(fresh)["columns"]]
    cell = rows["AS WRN-70-16 + ResNet-152"]["cells"][names.index("id-accuracy")]
    assert (cell["text"], cell["bounds"], cell["n"]) == ("95.2", "[94.8, 95.6]", 10_000)
    sources = data_of(fresh)["sources"]
    assert sources[cell["source"]] == ["arXiv:2310.12793, Table 1", "https://arxiv.org/abs/2310.12793"]


def test_details_are_kept_for_those_who_ask(fresh: Site) -> None:
    data = data_of(fresh, "imagenet-testbed")
    shown = suite_board(load_suite("imagenet-testbed"))
    begun = {column.name for column in shown.details if any(e.details[column.name].have for e in shown.entries)}
    assert {column["name"] for column in data["details"]} == begun
    assert not begun & {column["name"] for column in data["columns"]}
    text = (fresh.out / f"boards/data/{data['more']}.js").read_text()
    cells = json.loads(text.partition("] = ")[2].removesuffix(";\n"))
    assert cells.keys() == begun
    for name, by_row in cells.items():
        for row, cell in by_row.items():
            score = shown.entries[int(row)].details[name].score
            assert cell.get("value") == (None if score is None else score.value)


def test_a_board_without_entries_says_how_to_fill_it(fresh: Site) -> None:
    command = "holdfast evaluate fashion-standard fashion-noise fashion-at-linf fashion-at-l2 --suite quick"
    assert command in (fresh.out / "boards/quick.html").read_text()
    folded = (
        (fresh.out / "index.html").read_text().partition('<details class="empty-boards">')[2].partition("</details>")[0]
    )
    assert command in folded
    assert "holdfast import timm FOLDER" in folded
    assert all(page.file not in folded for page in fresh.boards if page.board.entries)


def test_every_link_of_every_page_leads_to_a_file_or_a_paper(fresh: Site) -> None:
    for name in (name for name in fresh.files if name.endswith(".html")):
        page = fresh.out / name
        for address in Links(page.read_text()).found:
            if not address.startswith(("https://arxiv.org/", "https://doi.org/", "data:,", "#")):
                assert not address.startswith(("/", "http")), address
                assert (page.parent / address.split("#")[0]).resolve().is_relative_to(fresh.out.resolve())
                assert (page.parent / address.split("#")[0]).is_file(), address


def test_downloads_hold_the_whole_board(fresh: Site) -> None:
    shown = suite_board(load_suite(SUITE))
    listed = list(csv.DictReader(io.StringIO((fresh.out / f"downloads/{SUITE}.csv").read_text())))
    assert [one["model"] for one in listed] == [str(one["model"]) for one in records(shown)]
    whole = json.loads((fresh.out / f"downloads/{SUITE}.json").read_text())
    assert whole["scores"] == records(shown)
    latex = (fresh.out / f"downloads/{SUITE}.tex").read_text()
    assert latex.count("\\\\") == len(shown.entries) + 1


def test_a_measured_score_says_its_runs_and_commands(small: Store, tmp_path: Path) -> None:
    site = build_site(small, tmp_path / "site")
    row = next(row for row in data_of(site)["rows"] if row["model"] == "resnet18")
    assert (row["origin"], row["rank"], row["open"]) == ("measured", None, True)
    names = [column["name"] for column in data_of(site)["columns"]]
    robust = row["cells"][names.index("id-robustness")]
    assert (robust["text"], robust["n"], robust["flagged"]) == ("50.0", 200, True)
    assert row["cells"][names.index("ood-d-accuracy")]["text"] == "1 of 79"
    text = (site.out / f"boards/data/{row['places']['runs']}.js").read_text()
    origin = json.loads(text.partition("] = ")[2].removesuffix(";\n"))
    runs = [origin["runs"][i] for i in origin["columns"]["id-robustness"]]
    assert [run["command"] for run in runs] == ["holdfast evaluate resnet18 --scenario 'cifar10+mm5-linf:radius=8/255'"]
    assert len(origin["missing"]["ood-d-accuracy"]) == 78


def test_the_runs_behind_a_mean_are_those_of_its_columns(small: Store) -> None:
    suite = load_suite(SUITE)
    column = {one.name: one for one in suite.board}
    whole = scenarios_of(column["ood-robustness"], suite)
    parts = [scenarios_of(column[name], suite) for name in column["ood-robustness"].of]
    assert whole == [text for part in parts for text in part]
    basis = score_bases(suite, small)["resnet18"]["ood-robustness"]
    assert (len(basis.runs), len(basis.missing)) == (0, len(whole))


def test_an_imported_score_says_its_file_and_numbers(store: Store, tmp_path: Path) -> None:
    scores = imported(store, ["theirs"])
    site = build_site(store, tmp_path / "site")
    row = next(row for row in data_of(site)["rows"] if row["model"] == "theirs")
    (base,) = row["places"]["imported"]
    assert base == f"{SUITE}/imported/{scores.key}"
    text = (site.out / f"boards/data/{base}.js").read_text()
    origin = json.loads(text.partition("] = ")[2].removesuffix(";\n"))
    assert (origin["file"], origin["sha256"]) == ("results.csv", "ab" * 32)
    base = origin["columns"]["id-accuracy"][0]
    assert (origin["settings"][base], origin["values"]["theirs"][base]) == ("id-accuracy", 50.0)


OTHER_SCRIPTS = re.compile(r'<script(?! src="(?:\.\./)*assets/[a-z.]+">)(?! type="application/json")')


OTHER_NAMES = [pytest.param(name, marks=pytest.mark.slow) for name in (HOSTILE, '"; alert(1); "', "a\u2028b\ud800")]


@pytest.mark.slow
@pytest.mark.parametrize("name", [CLOSING, "../../etc/passwd", *OTHER_NAMES])
def test_a_hostile_name_is_text_everywhere(store: Store, tmp_path: Path, name: str) -> None:
    add(store, 0.9, model=name.encode("utf-8", "replace").decode(), flags=[Flag(CLOSING, "warning", HOSTILE)])
    imported(store, [name.encode("utf-8", "replace").decode()])
    site = build_site(store, tmp_path / "site")
    assert not site.failed
    fresh = build_site(Store(str(tmp_path / "none")), tmp_path / "fresh")
    for file in (file for file in site.files if file.endswith(".html")):
        page = (site.out / file).read_text()
        assert "<img src=x" not in page
        if file in fresh.files:
            before = (tmp_path / "fresh" / file).read_text()  # a board with an entry may have plots, by our own scripts
            assert len(OTHER_SCRIPTS.findall(page)) == len(OTHER_SCRIPTS.findall(before)), file
    for file in (file for file in site.files if file.startswith("boards/data/")):
        assert not set((site.out / file).read_text()) & set("<>\u2028\u2029")
    assert {path.resolve().is_relative_to(site.out.resolve()) for path in site.out.rglob("*")} == {True}


def test_damage_is_told_and_the_rest_is_built(small: Store, tmp_path: Path) -> None:
    imported(small, ["theirs"])
    other = add(small, 0.8, model="other")
    root = Path(small.files.root)
    (root / f"rows/{other.key}.parquet").write_bytes(b"not parquet")
    (root / "rows/stray.parquet").write_bytes(b"PAR1 nor this")
    (root / f"scores/{SUITE}.0000.parquet").write_bytes(b"garbage")
    site = build_site(Store(small.url), tmp_path / "site")
    assert set(site.problems) == {
        f"rows/{other.key}.parquet",
        "rows/stray.parquet",
        f"scores/{SUITE}.0000.parquet",
    }
    index = (site.out / "index.html").read_text()
    assert "3 files could not be read and are left out" in index
    assert "rows/stray.parquet" in index
    models = {row["model"] for row in data_of(site)["rows"]}
    assert {"resnet18", "theirs", "BDM WRN-70-16"} <= models


def test_a_run_that_changed_under_its_footer_is_told(small: Store, tmp_path: Path) -> None:
    key = next(key for key, footer in small.footers().items() if not footer.changes)
    path = Path(small.files.root) / f"rows/{key}.parquet"
    data = bytearray(path.read_bytes())
    data[40:60] = bytes(20)
    path.write_bytes(bytes(data))
    site = build_site(Store(small.url), tmp_path / "site")
    result = (site.out / "models/resnet18.html").read_text() + (site.out / "index.html").read_text()
    assert f"rows/{key}.parquet" in result
    assert len(site.boards) >= 5


def test_a_store_that_cannot_be_listed_still_gives_the_published_boards(
    small: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: Store) -> dict:
        raise HoldfastError("rows of format 9, this installation reads format 1")

    monkeypatch.setattr(Store, "footers", refused)
    site = build_site(small, tmp_path / "site")
    assert site.problems == {"rows": "rows of format 9, this installation reads format 1"}
    assert len(data_of(site)["rows"]) >= 20


def test_a_folder_of_others_is_refused_and_left_alone(fresh: Site, tmp_path: Path) -> None:
    out = tmp_path / "theirs"
    out.mkdir()
    (out / "thesis.tex").write_text("precious")
    with pytest.raises(Misuse, match="not empty and not a site"):
        build_site(Store(str(tmp_path / "none")), out)
    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]
    with pytest.raises(Misuse, match="is a file"):
        build_site(Store(str(tmp_path / "none")), out / "thesis.tex")


@pytest.mark.slow
def test_building_again_keeps_what_others_put_there_and_drops_what_is_gone(small: Store, tmp_path: Path) -> None:
    out = tmp_path / "site"
    build_site(small, out)
    (out / "CNAME").write_text("boards.example")
    (out / "models" / "mine.html").write_text("mine")
    empty = Store(str(tmp_path / "none"))
    build_site(empty, out)
    assert (out / "CNAME").read_text() == "boards.example"
    assert [path.name for path in (out / "models").iterdir()] == ["mine.html"]
    assert not (out / "boards/data").exists() or not list((out / "boards/data").rglob("resnet18.js"))
    (out / "models" / "resnet18.html").write_text("also mine")
    with pytest.raises(Misuse, match="in the way and not ours"):
        build_site(small, out)
    assert (out / "models" / "resnet18.html").read_text() == "also mine"


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "a/../../b", "c:\\x", "", "a\0b"])
def test_a_mark_that_names_a_file_outside_is_refused(tmp_path: Path, name: str) -> None:
    out = tmp_path / "site"
    out.mkdir()
    victim = tmp_path / "victim"
    victim.write_text("here")
    (out / site_folder.MARK).write_text(json.dumps({"kind": site_folder.KIND, "files": {name: "x"}, "reports": {}}))
    with pytest.raises(Misuse, match="not inside the site"):
        site_folder.write([("index.html", b"x")], out)
    assert victim.read_text() == "here"


def test_a_link_inside_the_site_is_not_followed_out(tmp_path: Path) -> None:
    out, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    site_folder.write([("index.html", b"x"), ("models/a.html", b"a")], out)
    elsewhere.mkdir()
    (out / "models/a.html").unlink()
    (out / "models").rmdir()
    (out / "models").symlink_to(elsewhere)
    with pytest.raises(Misuse, match="leads out of the site"):
        site_folder.write([("index.html", b"y"), ("models/a.html", b"b")], out)
    assert list(elsewhere.iterdir()) == []


@pytest.mark.slow
def test_reports_that_would_not_change_are_taken_over(small: Store, tmp_path: Path) -> None:
    out = tmp_path / "site"
    assert build_site(small, out).reused == 0
    first = (out / "models/resnet18.html").read_bytes()
    assert build_site(small, out).reused == 1
    (out / "models/resnet18.html").write_text("tampered")
    assert build_site(small, out).reused == 0
    assert (out / "models/resnet18.html").read_bytes() == first
    add(small, 0.4, fog(5), model="resnet18")
    assert build_site(Store(small.url), out).reused == 0


@pytest.mark.slow
def test_the_same_store_gives_the_same_bytes(small: Store, tmp_path: Path) -> None:
    one, other = build_site(small, tmp_path / "one" / "site"), build_site(small, tmp_path / "other" / "site")
    assert one.files == other.files


def test_a_report_of_the_site_links_back_to_its_boards(small: Store, tmp_path: Path) -> None:
    build_site(small, tmp_path / "site")
    page = (tmp_path / "site/models/resnet18.html").read_text()
    assert f'href="../boards/{SUITE}.html"' in page
    assert "incomplete" in page


def test_a_report_beside_hundreds_names_a_few(store: Store) -> None:
    footers = {
        f"m{i}": [add(store, 0.5, model=f"m{i}"), *([add(store, 0.4, fog(1), model=f"m{i}")] if i > 6 else [])]
        for i in range(9)
    }
    assert building._beside("m8", footers) == ["m7", "m0", "m1", "m2", "m3"]


def test_without_plotly_the_boards_are_built_and_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "_plotly", lambda: None)
    site = build_site(Store(str(tmp_path / "none")), tmp_path / "site")
    assert any(page.plots for page in site.boards)
    page = (site.out / "boards/imagenet-testbed.html").read_text()
    assert "plotly is not installed" in page
    assert "data-plot" not in page
    assert "assets/plotly.min.js" not in site.files


@pytest.mark.slow
def test_a_suite_of_ones_own_has_its_board(small: Store, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('title = "Mine"\ndataset = "cifar10"\n[[board]]\nname = "clean"\nscenarios = ["{dataset}"]\n')
    site = build_site(small, tmp_path / "site", own=[str(path)])
    rows = data_of(site, "mine")["rows"]
    assert [(row["model"], row["rank"], row["cells"][0]["text"]) for row in rows] == [("resnet18", 1, "90.0")]
    with pytest.raises(Misuse, match="etc/passwd"):
        build_site(small, tmp_path / "site", own=["../../etc/passwd"])


def test_the_stamp_changes_with_the_store_alone(small: Store) -> None:
    before = stamp(small)
    assert stamp(Store(small.url)) == before
    SiteStore(small).footers()
    assert stamp(small) == before
    add(small, 0.2, fog(4))
    assert stamp(small) != before


@given(st.text(max_size=200), st.text(max_size=200))
def test_a_slug_is_plain_and_keeps_names_apart(one: str, other: str) -> None:
    assert re.fullmatch(r"[a-z0-9-]([a-z0-9.-]*[a-z0-9-])?", slug(one))
    assert ".." not in slug(one)
    assert len(slug(one)) <= 90
    assert (slug(one) == slug(other)) == (one == other)


def test_plain_names_are_their_own_slug() -> None:
    assert slug("resnet-18.a1") == "resnet-18.a1"
    assert slug("ResNet18") != slug("resnet18")
    assert slug("con") != "con"
    assert slug(slug("ResNet18")) != slug("ResNet18")


@given(
    st.recursive(
        st.text() | st.floats() | st.integers() | st.none() | st.booleans(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
        max_leaves=8,
    )
)
def test_inline_json_is_json_without_a_sign_of_html(value: object) -> None:
    text = str(inline_json(value))
    assert not set(text) & set("<>&\u2028\u2029")
    json.loads(text)


def test_a_script_keeps_its_value_under_its_place() -> None:
    assert script("a/b", {"x": 1}) == '(globalThis.holdfast ??= {})["a/b"] = {"x":1};\n'


@pytest.mark.parametrize(
    ("source", "address"),
    [
        ("arXiv:2310.12793, Table 1", "https://arxiv.org/abs/2310.12793"),
        ("see doi:10.1000/182, page 3", "https://doi.org/10.1000/182"),
        ("javascript:alert(1)", None),
        ("measured here", None),
    ],
)
def test_a_source_names_its_paper(source: str, address: str | None) -> None:
    assert paper(source) == address
