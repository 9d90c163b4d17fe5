"""The interactive plots of a board: which there are for a suite, and the numbers in them."""

from holdfast.site.plots.making import plots_of
from holdfast.site.plots.plot import Plot

__all__ = ["Plot", "plots_of"]
