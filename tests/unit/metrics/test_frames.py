from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.registry import registry
from holdfast.metrics.accuracy import accuracy
from holdfast.metrics.frames import FrameId, frame_of, pm_k
from holdfast.store import Rows

MakeRows = Callable[..., Rows]


def whole(make: MakeRows, right: dict[str, bool], **more: object) -> Rows:
    rows = make(list(right.values()), ids=list(right), **more)
    return Rows(rows.table, replace(rows.footer, population=len(right)))


def test_an_id_is_read_as_anchor_distance_and_classes() -> None:
    assert frame_of("ILSVRC2015_val_1/000442/000432") == FrameId("ILSVRC2015_val_1/000442", 10, frozenset())
    assert frame_of("a_1_2/frame-9/frame-11|3|21") == FrameId("a_1_2/frame-9", 2, frozenset({3, 21}))
    for other in ("test-00042", "n01440764/ILSVRC2012_val_1.JPEG", "class/name_3", "12/34"):
        assert frame_of(other) is None, other


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # the fixture only makes rows
@given(wrong=st.sets(st.sampled_from([(anchor, frame) for anchor in range(3) for frame in range(40, 61)])))
def test_an_anchor_counts_if_it_and_all_frames_within_k_are_right(
    rows_for: MakeRows, wrong: set[tuple[int, int]]
) -> None:
    frames = [(anchor, frame) for anchor in range(3) for frame in range(40, 61)]
    rows = whole(rows_for, {f"v{a}/50/{f}": (a, f) not in wrong for a, f in frames})
    shares = []
    for k in (0, 1, 5, 10):
        expected = sum(not any(a == anchor and abs(f - 50) <= k for a, f in wrong) for anchor in range(3))
        score = pm_k(rows, k)
        assert (score.value, score.n) == (pytest.approx(expected / 3), 3)
        shares.append(score.value)
    assert shares == sorted(shares, reverse=True), "more frames can only break more"


def test_any_of_several_classes_is_right(rows_for: MakeRows) -> None:
    logits = np.zeros((3, 10), np.float32)
    logits[:, 4] = 1
    ids = ["v/5/5|4", "v/5/6|2|4", "w/5/5|3"]
    rows = rows_for([False] * 3, ids=ids, labels=np.array([1, 1, 1]), logits=logits)
    score = pm_k(Rows(rows.table, replace(rows.footer, population=3)), 1)
    assert (score.value, score.n) == (0.5, 2)


def test_images_that_are_no_frames_stand_alone(rows_for: MakeRows) -> None:
    assert pm_k(rows_for([True, False]), 10) == accuracy(rows_for([True, False]))


def test_a_part_of_the_frames_is_refused(rows_for: MakeRows) -> None:
    rows = rows_for([True], ids=["v/5/5"])
    with pytest.raises(HoldfastError, match=r"pm-3 needs every frame, run \w+ has 1 of 10"):
        pm_k(rows, 3)
    with pytest.raises(HoldfastError, match="the frames around w/5 have no anchor"):
        pm_k(whole(rows_for, {"v/5/5": True, "w/5/6": True}), 3)


def test_it_is_a_metric_by_name(rows_for: MakeRows) -> None:
    rows = whole(rows_for, {"v/5/5": True, "v/5/6": False})
    assert [registry.build(registry.bind("metric", f"pm-k:k={k}"))(rows).value for k in (0, 10)] == [1, 0]
    with pytest.raises(Misuse, match="`k` is 0 or more"):
        registry.build(registry.bind("metric", "pm-k:k=-1"))
