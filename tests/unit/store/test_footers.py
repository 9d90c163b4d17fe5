"""Whatever stands in a sealed footer, it is a footer or an error of ours, and a store goes on beside it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, fields

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
