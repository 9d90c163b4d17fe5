"""Datasets that are made from others: `holdfast data build NAME --from PLACE`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from holdfast.core.errors import unknown
from holdfast.core.home import data_home
from holdfast.core.registry import registry

Build = Callable[[Path, Path], int]
builders: dict[str, Build] = {}


def builder(name: str) -> Callable[[Build], Build]:
    """Registers how a dataset is made: from a source into a target folder; returns the number of images."""

    def decorate(build: Build) -> Build:
        builders[name] = build
        return build

    return decorate


def build(name: str, source: Path) -> tuple[Path, int]:
    """Makes a dataset where its loader looks for it; returns the folder and the number of images."""
    registry.discover("dataset")
    if name not in builders:
        raise unknown("dataset to build", name, builders)
    target = data_home() / name
    return target, builders[name](source.expanduser(), target)
