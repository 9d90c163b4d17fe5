"""Datasets at the size of the evaluated model, across a whole suite."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from holdfast.core.errors import Misuse
from holdfast.core.registry import registry
from holdfast.core.suites import load_suite
from holdfast.core.types import ModelCard
from holdfast.datasets import load
from holdfast.datasets.own_size import sized_for
from holdfast.engine.evaluate import evaluate
from holdfast.models import wrap


@pytest.fixture
def photographs(tmp_path: Path) -> str:
    draws = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        for i in range(2):
            pixels = draws.integers(0, 256, (60, 80, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / name / f"{i}.png")
    return f"folder:{tmp_path},size=32,resize=40"


def ref_for(text: str, **facts: int) -> str:
    return str(sized_for(registry.bind("dataset", text), ModelCard("m", "", 2, **facts)))  # type: ignore[arg-type]


def test_a_model_has_the_images_at_the_size_and_crop_of_its_card(photographs: str) -> None:
    wrapped = f"own-size:({photographs})"
    plain = photographs.partition(",")[0]
    sized = registry.build(sized_for(registry.bind("dataset", wrapped), ModelCard("m", "", 2, size=48, resize=50)))
    asked = load(f"{plain},size=48,resize=50")
    assert sized.card.size == (48, 48)
    assert torch.equal(sized.images([0, 3]).pixels, asked.images([0, 3]).pixels)
    assert tuple(sized.ids) == tuple(asked.ids)
    assert sized.card.fingerprint != load(wrapped).card.fingerprint
    usual = registry.build(sized_for(registry.bind("dataset", wrapped), ModelCard("m", "", 2, size=28)))
    assert torch.equal(usual.images([1]).pixels, load(f"{plain},size=28,resize=32").images([1]).pixels)


def test_without_a_model_or_a_size_it_is_the_dataset_itself(photographs: str) -> None:
    wrapped = f"own-size:({photographs})"
    assert torch.equal(load(wrapped).images([2]).pixels, load(photographs).images([2]).pixels)
    assert ref_for(wrapped) == str(registry.bind("dataset", wrapped))
    assert load("own-size:fashion-mnist-2k,size=40").card.size == (28, 28)
    with pytest.raises(Misuse, match="at least"):
        load("own-size:fashion-mnist-2k,size=40,resize=20")


def test_a_set_that_is_stored_cropped_is_only_resized(photographs: str) -> None:
    stored = photographs.removesuffix(",resize=40")
    plain = photographs.partition(",")[0]
    made = load(f"own-size:({stored}),size=48,resize=50")
    assert torch.equal(made.images([0]).pixels, load(f"{plain},size=48").images([0]).pixels)


class Seen(nn.Module):
    """Remembers the sizes of the images that it is asked about."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: set[int] = set()
        self.layer = nn.Linear(3, 2)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.sizes.add(images.shape[-1])
        return self.layer(images.mean((2, 3)))


def test_a_whole_suite_is_evaluated_at_each_models_size(photographs: str, tmp_path: Path) -> None:
    path = tmp_path / "suite.toml"
    path.write_text(
        'title = "t"\nown_size = true\nscenarios = ["{dataset}", "{dataset}+contrast:severity=2"]\n'
        f'dataset = "{photographs}"\n'
    )
    suite = load_suite(str(path))
    assert all(text.startswith("own-size:(folder:") for text in (*suite.scenarios, suite.dataset))
    for size in (24, 48):
        net = Seen()
        model = wrap(net, name=f"net-{size}", classes=2, channels=3, size=size)
        net.sizes.clear()
        seen: set[int] = set()
        inner = model.net
        inner.register_forward_pre_hook(lambda _, given, seen=seen: seen.add(given[0].shape[-1]))
        outcomes = list(evaluate(model, list(suite.scenarios)))
        assert len(outcomes) == 2
        assert seen == {size}  # before anything the model would resize itself


def test_the_testbed_suite_at_own_size_has_the_scenarios_of_the_testbed() -> None:
    plain, own = load_suite("imagenet-testbed"), load_suite("imagenet-testbed-own-size")
    assert len(plain.scenarios) == len(own.scenarios) == 211
    assert all(text.startswith("own-size:") for text in own.scenarios)
    assert [column.settings for column in plain.board] == [column.settings for column in own.board]
    assert own.published == plain.published
