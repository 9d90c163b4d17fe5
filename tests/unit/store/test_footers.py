"""Whatever stands in a sealed footer, it is a footer or an error of ours, and a store goes on beside it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, fields, replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.core.errors import HoldfastError
from holdfast.core.types import ModelCard
from holdfast.metrics.summary import line_of
from holdfast.store import Footer
from holdfast.store.footer import OtherFormat
from holdfast.store.index import IndexEntry, index_from_bytes, index_to_bytes

ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = [field.name for field in fields(Footer)]
CARD = [field.name for field in fields(ModelCard)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(st.sampled_from(FIELDS), ANY, max_size=2), st.dictionaries(st.sampled_from(CARD), ANY, max_size=2)
)
def test_a_footer_of_odd_values_is_read_and_indexed_or_refused(
    footer_for: Callable[..., Footer], values: dict[str, object], card: dict[str, object]
) -> None:
    record = asdict(footer_for(key="k" * 20))
    record["card"] |= card
    try:
        footer = Footer.from_bytes(json.dumps(record | values).encode("utf-8", "surrogatepass"))
    except OtherFormat:
        return
    entries = {"rows/a.parquet": IndexEntry("stamp", footer)}
    (back,) = index_from_bytes(index_to_bytes(entries)).values()
    assert back.footer == footer or "nan" in repr(footer)
    line_of(footer)


@given(st.binary(max_size=60) | ANY.map(lambda value: json.dumps(value).encode("utf-8", "surrogatepass")))
def test_bytes_that_are_no_footer_are_refused(data: bytes) -> None:
    with pytest.raises(HoldfastError):
        Footer.from_bytes(data)


def test_a_footer_nested_beyond_measure_is_refused() -> None:
    with pytest.raises(OtherFormat):
        Footer.from_bytes(b'{"format": 1, "facts": ' + b"[" * 100_000 + b"]" * 100_000 + b"}")


def test_a_footer_before_the_first_sample_counts_nothing(footer_for: Callable[..., Footer]) -> None:
    footer = footer_for()
    assert (footer.n, footer.forwards, footer.backwards, footer.seconds, footer.format) == (0, 0, 0, 0.0, 1)
    assert (footer.right, footer.in_top5, footer.failed) == (None, None, None)


@pytest.mark.parametrize(("seed", "fits"), [((1 << 63) - 1, True), (1 << 63, False), (-(1 << 63), False)])
def test_numbers_of_a_footer_fit_a_column_of_64_bits(footer_for: Callable[..., Footer], seed: int, fits: bool) -> None:
    data = json.dumps(asdict(footer_for()) | {"seed": seed}).encode()
    if fits:
        assert Footer.from_bytes(data).seed == seed
    else:
        with pytest.raises(OtherFormat, match="`seed` is of another kind"):
            Footer.from_bytes(data)


def test_half_of_a_surrogate_pair_is_no_text(footer_for: Callable[..., Footer]) -> None:
    with pytest.raises(OtherFormat, match="surrogates"):
        Footer.from_bytes(json.dumps(asdict(footer_for()) | {"facts": {"a": "\ud800"}}).encode())


@pytest.mark.parametrize("name", ["right", "in_top5", "failed"])
def test_counts_lie_between_none_and_all_rows(footer_for: Callable[..., Footer], name: str) -> None:
    record = asdict(footer_for()) | {"n": 3}
    for count in (None, 0, 3):
        assert getattr(Footer.from_bytes(json.dumps(record | {name: count}).encode()), name) == count
    for count in (-1, 4):
        with pytest.raises(OtherFormat, match="does not fit"):
            Footer.from_bytes(json.dumps(record | {name: count}).encode())


def test_a_run_on_fewer_samples_than_there_are_is_partial(footer_for: Callable[..., Footer]) -> None:
    assert [replace(footer_for(), n=n).is_partial for n in (0, 9, 10)] == [True, True, False]
    metadata = footer_for().to_metadata()
    assert Footer.from_metadata(metadata) == footer_for()
    assert Footer.from_metadata({name: data + b" " for name, data in metadata.items()}) is None
    assert Footer.from_metadata({}) is None
