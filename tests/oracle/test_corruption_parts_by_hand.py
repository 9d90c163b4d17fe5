"""Parts of corruptions and tables in cases small enough to write down."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from holdfast.corruptions.colour import luma, tinted
from holdfast.corruptions.defocus_blur import mirrored
from holdfast.trends.matrices import Matrix


def test_a_tint_of_a_grey_image_is_the_lightness_of_the_colour() -> None:
    grey = torch.full((1, 1, 1, 1), 0.5)
    colour = (0.2, 0.4, 0.8)
    assert tinted(grey, colour, 1).item() == pytest.approx(0.5 * (0.299 * 0.2 + 0.587 * 0.4 + 0.114 * 0.8), rel=1e-3)
    assert tinted(grey, colour, 3).flatten().tolist() == pytest.approx([0.1, 0.2, 0.4])
    assert luma(tinted(grey, colour, 3)).item() == pytest.approx(tinted(grey, colour, 1).item())


def test_a_border_mirrors_an_image_again_and_again() -> None:
    row = torch.tensor([[1.0, 2.0, 3.0]]).repeat(3, 1)[None, None]
    assert mirrored(row, 2)[0, 0, 0].tolist() == [3, 2, 1, 2, 3, 2, 1]
    assert mirrored(row, 3)[0, 0, 0].tolist() == [2, 3, 2, 1, 2, 3, 2, 1, 2]
    assert torch.equal(mirrored(row, 0), row)
    assert torch.equal(mirrored(torch.full((1, 1, 1, 1), 0.3), 2), torch.full((1, 1, 5, 5), 0.3))


def test_cells_of_a_matrix_have_their_own_cautions() -> None:
    """One row and two columns: the second rests on two models alone."""
    values = np.array([[0.9, 0.9]])
    made = Matrix("r2", ("a",), ("b", "c"), values, values, values, np.array([[500, 2]]))
    first, second = made.record()
    assert (first["y"], first["cautions"]) == ("b", [])
    assert second["y"] == "c"
    assert second["cautions"]
