"""The site: an index, a board per suite, the report of every measured model, and all they load, as plain files."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import holdfast
from holdfast.boards.board_list import BrokenSuite, board_suites, filled_by
from holdfast.boards.board_text import board_latex, records
from holdfast.core.errors import HoldfastError
from holdfast.core.json_text import json_text
from holdfast.core.suites import Suite
from holdfast.site import site_folder, wording
from holdfast.site.addresses import paper, slug
from holdfast.site.board_pages import BoardPage, board_page
from holdfast.site.policy import plotly_script as _plotly
from holdfast.site.report import BoardRank, inline_json, report_html, template_environment
from holdfast.store import Footer, Store
from holdfast.store.exporting import csv_text
from holdfast.store.site_store import SiteStore, stamp

HERE = Path(__file__).parent
STYLES_AND_SCRIPTS = {
    "page.css": HERE / "templates/page.css",
    "site.css": HERE / "static/site.css",
    "board.js": HERE / "static/board.js",
    "tabulator.min.js": HERE / "vendor/tabulator/tabulator.min.js",
    "tabulator.min.css": HERE / "vendor/tabulator/tabulator_simple.min.css",
    "tabulator.LICENSE.txt": HERE / "vendor/tabulator/LICENSE",
}
PLOTS = {"plots.js": HERE / "static/plots.js", "plots.css": HERE / "static/plots.css"}
SOURCE_MAP = re.compile(rb"\n?(//|/\*)# sourceMappingURL=\S+( \*/)?\s*$")
TAIL = 200  # bytes at the end, where a script names a map that is not shipped
NEWEST = 12
BESIDE = 5  # other models on a report: as many as its charts have letters for
NO_PLOTLY = "The plots are left out: plotly is not installed. `pip install plotly`, then make the pages again."


@dataclass(frozen=True, slots=True)
class IndexedModel:
    """A model on the index that the store has rows of: measured here, or imported as predictions of others."""

    name: str
    runs: int
    newest: str
    board_ranks: tuple[BoardRank, ...]
    file: str | None
    problem: str | None
    is_imported: bool = False


@dataclass(slots=True)
class Site:
    """What was built, and what could not be: `problems` by file of the store, `failed` by board or model."""

    out: Path
    stamp: str
    boards: list[BoardPage] = field(default_factory=list)
    models: list[IndexedModel] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    reused: int = 0
    lacks_files: bool = False
    files: Mapping[str, str] = field(default_factory=dict)

    def record(self) -> dict[str, object]:
        return {
            "index": str(self.out / "index.html"),
            "boards": {page.board.suite: len(page.board.entries) for page in self.boards},
            "models": {model.name: model.file for model in self.models},
            "files": len(self.files),
            "problems": self.problems,
            "failed": self.failed,
        }


def build_site(
    store: Store, out: Path, *, own: Sequence[str] = (), before: Path | None = None, is_live: bool = False
) -> Site:
    """Builds the site of a store into a folder; a store that is not there yet gives what the papers print.

    `own` are suite files besides those of the package. Reports that would not change are taken from `before`, the site
    in `out` if not given. `is_live` makes pages that look for newer ones.
    """
    earlier = before or out
    known = site_folder.contents(earlier) or site_folder.SiteContents()
    site_folder.contents(out)
    site = Site(out, stamp(store))
    reading = SiteStore(store)
    maker = _Maker(site, reading, own, earlier, known, is_live)
    site.files = site_folder.write(maker.files(), out, reports=maker.reports).files
    site.lacks_files = reading.lacks_files
    return site


@dataclass(slots=True)
class _Maker:
    """Makes the files of a site, one after the other."""

    site: Site
    store: SiteStore
    own: Sequence[str]
    earlier: Path
    known: site_folder.SiteContents
    is_live: bool
    reports: dict[str, str] = field(default_factory=dict)

    def files(self) -> Iterator[tuple[str, bytes]]:
        site, store = self.site, self.store
        store.scores()
        for suite in self._suites():
            try:
                site.boards.append(board_page(suite, store))
            except HoldfastError as error:
                site.failed[suite.title] = error.problem
        site.problems = store.problems
        for page in site.boards:
            yield from self._board(page)
        yield from self._models()
        yield from self._assets()
        yield "about.html", self._page("about.html.j2", "about.html", boards=site.boards)
        yield "index.html", self._index()
        if self.is_live:
            yield "build.json", json_text({"stamp": site.stamp}).encode()

    def _suites(self) -> Iterator[Suite]:
        for suite in board_suites(self.store, own=self.own):
            if isinstance(suite, BrokenSuite):
                self.site.failed[suite.name] = suite.problem
            else:
                yield suite

    def _board(self, page: BoardPage) -> Iterator[tuple[str, bytes]]:
        name = page.name
        listed = records(page.board)
        about = {"suite": page.board.suite, "title": page.suite.title, "sort": page.board.sort}
        downloads = {
            "CSV": (f"{name}.csv", csv_text(listed)),
            "JSON": (f"{name}.json", _json(about, listed)),
            "LaTeX": (f"{name}.tex", board_latex(page.board)),
        }
        for file, text in downloads.values():
            yield f"downloads/{file}", _bytes(text)
        for key, origin in page.origins.items():
            yield f"boards/data/{key}.js", _bytes(script(key, origin))
        shown = page if _plotly() is not None else replace(page, plots=())
        made = self._page(
            "board.html.j2",
            page.file,
            page=shown,
            source=paper(page.suite.source),
            filled_by=filled_by(page.suite),
            downloads=[(kind, f"../downloads/{file}") for kind, (file, _) in downloads.items()],
            no_plots=NO_PLOTLY if page.plots and not shown.plots else "",
        )
        yield page.file, made

    def _models(self) -> Iterator[tuple[str, bytes]]:
        by_model: dict[str, list[Footer]] = {}
        for footer in self.store.scored_footers():
            by_model.setdefault(footer.model, []).append(footer)
        pictures = self.store.files.listing("gallery", ".parquet").stamps
        for model, footers in sorted(by_model.items()):
            board_ranks, file, problem = _board_ranks(self.site.boards, model), f"models/{slug(model)}.html", None
            beside = _beside(model, by_model)
            print_ = _print(
                [model, board_ranks], [*footers, *(f for other in beside for f in by_model[other])], pictures
            )
            try:
                yield file, self._report(file, print_, model, board_ranks, beside)
                self.reports[file] = print_
            except HoldfastError as error:
                self.site.failed[model] = problem = error.problem
            newest = max(footer.finished for footer in footers)
            on_index = tuple(rank.seen_from("") for rank in board_ranks)
            is_imported = all(footer.is_imported for footer in footers)
            known = None if problem else file
            self.site.models.append(IndexedModel(model, len(footers), newest, on_index, known, problem, is_imported))

    def _report(
        self, file: str, print_: str, model: str, board_ranks: Sequence[BoardRank], beside: Sequence[str]
    ) -> bytes:
        if self.known.reports.get(file) == print_ and (self.earlier / file).is_file():
            data = (self.earlier / file).read_bytes()
            if hashlib.sha256(data).hexdigest()[:16] == self.known.files.get(file):
                self.site.reused += 1
                return data
        return _bytes(report_html(self.store, model, board_ranks=board_ranks, beside=beside))

    def _assets(self) -> Iterator[tuple[str, bytes]]:
        assets = dict(STYLES_AND_SCRIPTS)
        if self.is_live:
            assets["live.js"] = HERE / "static/live.js"
        plotly = _plotly()
        if plotly is not None and any(page.plots for page in self.site.boards):
            assets |= {"plotly.min.js": plotly, **PLOTS}
        for name, path in assets.items():
            data = path.read_bytes()
            yield f"assets/{name}", data[:-TAIL] + SOURCE_MAP.sub(b"\n", data[-TAIL:])

    def _index(self) -> bytes:
        site, footers = self.site, self.store.scored_footers()
        latest = sorted(footers, key=lambda footer: (footer.finished, footer.key), reverse=True)[:NEWEST]
        entries = [entry for page in site.boards for entry in page.board.entries]
        return self._page(
            "index.html.j2",
            "index.html",
            boards=[page for page in site.boards if page.board.entries],
            empty=[(page, filled_by(page.suite)) for page in site.boards if not page.board.entries],
            first="quick" if "quick" in {page.suite.name for page in site.boards} else "SUITE",
            failed=site.failed,
            models=site.models,
            latest=latest,
            under_way=self.store.under_way,
            entries=len(entries),
            printed=sum("published" in entry.every_origin for entry in entries),
            measured=sum(not model.is_imported for model in site.models),
            newest=wording.period([latest[0].finished]) if latest else "",
            out_name=site.out.name or "site",
        )

    def _page(self, template: str, here: str, **words: object) -> bytes:
        made = template_environment().get_template(template)
        known = {
            "problems": self.site.problems,
            "version": holdfast.__version__,
            "live": self.site.stamp if self.is_live else "",
        }
        return _bytes(made.render(here=here, root="../" * here.count("/"), **known, **words))


def _board_ranks(boards: Sequence[BoardPage], model: str) -> tuple[BoardRank, ...]:
    """Where a measured model stands, as its report links to it."""
    ranks = []
    for page in boards:
        listed = [one for one in page.board.entries if model in one.names and one.has_rows]
        ranked = sum(one.rank is not None for one in page.board.entries) if listed else 0
        for entry in listed:
            standing = "incomplete" if entry.rank is None else f"{entry.rank} of {ranked}"
            ranks.append(BoardRank(page.suite.title, f"../{page.file}", standing))
    return tuple(ranks)


def _beside(model: str, by_model: Mapping[str, Sequence[Footer]]) -> list[str]:
    """The other models with most scenarios in common; a report against hundreds would say less, later."""
    own = {footer.scenario for footer in by_model[model]}
    common = {
        other: len(own & {footer.scenario for footer in theirs}) for other, theirs in by_model.items() if other != model
    }
    return sorted(common, key=lambda other: (-common[other], other))[:BESIDE]


def _print(words: object, footers: Sequence[Footer], pictures: Mapping[str, str]) -> str:
    """Changes with all that a report is made from."""
    summed = hashlib.sha256(f"{_code()} {words!r}".encode("utf-8", "surrogatepass"))
    for footer in sorted(footers, key=lambda one: one.key):
        summed.update(f"{footer.key} {footer.digest} {pictures.get(f'gallery/{footer.key}.parquet', '')}\n".encode())
    return summed.hexdigest()[:16]


@cache
def _code() -> str:
    """Changes with the code and the templates that make the pages."""
    files = [path for path in sorted(HERE.rglob("*")) if path.suffix in (".py", ".j2", ".css", ".js")]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def _json(about: Mapping[str, object], listed: Sequence[Mapping[str, object]]) -> str:
    """The board as `holdfast board --json` has it, one line per score."""
    lines = ",\n".join(json_text(record) for record in listed)
    return f'{json_text(about)[:-1]}, "scores": [\n{lines}\n]}}\n'


def script(name: str, value: object) -> str:
    """A script that keeps a value for the page that loads it; unlike fetch, this works from a file."""
    return f"(globalThis.holdfast ??= {{}})[{inline_json(name)}] = {inline_json(value)};\n"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")
