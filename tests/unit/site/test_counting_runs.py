"""A model has as many runs on every page, and in the terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from synthetic import add, fog, pgd, sweep

from holdfast.site.build import build_site
from holdfast.store.store import Store

pytestmark = pytest.mark.slow  # half a minute in all

RUNS = re.compile(r'class="num">(\d+)</td>')


def counts(store: Store, folder: Path, run: Callable[..., Any], model: str = "resnet18") -> tuple[int, int, int]:
    """On the index, in the header of the report, and by `holdfast status`."""
    build_site(store, folder)
    index = (folder / "index.html").read_text()
    row = index[index.index(f">{model}</a>") :]
    report = (folder / f"models/{model}.html").read_text()
    header = re.search(r"(\d+) runs? on", report)
    assert header is not None
    status = json.loads(run("status", "--store", store.url, "--json").out)
    mine = [one for one in status["runs"] if one["model"] == model and one["state"] == "done"]
    found = RUNS.search(row)
    assert found is not None
    return int(found[1]), int(header[1]), len(mine)


@pytest.mark.parametrize("extra", ["nothing", "a smaller choice", "a sweep", "another dataset", "another model"])
def test_runs_are_counted_alike(store: Store, tmp_path: Path, run: Callable[..., Any], extra: str) -> None:
    add(store, 0.9)
    add(store, 0.5, fog(1))
    add(store, 0.3, pgd(8 / 255))
    if extra == "a smaller choice":
        add(store, 0.5, n=50, family="one")
        add(store, 0.6, family="one")
    elif extra == "a sweep":
        add(store, 0, sweep((0.1, 0.2)), radii=[0.0, 0.1, 0.2, float("inf")] * 50)
    elif extra == "another dataset":
        add(store, 0.5, dataset="cifar10.1")
    elif extra == "another model":
        add(store, 0.5, model="vit")
    expected = {"nothing": 3, "a smaller choice": 5, "a sweep": 4, "another dataset": 4, "another model": 3}[extra]
    assert counts(store, tmp_path / "site", run) == (expected,) * 3


def test_a_report_says_how_many_runs_it_shows(store: Store, tmp_path: Path, run: Callable[..., Any]) -> None:
    add(store, 0.5, n=50, family="one")
    add(store, 0.6, family="one")
    counts(store, tmp_path / "site", run)
    text = (tmp_path / "site/models/resnet18.html").read_text()
    assert "2 runs on 1 dataset, 1 of them shown" in text
    assert "1 more run of the same measurements on fewer samples is not shown." in text
