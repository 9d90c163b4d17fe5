"""Networks small enough to see through."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

CLASSES = 4


class Brightest(nn.Module):
    """A perfect classifier: the label is the quarter of the picture that is brightest."""

    def __init__(self) -> None:
        super().__init__()
        self.sharpness = nn.Parameter(torch.tensor(20.0))

    def forward(self, images: Tensor) -> Tensor:
        quarters = [q for half in images.tensor_split(2, dim=2) for q in half.tensor_split(2, dim=3)]
        return self.sharpness * torch.stack([q.mean((1, 2, 3)) for q in quarters], dim=1)


@pytest.fixture
def brightest() -> nn.Module:
    return Brightest().eval()


@pytest.fixture
def images() -> Tensor:
    """Sixteen pictures of 8x8, four of each label, one quarter brighter than the rest."""
    generator = torch.Generator().manual_seed(0)
    pictures = 0.3 * torch.rand(16, 1, 8, 8, generator=generator)
    for i in range(16):
        row, column = divmod(i % CLASSES, 2)
        pictures[i, :, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4] += 0.5
    return pictures


@pytest.fixture
def labels() -> Tensor:
    return torch.arange(16) % CLASSES


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty current folder; modules imported from it are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
