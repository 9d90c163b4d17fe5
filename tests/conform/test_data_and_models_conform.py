"""Every registered dataset, model, architecture and recipe keeps to the laws; broken ones fail the shipped checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from holdfast import conformance
from holdfast.core import registry as registry_module
from holdfast.core.errors import Absent, HoldfastError
from holdfast.core.registry import registry
from holdfast.core.types import DatasetCard, Images, ModelCard
from holdfast.models import TorchClassifier, read_card, zoo
from holdfast.training.recipes import Recipe


def without_arguments(kind: str) -> list[str]:
    return [name for name, entry in registry.entries(kind).items() if not any(p.required for p in entry.parameters)]


@pytest.mark.parametrize("name", without_arguments("dataset"))
def test_a_dataset_conforms(name: str) -> None:
    try:
        conformance.check_dataset(name)
    except Absent as absent:
        pytest.skip(absent.problem)


SMALL = "fashion-mnist-2k"
BUILT = [
    f"own-size:{SMALL}",
    f"subsample:({SMALL}),count=20",
    f"subsample:({SMALL}),share=0.1,per_class=true,rest=true",
    f"mix:[({SMALL}),(scenes:size=28)],classes=union,size=28",
    f"diagvib:({SMALL}),n=30",
    f"diagvib:({SMALL}),n=30,env=test5",
]


@pytest.mark.parametrize("text", BUILT)
def test_a_dataset_made_from_others_conforms(text: str) -> None:
    conformance.check_dataset(text)


def test_datasets_of_ones_own_files_conform(tmp_path: Path) -> None:
    from PIL import Image

    dataset = registry.build(registry.bind("dataset", SMALL))
    pixels = dataset.images(range(9)).pixels[:, 0].numpy()
    np.savez(tmp_path / "own.npz", images=pixels, labels=np.arange(9) % 3)
    for position, image in enumerate(pixels):
        folder = tmp_path / "own" / f"class-{position % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / f"{position}.png")
    conformance.check_dataset(f"arrays:{tmp_path / 'own.npz'}")
    conformance.check_dataset(f"folder:{tmp_path / 'own'},channels=1")


def models_by_cost() -> list[object]:
    """Every model without arguments; of the bundled ones with one architecture all but the first are slow."""
    seen: set[str] = set()
    marked: list[object] = []
    for name in without_arguments("model"):
        file = zoo.FOLDER / f"{name}.safetensors"
        saved = read_card(file) if name.startswith("cifar10-") and file.exists() else None
        is_alike = saved is not None and saved.architecture in seen
        marked.append(pytest.param(name, marks=pytest.mark.slow) if is_alike else name)
        if saved is not None:
            seen.add(saved.architecture)
    return marked


@pytest.mark.parametrize("name", models_by_cost())
def test_a_model_conforms(name: str) -> None:
    try:
        conformance.check_model(name)
    except HoldfastError as problem:
        if not isinstance(problem, Absent) and "not installed" not in problem.problem:
            raise
        pytest.skip(problem.problem)


@pytest.mark.parametrize("name", without_arguments("architecture"))
def test_an_architecture_conforms(name: str) -> None:
    conformance.check_architecture(name)
    if "classes" in {parameter.name for parameter in registry.entry("architecture", name).parameters}:
        conformance.check_architecture(f"{name}:classes=7")


@pytest.mark.parametrize("name", without_arguments("recipe"))
def test_a_recipe_conforms(name: str) -> None:
    conformance.check_recipe(name)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[], object]], str]:
    """Registers a component for one test."""

    def add(kind: str, factory: Callable[[], object]) -> str:
        registry.entries(kind)
        monkeypatch.setitem(
            registry.components[kind], "broken", registry_module.Component(kind, "broken", factory, 1, "", (), ())
        )
        return "broken"

    return add


class Broken:
    """A dataset of six grey images that breaks one law."""

    builds = 0

    def __init__(self, how: str = "") -> None:
        self.how = how
        self.reads = 0
        type(self).builds += 1
        self.card = DatasetCard("broken", ("a", "b"), 1, (4, 4), "" if how == "no fingerprint" else "x")
        ids = ["same", "same", *"abcd"] if how == "ids repeat" else list("abcdef")
        self.ids: Sequence[str] = ids[::-1] if how == "order changes" and self.builds % 2 else ids
        last = 2 if how == "label beyond classes" else 1
        self.labels = np.array([0, 1, 0, 1, 0, last][: 5 if how == "labels too few" else 6])

    def images(self, index: Sequence[int]) -> Images:
        self.reads += 1
        values = torch.tensor([position / 6 for position in index])
        if self.how == "outside [0, 1]":
            values = values * 255
        elif self.how == "changes between reads":
            values = values + self.reads / 100
        elif self.how == "depends on the batch":
            values = values * 0 + values.mean()
        elif self.how == "depends on the row":
            values = torch.arange(len(index)) / 6
        size = 5 if self.how == "wrong size" else 4
        channels = 3 if self.how == "wrong channels" else 1
        failed = {i: "is gone" for i, position in enumerate(index) if self.how == "too long" and position == 5}
        return Images(values.float()[:, None, None, None].expand(-1, channels, size, size).contiguous(), failed)


@pytest.mark.parametrize(
    ("how", "law"),
    [
        ("ids repeat", "ids are unique"),
        ("labels too few", "one label per id"),
        ("label beyond classes", "every label names a class"),
        ("no fingerprint", "a fingerprint"),
        ("order changes", "same order each time"),
        ("outside [0, 1]", "images lie in [0, 1]"),
        ("changes between reads", "same at every read"),
        ("depends on the batch", "position alone"),
        ("depends on the row", "position alone"),
        ("wrong size", "shape of the card"),
        ("wrong channels", "shape of the card"),
        ("too long", "cannot be read: is gone"),
    ],
)
def test_a_broken_dataset_fails(registered: Callable[..., str], how: str, law: str) -> None:
    name = registered("dataset", lambda: Broken(how))
    with pytest.raises(AssertionError) as caught:
        conformance.check_dataset(name)
    assert law in str(caught.value)


def test_the_same_dataset_without_its_fault_conforms(registered: Callable[..., str]) -> None:
    conformance.check_dataset(registered("dataset", Broken))
    conformance.check_dataset(Broken())


class Net(nn.Module):
    """A small network that breaks one law."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        torch.manual_seed(0)
        self.linear = nn.Linear(28 * 28, 10)
        self.norm = nn.BatchNorm1d(10)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.linear(images.flatten(1))
        if self.how == "batch":
            logits = logits - logits.mean(0)
        elif self.how == "no gradient":
            logits = logits.detach()
        elif self.how == "random":
            logits = logits + torch.rand_like(logits)
        elif self.how == "nan":
            logits = logits / 0
        elif self.how == "writes":
            images.zero_()
        elif self.how == "stays in training":
            self.norm.training = True
        return logits


