"""Numbers in words: never more digits than the interval supports, and always what they rest on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime

from holdfast.core import rounding
from holdfast.core.types import Score
from holdfast.store.footer import Footer

WIDE = 0.1  # an interval of ten points and more: a decimal would be chance alone
SPACE = "\u00a0"
MINUS = "\u2212"


def decimals(score: Score) -> int:
    """How many decimals of a percentage its interval supports: one, or none where it is wide."""
    return 0 if score.high - score.low >= WIDE else 1


def percent_text(score: Score) -> str:
    """`91.2 %`; `under 0.1 %` rather than a nought that is none."""
    if math.isnan(score.value):
        return "no value"
    digits = decimals(score)
    least = 10**-digits
    text = rounding.percent(score.value, digits)
    if score.value > 0 and float(text) == 0:
        return f"under {least:g}{SPACE}%"
    if score.value < 1 and float(text) == 100:
        return f"over {100 - least:g}{SPACE}%"
    return f"{text}{SPACE}%"


def interval_text(score: Score) -> str:
    """`90.0 to 92.3`; a number may have none."""
    if math.isnan(score.low) or math.isnan(score.high):
        return "no interval"
    digits = decimals(score)
    return f"{_signed(score.low, digits)} to {_signed(score.high, digits)}"


def with_bounds(score: Score) -> str:
    """`91.2 % (90.0 to 92.3)`"""
    return f"{percent_text(score)} ({interval_text(score)})"


def points_text(score: Score) -> str:
    """A difference of shares in percentage points, with its sign: `−57.1`."""
    return rounding.percent(score.value, decimals(score), signed=True).replace("-", MINUS)


def whole_percent(share: float) -> str:
    """A share that is no measurement, such as one expected: `11 %`; `under 1 %` for less."""
    text = rounding.percent(share, 0)
    return f"under 1{SPACE}%" if share > 0 and text == "0" else f"{text}{SPACE}%"


def basis(footer: Footer) -> str:
    """What a number rests on: `2,000 samples`, or `500 of the 10,000 samples` where it is a part."""
    if footer.is_partial:
        return f"{with_commas(footer.n)} of the {counted(footer.population, 'sample')}"
    return counted(footer.n, "sample")


def with_interval(score: Score, footer: Footer) -> str:
    """`90.0 to 92.3, 2,000 samples`: the text in brackets behind a share."""
    return f"{interval_text(score)}, {basis(footer)}"


def p_text(p: float) -> str:
    """A p-value with as many digits as anyone should read."""
    if p < 0.001:
        return "< 0.001"
    return f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def confidence_text(probability: float) -> str:
    """A model's own probability, in whole percent."""
    text = rounding.percent(probability, 0)
    return f"over 99{SPACE}%" if text == "100" and probability < 1 else f"{text}{SPACE}%"


def radius_text(value: float, *, in_levels: bool = False, digits: int = 3) -> str:
    """A radius or a size to some figures: `7.5/255` where radii were given in 255ths, else `0.483`."""
    text = rounding.figures(value * 255 if in_levels else value, digits)
    return f"{text}/255" if in_levels else text


def size_interval(score: Score, *, in_levels: bool = False) -> str:
    factor = 255 if in_levels else 1
    return f"{rounding.figures(score.low * factor)} to {rounding.figures(score.high * factor)}"


def with_commas(number: int) -> str:
    """`12,345`"""
    return f"{number:,}"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """`1 run`, `3 runs`"""
    return f"{with_commas(number)} {noun if number == 1 else plural or noun + 's'}"


def large(number: int) -> str:
    """A large count at a glance: `11.2 million`."""
    for unit, name in ((10**12, "trillion"), (10**9, "billion"), (10**6, "million")):
        if number >= unit:
            return f"{number / unit:.3g} {name}"
    return with_commas(number)


def duration_text(seconds: float) -> str:
    """`48 s`, `12 min`, `3 h 20 min`"""
    if seconds < 1:
        return "under 1 s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def period(times: Sequence[str]) -> str:
    """The day, or the first and the last day, of some ISO 8601 times; empty where none is stated."""
    days = [_in_words(day) for day in sorted({_day(time) for time in times if time})]
    return " to ".join(dict.fromkeys((days[0], days[-1]))) if days else ""


def joined_words(items: Sequence[str]) -> str:
    """`a, b and c`"""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def _signed(share: float, digits: int) -> str:
    return rounding.percent(share, digits).replace("-", MINUS)


def _day(time: str) -> str:
    try:
        return datetime.fromisoformat(time).date().isoformat()
    except ValueError:
        return time


def _in_words(day: str) -> str:
    try:
        return f"{datetime.fromisoformat(day):%d %B %Y}".lstrip("0")
    except ValueError:
        return day
