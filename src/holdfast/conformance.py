"""What every component must keep to, as checks a plug-in can run on its own components.

    from holdfast import conformance
    conformance.check_attack("my-attack:steps=5")

Each check raises AssertionError with the law that was broken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from holdfast.core.labels import NO_LABEL, is_labelled
from holdfast.core.noise import Noise
from holdfast.core.refs import Ref, parse_ref
from holdfast.core.registry import registry
from holdfast.core.types import Batch, Change, Changed, Classifier, Dataset
from holdfast.corruptions.ladder import Corruption
from holdfast.models import TorchClassifier, check, load, weights_digest, wrap
from holdfast.training.adversaries import adversaries_of
from holdfast.training.recipes import Recipe, check_names, check_numbers

SIZES = ((1, 28), (3, 32))
COLOUR = 3  # components tagged "colour" are for such images alone
CHANNELS = (1, COLOUR)
ORDER_OF_SUMS = 1e-5  # of a pixel in [0, 1]: what convolutions of another batch length may differ by
ABOUT_ACCURACY = ("at-chance", "one-class")  # flags that random images raise


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


def check_dataset(dataset: str | Dataset) -> None:
    """Ids, labels and images are as the card says; an image depends on its position alone; a ref builds the same twice.

    Raises `Absent` where the dataset's files are not on this machine.
    """
    if isinstance(dataset, str):
        ref = check_round_trip("dataset", dataset)
        first, second = registry.build(ref), registry.build(ref)
    else:
        first = second = dataset
    _check_builds(first, second)


def check_model(model: str | Classifier) -> None:
    """Logits are as the card says and depend on the image alone; gradients arrive unless the card says otherwise.

    Every flag of `models.check` counts, on random images, but those about accuracy.
    """
    classifier = load(check_round_trip("model", model)) if isinstance(model, str) else model
    card = classifier.card
    assert card.name, "a card has a name"
    assert card.classes >= 2, f"a classifier has at least 2 classes, its card says {card.classes}"
    assert card.channels in CHANNELS, f"images have 1 or 3 channels, the card says {card.channels}"
    assert isinstance(card.size, int | None), f"a model's size is the side of its images, the card says {card.size}"
    if isinstance(model, str) and isinstance(classifier, TorchClassifier) and classifier.net.state_dict():
        assert card.weights == weights_digest(classifier.net), "the card has the digest of the weights"
    images = _smooth_images(card.channels, card.size or dict(SIZES)[card.channels])
    labels = torch.arange(len(images)) % card.classes
    flags = [flag for flag in check(classifier, images, labels) if flag.name not in ABOUT_ACCURACY]
    if not card.differentiable:
        flags = [flag for flag in flags if flag.name != "not-differentiable"]
    assert not flags, "; ".join(f"{flag.name}: {flag.explanation}" for flag in flags)


def check_architecture(text: str) -> None:
    """A network with the classes and channels asked for, and names of weights that do not depend on the call."""
    ref = check_round_trip("architecture", text)
    args = dict(ref.args)
    with torch.device("meta"):  # shapes alone: no network is too large for that
        net, rebuilt = (registry.build(ref).eval() for _ in range(2))
        assert isinstance(net, torch.nn.Module), "an architecture builds a torch module"
        shapes = {name: tensor.shape for name, tensor in net.state_dict().items()}
        assert shapes == {name: tensor.shape for name, tensor in rebuilt.state_dict().items()}, "weights change"
        channels, classes = int(str(args.get("channels") or COLOUR)), args.get("classes")
        logits = net(torch.zeros(2, channels, dict(SIZES)[channels], dict(SIZES)[channels]))
    assert logits.ndim == 2, f"a network returns logits of shape (images, classes), got {tuple(logits.shape)}"
    assert logits.shape[0] == 2, "a network returns one row of logits per image"
    assert classes in (None, logits.shape[1]), f"{logits.shape[1]} logits where {classes} classes are asked for"


def check_recipe(text: str) -> None:
    """Numbers are in their ranges, and everything a recipe names exists: its data, its architecture, its threats."""
    ref = check_round_trip("recipe", text)
    recipe: Recipe = registry.build(ref)
    assert recipe.name == ref.name, f"the recipe `{ref.name}` makes models named `{recipe.name}`"
    assert recipe.epochs > 0, "a recipe trains for at least one epoch"
    check_numbers(recipe)
    check_names(recipe)
    if recipe.threats:
        adversaries_of(recipe)


def _check_builds(dataset: Dataset, rebuilt: Dataset) -> None:
    """Two builds of one ref, or one dataset twice."""
    card, n = dataset.card, len(dataset.ids)
    assert n == len(dataset.labels) > 0, f"one label per id, got {n} ids and {len(dataset.labels)} labels"
    assert len(set(dataset.ids)) == n, "ids are unique"
    assert all(isinstance(name, str) and name for name in dataset.ids), "an id is a text"
    assert dataset.labels.dtype.kind in "iu", "labels are whole numbers"
    if is_labelled(dataset.labels):
        assert int(dataset.labels.min()) >= 0, "labels start at 0"
        assert int(dataset.labels.max()) < len(card.classes), "every label names a class"
    else:
        assert set(dataset.labels.tolist()) == {NO_LABEL}, "all samples have labels, or none has"
        assert not card.classes, "without labels there are no classes"
    assert len(set(card.classes)) == len(card.classes), "class names are unique"
    assert card.fingerprint, "a fingerprint tells when content changes"
    assert card.answers is None or card.answers.classes == len(card.classes), "the label map is for the classes"
    if card.reference:
        registry.scenario(card.reference)
    assert list(rebuilt.ids) == list(dataset.ids), "ids are in the same order each time"
    assert rebuilt.labels.tolist() == dataset.labels.tolist(), "labels are the same each time"
    assert rebuilt.card == card, "the card is the same each time"
    _check_pixels(dataset, rebuilt)


def _check_pixels(dataset: Dataset, rebuilt: Dataset) -> None:
    """The first, a middle and the last image, read together, in another order, alone, and from a second build."""
    n, card = len(dataset.ids), dataset.card
    index = [n - 1, 0, n // 2]
    read = dataset.images(index)
    assert not read.failed, f"images cannot be read: {next(iter(read.failed.values()))}"
    assert read.pixels.shape == (3, card.channels, *card.size), "images have the shape of the card"
    assert read.pixels.dtype in (torch.uint8, torch.float32), "pixels are bytes, or floats in [0, 1]"
    if read.pixels.is_floating_point():
        assert bool(((read.pixels >= 0) & (read.pixels <= 1)).all()), "images lie in [0, 1]"
    assert torch.equal(dataset.images(index).pixels, read.pixels), "an image is the same at every read"
    assert torch.equal(dataset.images(index[::-1]).pixels.flip(0), read.pixels), (
        "an image depends on its position alone"
    )
    for row, position in enumerate(index):
        alone = rebuilt.images([position]).pixels
        assert torch.equal(alone[0], read.pixels[row]), "an image depends on its position alone"


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
    images = _smooth_images(channels, size, n, generator)
    with torch.no_grad():
        labels = model(images).argmax(dim=1)
    return model, Batch(images, labels, tuple(f"sample-{i}" for i in range(n)))


def _smooth_images(channels: int, size: int, n: int = 8, generator: torch.Generator | None = None) -> Tensor:
    """Random images without hard edges, in grey levels of 8 bits."""
    generator = generator or torch.Generator().manual_seed(size)
    coarse = torch.rand(n, channels, size // 4, size // 4, generator=generator)
    return torch.nn.functional.interpolate(coarse, (size, size), mode="bilinear").mul(255).round().div(255)


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
    if exact:
        _check_neighbours(change, model, batch)


def _check_neighbours(change: Change, model: TorchClassifier, batch: Batch, row: int = 3) -> None:
    """Alone and among black or white images a sample becomes the same image, also before rounding to 8 bits.

    Rounding hides a weak dependence; neighbours as unlike as can be bring it out.
    """
    if isinstance(change, Corruption):
        change = replace(change, quantise="off")
    alone = batch.take(torch.tensor([row]))
    alone.images.mul_(0.4).add_(0.3)  # so that neighbours are darker and brighter
    expected = _applied(change, model, alone, width=1).images[0]
    worst = 0.0
    for around in (batch.images, torch.zeros_like(batch.images), torch.ones_like(batch.images)):
        images = around.clone()
        images[row] = alone.images[0]
        made = _applied(change, model, replace(batch, images=images), width=len(batch)).images[row]
        worst = max(worst, float((made - expected).abs().max()))
    assert worst <= ORDER_OF_SUMS, f"a sample depends on its batch: a pixel changes by {worst:.2g} with its neighbours"