class Writing(TorchClassifier):
    """A classifier that changes the images it is given; a network alone gets a copy of them."""

    def __call__(self, images: Tensor) -> Tensor:
        logits = super().__call__(images)
        images.zero_()
        return logits


def classifier(how: str) -> TorchClassifier:
    net = Net(how) if how in ("in training", "stays in training") else Net(how).eval()
    classes, channels = (12 if how == "classes" else 10), (3 if how == "channels" else 1)
    size: object = (28, 28) if how == "size" else 28
    made = Writing if how == "classifier writes" else TorchClassifier
    return made(net, ModelCard("broken", "", classes=classes, channels=channels, size=size))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("how", "law"),
    [
        ("classes", "wrong-outputs"),
        ("channels", "forward"),
        ("batch", "batch-dependent"),
        ("size", "the side of its images"),
        ("no gradient", "not-differentiable"),
        ("random", "random-forward"),
        ("nan", "non-finite-logits"),
        ("classifier writes", "writes-input"),
        ("in training", "train-mode"),
        ("stays in training", "train-mode"),
    ],
)
def test_a_broken_model_fails(registered: Callable[..., str], how: str, law: str) -> None:
    name = registered("model", lambda: classifier(how))
    for model in (name, classifier(how)):
        with pytest.raises(AssertionError) as caught:
            conformance.check_model(model)
        assert law in str(caught.value)


def test_a_network_that_writes_into_its_images_conforms_since_they_are_its_own(registered: Callable[..., str]) -> None:
    conformance.check_model(registered("model", lambda: classifier("writes")))


def test_the_same_model_without_its_fault_conforms(registered: Callable[..., str]) -> None:
    conformance.check_model(registered("model", lambda: classifier("")))


@pytest.mark.parametrize(
    ("build", "law"),
    [
        (lambda: nn.Conv2d(3, 4, 3), "logits of shape"),
        (lambda: nn.Sequential(nn.Flatten(0), nn.Unflatten(0, (1, -1))), "one row of logits"),
        (lambda: "no module", "attribute"),
    ],
)
def test_a_broken_architecture_fails(registered: Callable[..., str], build: Callable[[], object], law: str) -> None:
    name = registered("architecture", build)
    with pytest.raises((AssertionError, AttributeError)) as caught:
        conformance.check_architecture(name)
    assert law in str(caught.value)


@pytest.mark.parametrize(
    ("recipe", "law"),
    [
        (Recipe("other"), "makes models named `other`"),
        (Recipe("broken", dataset="no-such-set"), "no dataset named"),
        (Recipe("broken", architecture="no-such-net"), "no architecture named"),
        (Recipe("broken", threats=("no-such-attack",)), "no corruption or attack named"),
        (Recipe("broken", epochs=0), "at least one epoch"),
        (Recipe("broken", rate=-1.0), "`rate` must be more than 0"),
        (Recipe("broken", loss="trades"), "needs an attack"),
        (Recipe("broken", threats=("pgd-l2", "stadv"), union="msd"), "union of norm balls"),
    ],
)
def test_a_broken_recipe_fails(registered: Callable[..., str], recipe: Recipe, law: str) -> None:
    name = registered("recipe", lambda: recipe)
    with pytest.raises((AssertionError, HoldfastError)) as caught:
        conformance.check_recipe(name)
    assert law in str(caught.value)
