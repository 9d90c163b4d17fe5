"""Corruptions: renderers (image x drawn parameters → image) and their severity ladders, batched, on any device.

What a corruption of your own needs has its names here: `from holdfast.corruptions import Level, Noise, corruption`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.lazy import lazy_names

if TYPE_CHECKING:
    from holdfast.core.noise import Noise as Noise
    from holdfast.corruptions.ladder import Corruption as Corruption
    from holdfast.corruptions.ladder import Level as Level
    from holdfast.corruptions.ladder import Renderer as Renderer
    from holdfast.corruptions.ladder import corruption as corruption
    from holdfast.corruptions.ladder import quantised as quantised

HOMES = {
    **dict.fromkeys(("Corruption", "Level", "Renderer", "corruption", "quantised"), "holdfast.corruptions.ladder"),
    "Noise": "holdfast.core.noise",
}
__all__ = list(HOMES)
__getattr__, __dir__ = lazy_names(__name__, HOMES)
