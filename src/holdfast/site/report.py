"""The report of one model: a single HTML file to read, to send and to print, with nothing to load."""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import jinja2
from markupsafe import Markup

from holdfast.boards.board_text import cell_text
from holdfast.core.errors import HoldfastError
from holdfast.core.json_text import json_text
from holdfast.site import wording
from holdfast.site.bars import bar
from holdfast.site.conditions import in_levels
from holdfast.site.model_results import model_results
from holdfast.site.page import page
from holdfast.site.policy import report_policy, report_script, report_style, site_policy
from holdfast.site.reliability import diagrams
from holdfast.site.shown_samples import data_uri
from holdfast.store.store import Store

ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


class BoardRank(NamedTuple):
    """A board that lists the model, as the report links to it, with the rank of the model there."""

    title: str
    href: str
    standing: str

    def seen_from(self, root: str) -> BoardRank:
        """The same link from another folder of the site."""
        return self._replace(href=root + self.href.removeprefix("../"))


def write_report(store: Store, model: str, out: Path, *, title: str | None = None) -> Path:
    """Writes the report and returns its path; into a folder it goes under the model's name."""
    text = report_html(store, model, title=title)
    path = Path(out) / report_file_name(model) if Path(out).is_dir() else Path(out)
    temporary = path.with_name(f".{path.name[:80]}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise HoldfastError(f"cannot write {path}: {error.strerror}", hint="choose another path with --out") from error
    return path


def report_html(
    store: Store,
    model: str,
    *,
    title: str | None = None,
    board_ranks: Sequence[BoardRank] | None = None,
    beside: Collection[str] | None = None,
) -> str:
    """The report as text; the same store gives the same text.

    `places` makes it a page of a site, with links to its boards; `beside` are the models to compare with, all if None.
    """
    results = model_results(store, model, beside=beside)
    if board_ranks is not None:  # a published page does not show local paths
        results = replace(results, store="")
    return (
        template_environment()
        .get_template("report.html.j2")
        .render(
            page=page(results, title=title),
            board_ranks=board_ranks,
            reliability=diagrams(store, [run.footer for run in results.runs]),
            policy=Markup(report_policy()),
            style=Markup(report_style()),
            script=Markup(report_script()),
        )
    )


def report_file_name(model: str) -> str:
    """What to call the report of a model: its name in letters that every disk allows."""
    return (re.sub(r"[^\w.-]+", "-", model).strip("-.")[:100] or "report") + ".html"


@cache
def template_environment() -> jinja2.Environment:
    """The templates of all pages."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("holdfast.site"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(
        w=wording,
        bar=bar,
        in_levels=lambda run: in_levels(run.footer),
        data_uri=data_uri,
        cell_text=cell_text,
        inline_json=inline_json,
        site_policy=Markup(site_policy()),
    )
    made.filters["ticked"] = _ticked
    return made


def inline_json(value: object) -> Markup:
    """JSON for `<script type="application/json">`: a name cannot close the element or open a comment."""
    return Markup(json_text(value, compact=True).translate(ESCAPES))


def _ticked(text: str) -> Markup:
    """Text with the parts between backticks set as code."""
    parts = str(text).split("`")
    return Markup("").join(Markup("<code>{}</code>").format(one) if i % 2 else one for i, one in enumerate(parts))
