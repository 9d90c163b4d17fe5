"""What tests share: tiny models with known answers, a tiny dataset, rows made without an engine, the command line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import settings
from torch import Tensor, nn

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")  # some virtual machines announce AMX and lack it
os.environ.pop("COLUMNS", None)  # pytest-xdist sets it, and tables would be cut to that width

from holdfast.__main__ import main
from holdfast.core.types import Batch, Flag, ModelCard
from holdfast.models import TorchClassifier, wrap
from holdfast.store import Footer, Predictions, Rows
from holdfast.store.rows import to_rows

settings.register_profile("suite", deadline=None, max_examples=60)
settings.register_profile("thorough", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))


class Linear(nn.Module):
    """Logits linear in the pixels, so that every attack has a closed-form optimum."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1) @ self.weight.T + self.bias


@pytest.fixture
def linear() -> Callable[..., TorchClassifier]:
    def make(classes: int = 2, channels: int = 1, size: int = 6, seed: int = 0) -> TorchClassifier:
        generator = torch.Generator().manual_seed(seed)
        weight = torch.randn(classes, channels * size * size, generator=generator)
        # centred on grey, so that labels are mixed
        bias = -0.5 * weight.sum(dim=1)
        return wrap(Linear(weight, bias), name=f"linear-{seed}", classes=classes, channels=channels)

    return make


@pytest.fixture
def batch_for() -> Callable[..., Batch]:
    """Images in the middle of the box, labelled as the model sees them."""

    def make(model: TorchClassifier, n: int = 24, size: int = 6, spread: float = 0.2, seed: int = 1) -> Batch:
        generator = torch.Generator().manual_seed(seed)
        images = 0.5 + spread * (torch.rand(n, model.card.channels, size, size, generator=generator) - 0.5)
        with torch.no_grad():
            labels = model(images).argmax(dim=1)
        return Batch(images, labels, tuple(f"s{i:03}" for i in range(n)))

    return make


@pytest.fixture
def tiny_data(tmp_path: Path) -> Callable[..., str]:
    """A dataset on disk as a ref; what an engine test changes about it, it says."""

    def make(n: int = 60, classes: int = 10, name: str = "tiny", **arrays: object) -> str:
        random = np.random.default_rng(0)
        folder = tmp_path / "data"
        folder.mkdir(exist_ok=True)
        content: dict[str, object] = {
            "images": random.integers(0, 256, (n, 28, 28), dtype=np.uint8),
            "labels": np.arange(n) % classes,
        }
        np.savez(folder / f"{name}.npz", **(content | arrays))
        return f"arrays:{folder / f'{name}.npz'}"

    return make


@pytest.fixture
def footer_for() -> Callable[..., Footer]:
    def make(
        model: str = "m", scenario: str = "d", *, key: str = "", flags: tuple[Flag, ...] = (), **more: object
    ) -> Footer:
        card = ModelCard(name=model, source=model, classes=10)
        fields = {
            "key": key or f"{abs(hash((model, scenario))):020x}"[:20],
            "family": f"{model} {scenario}",
            "model": model,
            "model_full": model,
            "scenario": scenario,
            "scenario_full": scenario,
            "dataset": scenario.split("+", maxsplit=1)[0],
            "changes": (),
            "seed": 0,
            "selection": "all",
            "samples": None,
            "precision": None,
            "weights": "w",
            "data": "d",
            "card": card,
            "classes": tuple("abcdefghij"),
            "population": 10,
            "flags": flags,
        }
        return Footer(**(fields | more))  # type: ignore[arg-type]

    return make


@pytest.fixture
def rows_for(footer_for: Callable[..., Footer]) -> Callable[..., Rows]:
    """Rows of which `right` says what is correct; logits are 10 apart."""

    def make(
        right: list[bool],
        *,
        footer: Footer | None = None,
        ids: list[str] | None = None,
        classes: int = 10,
        **more: object,
    ) -> Rows:
        n = len(right)
        labels = np.arange(n) % classes
        predicted = np.where(right, labels, (labels + 1) % classes)
        logits = np.random.default_rng(0).normal(size=(n, classes)).astype(np.float32)
        logits[np.arange(n), predicted] += 10
        fields = {
            "ids": ids or [f"s{i}" for i in range(n)],
            "labels": labels,
            "logits": logits,
            "sizes": np.full(n, np.nan, np.float32),
            "radii": np.full(n, np.nan, np.float32),
            "forwards": np.ones(n, np.int64),
            "backwards": np.zeros(n, np.int64),
            "reasons": [None] * n,
        }
        footer = footer or footer_for()
        return to_rows(Predictions(**(fields | more)), footer).sealed(footer)  # type: ignore[arg-type]

    return make


class Answer(NamedTuple):
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Answer]:
    """A command of ours in this process, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["holdfast", *words])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return call
