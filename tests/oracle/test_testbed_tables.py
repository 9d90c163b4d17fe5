"""The ImageNet testbed's two tables, from its public results, against what the paper prints."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from holdfast.store.published import unread
from holdfast.trends import testbed
from holdfast.trends.bands import band
from holdfast.trends.column_fits import fit_columns
from holdfast.trends.fits import fit
from holdfast.trends.piecewise import Piecewise, fit_trend
from holdfast.trends.robustness import effective_robustness

ROOT = Path(__file__).parents[2]
PUBLISHED = Path(os.environ.get("HOLDFAST_PUBLISHED", ROOT.parent / "shared" / "published"))

pytestmark = pytest.mark.skipif(
    not (PUBLISHED / "imagenet-testbed").is_dir(), reason="the public results of the ImageNet testbed are not here"
)


@pytest.fixture(scope="module")
def results(page):
    return page.read_testbed(PUBLISHED)


def test_the_line_is_that_of_78_standard_models(results) -> None:
    assert results.values.shape == (204, 213)
    line = testbed.line_of_table_1(results)
    assert line.n == 78
    # six decimals are what is known of them
    assert line.slope == pytest.approx(0.921696, abs=5e-7)
    assert line.intercept == pytest.approx(-0.494671, abs=5e-7)
    assert line.pearson == pytest.approx(0.99827, abs=5e-6)


def test_table_1_is_exact_to_two_decimals(page, results) -> None:
    cells = page.table_1_cells(results)
    exact = {name: sum(cell.is_exact for cell in cells if cell.column == name) for name in page.COLUMNS}
    assert exact["imagenet"] >= 191
    assert exact["imagenetv2-effective-robustness"] >= 186
    assert exact["average-corruptions"] >= 195
    assert exact["average-pgd"] >= 174
    # one printed average has a missing cell in the public results
    wrong = [(cell.row, cell.column) for cell in cells if not cell.is_exact]
    assert wrong == [("BiT-M-R101x1-ILSVRC2012", "average-pgd")]


def test_every_legible_cell_of_table_2_is_exact(page, results) -> None:
    cells = page.table_2_cells(results)
    assert len(cells) >= 270
    assert [cell for cell in cells if not cell.is_exact] == []


def test_an_average_has_39_terms_and_none_with_a_missing_cell(results) -> None:
    groups = testbed.corruption_groups(results.settings)
    assert len(groups) + len(testbed.RENDERED) == 39
    assert {len(found) for found in groups.values()} == {5}
    full = testbed.with_averages(results)
    gaps = np.isnan(results.values[:, [results.settings.index(name) for found in groups.values() for name in found]])
    assert np.isnan(full.column(testbed.AVERAGE_CORRUPTION))[gaps.any(axis=1)].all()


def test_imagenet_a_splits_at_the_model_it_was_chosen_against(page, results) -> None:
    pair, standard = testbed.NATURAL["ImageNet-A"], testbed.standard_models(results)
    line = fit_trend(results, pair.y, pair.x, models=standard, zero="piecewise")
    assert isinstance(line, Piecewise)
    assert line.pivot_models == ("resnet50",)
    # a clipped logit does not reproduce the printed column
    clipped = fit(results, pair.y, pair.x, models=standard, zero="clip", clip_at=0.5 / 7500)
    kept = [results.fact(name, "type") != "STANDARD" for name in results.models]
    beyond = effective_robustness(clipped, results)[kept]
    full = testbed.with_averages(results)
    other = effective_robustness(fit(full, "brightness_on-disk", testbed.VAL, models=standard), full)[kept]
    both = np.isfinite(beyond) & np.isfinite(other)
    printed = {(cell.row, cell.column): cell.printed for cell in page.table_2_cells(results)}
    assert abs(np.corrcoef(beyond[both], other[both])[0, 1] - printed["brightness_on-disk", "imagenet-a"]) > 0.02


def test_all_settings_at_once_are_the_same_lines(results) -> None:
    standard = testbed.standard_models(results)
    together = fit_columns(results, testbed.VAL, models=standard, zero="drop")
    line = testbed.line_of_table_1(results)
    j = results.settings.index(testbed.V2)
    assert (together.slope[j], together.intercept[j]) == pytest.approx((line.slope, line.intercept), abs=1e-10)
    assert dict(zip(together.settings, together.at_edge, strict=True))["imagenet-a"] == 1
    assert together.at_edge.sum() == 1


def test_the_band_of_the_published_line_is_narrow_where_the_models_are(results) -> None:
    around = band(testbed.line_of_table_1(results), np.array([0.60, 0.75, 0.90]))
    width = 100 * (around.high - around.low)
    assert width[1] < 0.3
    assert width[1] < width[0]
    assert width[1] < width[2]


def test_what_was_left_out_is_on_the_page_with_what_the_file_says(page, results) -> None:
    notes = unread("imagenet-testbed")
    section = page.testbed_section(results)
    assert len(notes) == 20
    assert all(any(line.startswith(f"| {note.model} |") and note.note in line for line in section) for note in notes)
    # a reading that agrees with the file would have no reason to be left out
    ours = {(row.model, "imagenet"): 100 * row.accuracy for row in testbed.table_1(results)}
    ours |= {(row.model, "average-pgd"): 100 * row.pgd for row in testbed.table_1(results)}
    readings = {
        (note.model, note.setting): float(note.note.removeprefix("reads ").split(",")[0])
        for note in notes
        if note.note.startswith("reads ") and (note.model, note.setting) in ours
    }
    assert len(readings) == 8
    assert not any(abs(ours[key] - value) < 0.0051 for key, value in readings.items())
