"""What pages may run: nothing inline but what the policy names by its digest."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import pytest

from holdfast.site.build import build_site
from holdfast.site.policy import plotly_script, report_policy, server_policy, site_policy
from holdfast.site.report import report_html
from holdfast.store import Store

INLINE = re.compile(r"<(style|script)((?:\s[^>]*)?)>(.*?)</\1>", re.DOTALL)


def digest_of(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@pytest.mark.parametrize("policy", [report_policy(), site_policy(), server_policy()])
def test_no_policy_lets_anything_inline_run(policy: str) -> None:
    assert "unsafe" not in policy
    assert "style-src" in policy
    assert "script-src" in policy


def test_what_stands_inside_a_page_is_what_its_policy_names(tmp_path: Path, rows_for: object) -> None:
    store = Store(str(tmp_path / "store"))
    store.add_rows(rows_for([True, False] * 5))  # type: ignore[operator]
    build_site(store, tmp_path / "site")
    pages = [*(tmp_path / "site").rglob("*.html")]
    assert len(pages) > 2
    for page in [*(path.read_text() for path in pages), report_html(store, "m")]:
        (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
        assert "unsafe" not in policy
        assert not re.search(r"<[a-z]+\s[^>]*(?<![-\w])(style|on[a-z]+)=", page), "attributes that a policy cannot name"
        for kind, attributes, text in INLINE.findall(page):
            if "src=" in attributes or "application/json" in attributes:
                continue
            assert digest_of(text) in policy, f"an inline {kind} that its own policy refuses"
            assert digest_of(text) in server_policy(), f"an inline {kind} that the server's policy refuses"


def test_the_policy_knows_the_style_that_plotly_adds() -> None:
    path = plotly_script()
    assert path is not None
    if 'createElement("style");' in path.read_text(encoding="utf-8"):
        assert site_policy().count("sha256-") == 2
