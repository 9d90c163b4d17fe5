"""docs/reproduction.md: every number on it again, and the page as the script makes it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.store.importers import read_results

PUBLISHED = Path(os.environ.get("HOLDFAST_PUBLISHED", Path(__file__).parents[3] / "shared" / "published"))
FOLDERS = ("imagenet-testbed", "multirobustbench", "oodrobustbench", "cifar10.1-predictions")

pytestmark = pytest.mark.skipif(
    not all((PUBLISHED / name).is_dir() for name in FOLDERS), reason="the public results are not all here"
)


def test_every_printed_number_of_multirobustbench_is_exact(page) -> None:
    results = page.read_defences(PUBLISHED)
    cells, single = page.defence_cells(results), page.single_cells(results)
    assert [cell for cell in (*cells, *single) if not cell.is_exact] == []
    assert (len(cells), len(single)) == (34, 2)
    assert [cell.row for cell in single] == ["rebuffi2021-linf", "laidlaw2021-lpips"]


def test_ood_is_as_printed_in_101_rows(page) -> None:
    boards = read_results("oodrobustbench", PUBLISHED / "oodrobustbench").scores
    cells = [cell for board in boards for cell in page.ood_cells(board.table, 0.005)]
    assert len(cells) == 101
    assert all(cell.is_exact for cell in cells)


def test_the_page_of_the_documents_is_fresh(page) -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.page(PUBLISHED), "run scripts/make_reproduction.py"
