"""Adversarial ratio and shift ratio as functions of rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.metrics.accuracy import accuracy
from holdfast.metrics.along_ratios import adversarial_ratio, shift_ratio
from holdfast.store import Footer, Rows

RowsFor = Callable[..., Rows]
FooterFor = Callable[..., Footer]
SHARES = (0.0, 0.1, 0.25, 0.5, 0.8, 1.0)


def runs(rows: Rows) -> list[str]:
    """Which scenario every row comes from."""
    return rows.table.column("scenario").to_pylist()


@pytest.fixture
def pair(rows_for: RowsFor, footer_for: FooterFor) -> Callable[..., tuple[Rows, Rows]]:
    """The same samples under two scenarios: all right in the first, all wrong in the second."""

    def make(n: int, **second: object) -> tuple[Rows, Rows]:
        ids = [f"s{i:02}" for i in range(n)]
        labels = np.arange(n) % 10
        one = rows_for([True] * n, footer=footer_for(scenario="clean"), ids=ids, labels=labels)
        other = rows_for(
            [False] * n, footer=footer_for(scenario="changed"), **({"ids": ids, "labels": labels} | second)
        )
        return one.sealed(one.footer), other.sealed(other.footer)

    return make


@pytest.mark.parametrize("ratio", SHARES)
def test_the_largest_perturbations_are_taken_back(pair, ratio: float) -> None:
    sizes = np.random.default_rng(0).permutation(20).astype(np.float32)
    clean, attacked = pair(20, sizes=sizes)
    mixed = adversarial_ratio(clean, attacked, ratio)
    kept = [name == "changed" for name in runs(mixed)]
    assert kept == (sizes < round(20 * ratio)).tolist()  # sizes are 0 … 19
    assert accuracy(mixed).value == pytest.approx(1 - ratio)
    assert mixed.ids == attacked.ids


def test_of_equal_sizes_the_later_sample_comes_back_and_one_without_a_size_first(pair) -> None:
    clean, attacked = pair(4, sizes=np.array([1, np.nan, 1, 1], np.float32))
    assert runs(adversarial_ratio(clean, attacked, 0.75)) == ["changed", "clean", "changed", "changed"]
    assert runs(adversarial_ratio(clean, attacked, 0.5)) == ["changed", "clean", "changed", "clean"]


@pytest.mark.parametrize("ratio", SHARES)
def test_the_first_samples_are_unshifted_and_the_rest_shifted(pair, ratio: float) -> None:
    reference, shifted = pair(20)
    mixed = shift_ratio(reference, shifted, ratio)
    count = round(20 * ratio)
    assert runs(mixed) == ["clean"] * (20 - count) + ["changed"] * count
    assert mixed.correct.tolist() == [True] * (20 - count) + [False] * count
    assert mixed.footer.facts["shift ratio"] == str(ratio)
    assert mixed.footer.facts["mixed with"] == reference.footer.key


@given(st.permutations(range(8)), st.sampled_from(SHARES))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rows_are_paired_by_id_whatever_their_order(pair, order: list[int], ratio: float) -> None:
    sizes = np.arange(8, dtype=np.float32)
    ids, labels = [f"s{i:02}" for i in order], np.asarray(order) % 10
    clean, straight = pair(8, sizes=sizes)
    _, mixed_up = pair(8, sizes=sizes[order], ids=ids, labels=labels)
    for mix in (adversarial_ratio, shift_ratio):
        one, other = mix(clean, straight, ratio), mix(clean, mixed_up, ratio)
        assert dict(zip(one.ids, runs(one), strict=True)) == dict(zip(other.ids, runs(other), strict=True))
    assert shift_ratio(clean, mixed_up, ratio).ids == clean.ids


def test_rows_that_do_not_belong_together_are_refused(pair, rows_for: RowsFor, footer_for: FooterFor) -> None:
    clean, attacked = pair(4, sizes=np.ones(4, np.float32))
    for mix in (adversarial_ratio, shift_ratio):
        with pytest.raises(HoldfastError, match="1 of 4 samples are not in run"):
            mix(clean, pair(4, ids=["s00", "s01", "s02", "other"], sizes=np.ones(4, np.float32))[1], 0.5)
        with pytest.raises(HoldfastError, match="has 4 samples, run"):
            mix(*((pair(5)[0], attacked) if mix is adversarial_ratio else (clean, pair(5)[1])), 0.5)
        with pytest.raises(HoldfastError, match="other labels"):
            mix(clean, pair(4, labels=np.ones(4, np.int64), sizes=np.ones(4, np.float32))[1], 0.5)
        with pytest.raises(Misuse, match=r"must lie in \[0, 1\]"):
            mix(clean, attacked, 1.5)
        stranger = rows_for([True] * 4, footer=footer_for(model="another"), ids=clean.ids, labels=clean.labels)
        with pytest.raises(HoldfastError, match="two models"):
            mix(stranger, attacked, 0.5)
    with pytest.raises(HoldfastError, match="has the size of a perturbation"):
        adversarial_ratio(clean, pair(4)[1], 0.5)
