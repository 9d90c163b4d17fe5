"""What the browser tests share: the browser, and rows made up for pages."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--use-angle=swiftshader",  # 3-D without a GPU
    "--enable-unsafe-swiftshader",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium; where it is missing tests are skipped, but never in CI."""
    if not CHROMIUM.exists():
        missing = f"{CHROMIUM} is not installed: apt-get install -y chromium"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def synthetic() -> Any:
    """The module of made-up rows that the unit tests of the site use."""
    path = Path(__file__).parents[1] / "unit" / "site" / "synthetic.py"
    spec = importlib.util.spec_from_file_location("synthetic_rows", path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made
