"""How a number is written wherever a person reads it: one rule for terminal, page, plot, report and LaTeX.

A number is rounded as a decimal, halves away from zero: 93.25 is 93.3 and -93.25 is -93.3. A float is taken for the
decimal that it stands for, so 38.995, held as 38.9949999999999974, is 39.00. Nothing is written as `-0.0`.
`site/static/plots.js` holds the same rule for plots.
"""

from __future__ import annotations

import math
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from typing import Literal

from holdfast.core.errors import Misuse

Rounding = Literal["round", "truncate"]
GUARD = 9  # decimals beyond those asked for that tell a half from its neighbours: far finer than any count


def shown(value: float, digits: int = 1, *, signed: bool = False, rounding: Rounding = "round") -> str:
    """The number with so many decimals; `signed` puts a plus before what is written above 0."""
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else f"{value:+}" if signed else f"{value}"
    exact = Decimal(f"{value:.{max(digits, 0) + GUARD}f}")
    mode = ROUND_HALF_UP if rounding == "round" else ROUND_DOWN
    rounded_value = exact.quantize(Decimal(1).scaleb(-digits), rounding=mode)
    if rounded_value.is_zero():
        rounded_value = abs(rounded_value)
    return f"{rounded_value:+f}" if signed and not rounded_value.is_zero() else f"{rounded_value:f}"


def rounded(value: float, digits: int = 2, *, rounding: Rounding = "round") -> float:
    """As printed: to the nearest, halves up, or cut off, as Table 1 of OODRobustBench is."""
    if rounding not in ("round", "truncate"):
        raise Misuse(f"`rounding` is round or truncate, got `{rounding}`")
    return float(shown(value, digits, rounding=rounding))


def percent(share: float, digits: int = 1, *, signed: bool = False) -> str:
    """A share in percent, without the sign for it: `93.3` for 0.9325."""
    return shown(100 * share, digits, signed=signed)


def figures(value: float, count: int = 3) -> str:
    """The number with so many figures and no zeros after the last that counts: `0.0313`, `12.5`, `2`."""
    if not math.isfinite(value) or value == 0:
        return shown(value, 0)
    digits = count - 1 - math.floor(math.log10(abs(value)))
    if digits > 2 * count:  # too small to be written out
        return f"{value:.{count}g}"
    text = shown(value, max(digits, 0))
    return text.rstrip("0").rstrip(".") if "." in text else text
