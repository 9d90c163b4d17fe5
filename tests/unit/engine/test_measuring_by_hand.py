"""One shard measured by a model whose answers are known: precision, batches, passes, the noise of each change."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from holdfast.core.errors import HoldfastError
from holdfast.core.noise import Noise
from holdfast.core.refs import Ref
from holdfast.core.types import Batch, Changed, Classifier, Cost, DatasetCard, Images, ModelCard
from holdfast.engine.device import tf32
from holdfast.engine.measure import MeasureSettings, final_logits, measure
from holdfast.engine.order import _from_the_middle
from holdfast.engine.shards import LogitCache, Shard, _range_hint


class FirstPixels:
    """Logits are the first pixels, in a precision of choice; `lengths` are the batches it was asked with."""

    def __init__(self, classes: int = 2, dtype: torch.dtype = torch.float32) -> None:
        self.card = ModelCard(name="pixels", source="live", classes=classes, channels=1)
        self.dtype = dtype
        self.lengths: list[int] = []

    def __call__(self, images: Tensor) -> Tensor:
        self.lengths.append(len(images))
        return images.flatten(1)[:, :2].to(self.dtype)


class Greys:
    """Six images whose pixels are their number over ten; `label` is the number modulo two."""

    def __init__(self) -> None:
        self.card = DatasetCard("greys", ("a", "b"), 1, (2, 2), "f")
        self.ids = [f"g{i}" for i in range(6)]
        self.labels = np.arange(6) % 2

    def images(self, index: object) -> Images:
        raise AssertionError("the shard brings its images")


class Lighter:
    """Adds a tenth, and says it took passes; `keys` are those of the noise it was given."""

    def __init__(self, forwards: int = 3) -> None:
        self.keys: list[Tensor] = []
        self.forwards = forwards

    @property
    def cost(self) -> Cost:
        return Cost(self.forwards)

    def __call__(self, model: Classifier, batch: Batch, noise: Noise, *, width: int) -> Changed:
        self.keys.append(noise.keys)
        n = len(batch)
        return Changed(batch.images + 0.1, size=torch.full((n,), 0.1), forwards=torch.full((n,), self.forwards))


def shard(failed: dict[int, str] | None = None) -> Shard:
    pixels = (torch.arange(6.0) / 10)[:, None, None, None].expand(6, 1, 2, 2).clone()
    return Shard(np.arange(6), Images(pixels, failed or {}))


def settings(model: FirstPixels, *changes: Lighter, name: str = "lighter") -> MeasureSettings:
    refs = [(Ref("corruption", name, (), 1), change) for change in changes]
    return MeasureSettings(model, Greys(), refs, 0, torch.device("cpu"))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_logits_are_float32_whatever_the_model_returns(dtype: torch.dtype) -> None:
    logits = final_logits(FirstPixels(dtype=dtype), torch.rand(5, 1, 2, 2), 2)
    assert logits.dtype == torch.float32
    assert final_logits(FirstPixels(dtype=dtype), torch.rand(0, 1, 2, 2), 2).shape == (0, 2)


def test_every_image_is_scored_once_in_batches_of_the_width() -> None:
    model, images = FirstPixels(), torch.rand(7, 1, 2, 2)
    assert torch.equal(final_logits(model, images, 3), images.flatten(1)[:, :2])
    assert model.lengths == [3, 3, 1]
    with pytest.raises(HoldfastError, match="its card says 3 classes"):
        final_logits(FirstPixels(classes=3), images, 3)


def test_changes_come_one_after_the_other_with_noise_of_their_own() -> None:
    one, other = Lighter(forwards=3), Lighter(forwards=4)
    made = measure(settings(FirstPixels(), one, other), shard(), width=4)
    torch.testing.assert_close(made.after, shard().images.pixels + 0.2)
    torch.testing.assert_close(made.before, shard().images.pixels)
    assert not (one.keys[0] == other.keys[0]).any()
    assert len(set(one.keys[0].tolist())) == 6
    rows = made.predictions()
    assert rows.forwards.tolist() == [3 + 4 + 1] * 6  # and the one that scores the result
    assert rows.backwards.tolist() == [0] * 6
    assert rows.labels.tolist() == [0, 1, 0, 1, 0, 1]
    np.testing.assert_allclose(rows.logits[:, 0], np.arange(6) / 10 + 0.2, atol=1e-6)


def test_a_change_draws_by_its_position_and_name() -> None:
    first, second, renamed = Lighter(), Lighter(), Lighter()
    measure(settings(FirstPixels(), first), shard(), width=4)
    measure(settings(FirstPixels(), Lighter(), second), shard(), width=4)
    measure(settings(FirstPixels(), renamed, name="other"), shard(), width=4)
    assert not (first.keys[0] == second.keys[0]).any()
    assert not (first.keys[0] == renamed.keys[0]).any()
    expected = Noise.of(0, [f"g{i}" for i in range(6)]).scope("0 lighter").keys
    assert torch.equal(first.keys[0], expected)


def test_what_cannot_be_read_or_lies_outside_the_range_is_a_row_with_a_reason() -> None:
    given = shard({1: "cannot be read"})
    given.images.pixels[4] += 1.0
    change = Lighter()
    made = measure(settings(FirstPixels(), change), given, width=4)
    rows = made.predictions()
    assert rows.reasons[1] == "cannot be read"
    assert rows.reasons[4]
    assert [i for i, reason in enumerate(rows.reasons) if reason is None] == [0, 2, 3, 5]
    assert np.isnan(rows.logits).all(axis=1).tolist() == [False, True, False, False, True, False]
    assert rows.forwards.tolist() == [4, 0, 4, 4, 0, 4]
    assert len(change.keys[0]) == 4
    torch.testing.assert_close(made.after[5], given.images.pixels[5] + 0.1)
    torch.testing.assert_close(made.after[1], given.images.pixels[1])


@pytest.mark.parametrize(
    ("count", "order"),
    [(1, [0]), (2, [0, 1]), (3, [1, 0, 2]), (5, [2, 0, 4, 1, 3]), (6, [2, 0, 5, 1, 3, 4]), (7, [3, 0, 6, 1, 4, 2, 5])],
)
def test_a_line_is_measured_from_its_middle_and_ends(count: int, order: list[int]) -> None:
    assert _from_the_middle(list(range(count))) == order  # type: ignore[comparison-overlap, arg-type]


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [(0.0, 2.0, "largest value"), (0.0, 2.1, "bytes"), (0.0, 255.0, "bytes"), (0.0, 256.0, "inside the classifier")],
)
def test_what_to_do_about_images_outside_the_range(low: float, high: float, word: str) -> None:
    assert word in _range_hint(low, high)
    assert "inside the classifier" in _range_hint(-0.1, high)


def test_the_logits_used_last_are_kept_longest() -> None:
    """Room for three logits of two numbers: the fourth makes the one go that was kept first and not again."""
    cache, cpu = LogitCache(most=24), torch.device("cpu")
    for key in ("a", "b", "a", "c"):
        cache.keep((key,), [f"{key}{cache.held}"], torch.zeros(1, 2))  # type: ignore[arg-type]
    assert list(cache.kept) == [("a",), ("c",)]
    assert cache.held == 24
    assert cache.recall(("b",), ["b8"], cpu) is None  # type: ignore[arg-type]
    assert cache.recall(("a",), ["a0", "a16"], cpu).shape == (2, 2)  # type: ignore[arg-type, union-attr]
    assert cache.recall(("a",), ["a0", "z"], cpu) is None  # type: ignore[arg-type]
    cache.keep(("d",), list("wxyz"), torch.zeros(4, 2))  # type: ignore[arg-type]
    assert ("d",) not in cache.kept  # larger than the cache
    cache.forget()
    assert (len(cache.kept), cache.held) == (0, 0)


def test_tf32_is_on_inside_and_as_before_outside() -> None:
    before = torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()
    try:
        torch.backends.cudnn.allow_tf32 = False
        torch.set_float32_matmul_precision("highest")
        with tf32():
            assert (torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()) == (True, "high")
        assert (torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()) == (False, "highest")
    finally:
        torch.backends.cudnn.allow_tf32 = before[0]
        torch.set_float32_matmul_precision(before[1])
