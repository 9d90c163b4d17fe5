"""The reliability diagram shows the bins of the calibration error."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from holdfast.metrics.calibration_error import calibration_error
from holdfast.site.reliability import diagram, diagrams, told
from holdfast.site.report import report_html
from holdfast.store import Footer, Rows, Store


def test_every_bin_is_a_point_at_its_confidence_and_accuracy() -> None:
    confidence = np.array([0.3, 0.3, 0.9, 0.95])
    error = calibration_error(confidence, np.array([True, False, True, True]), bins=10)
    root = ET.fromstring(str(diagram(error, name="d", title="t", width=300)))
    marks = [node for node in root.iter("circle") if node.get("class") == "mark"]
    # the frame is 254 wide from 34 on and 246 high from 10 on
    positions = [(float(mark.get("cx", "")), float(mark.get("cy", ""))) for mark in marks]
    expected = [(34 + 254 * x, 10 + 246 * (1 - y)) for x, y in ((0.3, 0.5), (0.9, 1.0), (0.95, 1.0))]
    assert [number for position in positions for number in position] == pytest.approx(np.ravel(expected), abs=0.06)
    assert "plain 13.8 %, n = 4" in told(error)  # (2 · 0.2 + 0.1 + 0.05) / 4


def test_a_report_draws_undisturbed_runs_that_have_confidences(
    tmp_path: Path, rows_for: Callable[..., Rows], footer_for: Callable[..., Footer]
) -> None:
    store = Store(str(tmp_path))
    rows = rows_for([True] * 15 + [False] * 5, footer=footer_for(population=20))
    store.finish([rows], rows.ids, rows.footer)
    (made,) = diagrams(store, [rows.footer])
    assert made.label == "d"
    text = report_html(store, "m")
    assert 'id="reliability"' in text
    assert made.text in text
    assert str(made.drawing) in text
