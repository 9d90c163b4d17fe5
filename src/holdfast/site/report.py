"""The report of one model: a single HTML file to read, to send and to print, with nothing to load."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import re
import uuid
from pathlib import Path

import jinja2
from markupsafe import Markup

from holdfast.core.errors import HoldfastError
from holdfast.site import wording
from holdfast.site.bars import bar
from holdfast.site.findings import findings
from holdfast.site.page import in_levels, page
from holdfast.site.specimens import data_uri
from holdfast.store.store import Store


def write_report(store: Store, model: str, out: Path, *, title: str | None = None) -> Path:
    """Writes the report and returns its path; into a folder it goes under the model's name."""
    text = report_html(store, model, title=title)
    path = Path(out) / file_name(model) if Path(out).is_dir() else Path(out)
    temporary = path.with_name(f".{path.name[:80]}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise HoldfastError(f"cannot write {path}: {error.strerror}", hint="choose another place with --out") from error
    return path


def report_html(store: Store, model: str, *, title: str | None = None) -> str:
    """The report as text; the same store gives the same text."""
    shown = page(findings(store, model), title=title)
    environment = _environment()
    style, script = (environment.loader.get_source(environment, name)[0] for name in ("page.css", "page.js"))  # type: ignore[union-attr]
    return environment.get_template("report.html.j2").render(
        page=shown,
        style=Markup(style),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def file_name(model: str) -> str:
    """What to call the report of a model: its name in letters that every disk allows."""
    return (re.sub(r"[^\w.-]+", "-", model).strip("-.")[:100] or "report") + ".html"


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("holdfast.site"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(w=wording, bar=bar, in_levels=in_levels, data_uri=data_uri)
    return environment
