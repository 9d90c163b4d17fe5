"""What every component must keep to, as checks a plug-in can run on its own components.

    from holdfast import conformance
    conformance.check_attack("my-attack:steps=5")

Each check raises AssertionError with the law that was broken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import torch

from holdfast.core.noise import Noise
from holdfast.core.refs import Ref, parse_ref
from holdfast.core.registry import registry
from holdfast.core.types import Batch, Change, Changed, Dataset
from holdfast.models import TorchClassifier, wrap

SIZES = ((1, 28), (3, 32))
COLOUR = 3  # components tagged "colour" are for such images alone


def check_entry(kind: str, name: str) -> None:
    """A catalogue can show it: a name in words and dashes, and a first line that says what it is."""
    entry = registry.entry(kind, name)
    assert re.fullmatch(r"[a-z0-9]+(?:[-.][a-z0-9]+)*", name), f"`{name}`: names are lower-case words joined by dashes"
    assert 10 <= len(entry.summary) <= 160, f"`{name}`: the docstring's first line says what it is, in a sentence"
    assert entry.summary.endswith("."), f"`{name}`: a summary is a sentence"
    assert entry.version >= 1, f"`{name}`: versions start at 1"


def check_round_trip(kind: str, text: str) -> Ref:
    """Both spellings of a ref read back to the same ref and key."""
    ref = registry.bind(kind, text)
    for spelling in (str(ref), ref.full):
        reread = registry.bind(kind, spelling)
        assert reread == ref, f"`{spelling}` does not read back"
        assert reread.key == ref.key, f"`{spelling}` has another key"
    return ref


def check_corruption(text: str) -> None:
    """Keyed, per sample, inside [0, 1], of the same shape, and it leaves its input alone."""
    for _ in _changed("corruption", text, exact=True):
        pass


def check_attack(text: str) -> None:
    """As a corruption; also within its radius, within its stated cost, with a size for every sample."""
    radius = dict(registry.bind("attack", text).args).get("radius")
    for change, whole in _changed("attack", text, exact=False):
        assert whole.size is not None, "an attack tells the size of every perturbation"
        assert whole.forwards is not None, "an attack counts its passes"
        assert whole.backwards is not None, "an attack counts its passes"
        assert int(whole.forwards.max()) <= change.cost.forwards, "more forward passes than the stated cost"
        if isinstance(radius, float):
            assert float(whole.size.max()) <= radius * (1 + 1e-4) + 1e-6, "a perturbation left its radius"


def check_dataset(dataset: Dataset) -> None:
    """Ids are unique, labels name classes, images have the stated shape, and reading is a function of position."""
    card, n = dataset.card, len(dataset.ids)
    assert n == len(dataset.labels) > 0, "one label per id"
    assert len(set(dataset.ids)) == n, "ids are unique"
    assert int(dataset.labels.min()) >= 0, "labels start at 0"
    assert int(dataset.labels.max()) < len(card.classes), "every label names a class"
    assert card.fingerprint, "a fingerprint tells when content changes"
    index = [n - 1, 0, n // 2]
    read = dataset.images(index)
    assert read.pixels.shape == (3, card.channels, *card.size), "images have the shape of the card"
    assert read.pixels.dtype in (torch.uint8, torch.float32), "pixels are bytes, or floats in [0, 1]"
    same = dataset.images(index[::-1])
    assert torch.equal(read.pixels.flip(0), same.pixels), "an image depends on its position alone"


def _changed(kind: str, text: str, *, exact: bool) -> Iterator[tuple[Change, Changed]]:
    """The change on grey and on colour images, after what holds for every change has been checked."""
    change: Change = registry.build(check_round_trip(kind, text))
    colour = "colour" in registry.entry(kind, parse_ref(text).name).tags
    for channels, size in SIZES:
        if colour and channels != COLOUR:
            continue
        model, batch = _set_up(channels, size)
        before = batch.images.clone()
        whole = _applied(change, model, batch, width=len(batch))
        assert torch.equal(batch.images, before), "a change must not write to its input"
        _check_images(whole, batch)
        _check_independence(change, model, batch, whole, exact=exact)
        yield change, whole


def _set_up(channels: int, size: int, n: int = 12) -> tuple[TorchClassifier, Batch]:
    """A small smooth model that is right about smooth random images, and can be broken."""
    generator = torch.Generator().manual_seed(size)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(channels * size * size, 10))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.05)
    model = wrap(net, name="conformance", classes=10, channels=channels)
    coarse = torch.rand(n, channels, size // 4, size // 4, generator=generator)
    images = torch.nn.functional.interpolate(coarse, (size, size), mode="bilinear").mul(255).round().div(255)
    with torch.no_grad():
        labels = model(images).argmax(dim=1)
    return model, Batch(images, labels, tuple(f"sample-{i}" for i in range(n)))


def _applied(change: Change, model: TorchClassifier, batch: Batch, *, width: int) -> Changed:
    return change(model, batch, Noise.of(0, batch.ids), width=width)


def _check_images(changed: Changed, batch: Batch) -> None:
    assert changed.images.shape == batch.images.shape, "a change keeps the shape"
    assert changed.images.dtype == torch.float32, "images are float32"
    assert bool(changed.images.isfinite().all()), "images are finite"
    assert float(changed.images.min()) >= 0, "images lie in [0, 1]"
    assert float(changed.images.max()) <= 1, "images lie in [0, 1]"
    assert not changed.reasons, f"samples failed: {changed.reasons}"


def _check_independence(change: Change, model: TorchClassifier, batch: Batch, whole: Changed, *, exact: bool) -> None:
    """Alone, in small batches or in another order, every sample becomes the same image."""
    mixed = torch.tensor([7, 2, 11, 0, 5])
    some = Batch(batch.images[mixed], batch.labels[mixed], tuple(batch.ids[i] for i in mixed))
    for width in (1, 3, 64):
        images = _applied(change, model, some, width=width).images
        if exact:
            assert torch.equal(images, whole.images[mixed]), "a sample depends on its batch"
        else:  # a model's logits differ in the last bits with the batch, and an attack follows them
            torch.testing.assert_close(images, whole.images[mixed], rtol=0, atol=1e-4)
