"""What a page may load and run: the Content-Security-Policy of reports, of the site, and of its server.

Inline code runs only if its digest is listed here; libraries set styles through the DOM, which policies allow.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import hashlib
import importlib.util
import re
from functools import cache
from pathlib import Path

TEMPLATES = Path(__file__).parent / "templates"
EMPTY = ""  # plotly adds a style element without text and fills it by script
STYLE = re.compile(
    r"""createElement\("style"\);(\w+)\.id="[^"]*",\1\.textContent=('(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")"""
)


def csp_hash(text: str) -> str:
    """A text as a policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def plotly_script() -> Path | None:
    """The script that comes with the installed plotly."""
    spec = importlib.util.find_spec("plotly")
    path = Path(spec.origin).parent / "package_data/plotly.min.js" if spec and spec.origin else None
    return path if path is not None and path.is_file() else None


@cache
def library_styles() -> str:
    """The styles that plotly adds as it loads, such as that of its maps, by their digests."""
    path = plotly_script()
    texts = [EMPTY]
    for match in STYLE.finditer(path.read_text(encoding="utf-8")) if path is not None else ():
        with contextlib.suppress(ValueError, SyntaxError):  # left out, and so refused: no plot of ours needs it
            texts.append(ast.literal_eval(match[2]))
    return " ".join(map(csp_hash, texts))


@cache
def report_style() -> str:
    """The text between the style tags of a report."""
    return f"\n{(TEMPLATES / 'page.css').read_text(encoding='utf-8')}\n"


@cache
def report_script() -> str:
    return (TEMPLATES / "page.js").read_text(encoding="utf-8")


@cache
def report_policy() -> str:
    """A report loads nothing: its style, its script and its pictures are inside."""
    return (
        f"default-src 'none'; img-src data:; style-src {csp_hash(report_style())}; "
        f"script-src {csp_hash(report_script())}; base-uri 'none'; form-action 'none'"
    )


@cache
def site_policy() -> str:
    """A page of the site loads the files of the site, also where it is opened from a disk."""
    return (
        f"default-src 'none'; script-src 'self' file:; style-src 'self' file: {library_styles()}; "
        "img-src 'self' file: data: blob:; font-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'"
    )


@cache
def server_policy() -> str:
    """Both kinds of page, as the server's header has it; the policy inside a page restricts it further."""
    return (
        f"default-src 'self' data: blob:; script-src 'self' {csp_hash(report_script())}; "
        f"style-src 'self' {csp_hash(report_style())} {library_styles()}; "
        "base-uri 'none'; form-action 'none'; object-src 'none'; frame-ancestors 'none'"
    )
