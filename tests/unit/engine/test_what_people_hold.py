"""Modules, arrays, datasets and loaders are taken as they are; what cannot be taken is refused with what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, TensorDataset

import holdfast
from holdfast.core.errors import HoldfastError, HoldfastWarning, Misuse
from holdfast.datasets.from_python import read_samples
from holdfast.engine.outcomes import OutcomeList
from holdfast.engine.watch import NotebookWatcher

CHANGES = ["", "pgd-linf:radius=32/255,steps=2"]


def net(classes: int = 4, channels: int = 3) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * 64, classes))


def data(count: int = 24) -> tuple[Tensor, Tensor]:
    images = torch.randint(0, 256, (count, 3, 8, 8), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)
    labels = net()(images.float() / 255).argmax(1)
    labels[0] = (labels[0] + 1) % 4
    return images, labels


class Pictures(Dataset[Any]):
    """As torchvision's datasets without a transform: PIL images."""

    classes = ("cat", "dog", "owl", "fox")

    def __init__(self, kind: str = "pil") -> None:
        self.kind, (self.images, self.labels) = kind, data()

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Any:
        array = self.images[index].permute(1, 2, 0).numpy()
        return (Image.fromarray(array) if self.kind == "pil" else array), int(self.labels[index])


def measured(given: object, folder: Path, **more: Any) -> OutcomeList:
    return holdfast.evaluate(net(), given, changes=CHANGES, store=str(folder), pictures=0, **more)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(lambda x, y: (x.numpy(), y.tolist()), id="uint8 numpy, labels in a list"),
        pytest.param(lambda x, y: (x.float() / 255, y), id="float tensors"),
        pytest.param(lambda x, y: (x.permute(0, 2, 3, 1).numpy(), y.numpy()[:, None]), id="channels last, a column"),
        pytest.param(lambda x, y: TensorDataset(x.float() / 255, y), id="TensorDataset"),
        pytest.param(lambda x, y: DataLoader(TensorDataset(x.float() / 255, y), batch_size=5), id="DataLoader"),
        pytest.param(lambda x, y: Pictures(), id="PIL images"),
        pytest.param(lambda x, y: Pictures("arrays"), id="uint8 arrays"),
        pytest.param(lambda x, y: list(zip(x, y, strict=True)), id="a list of samples"),
        pytest.param(lambda x, y: ([Image.fromarray(i.permute(1, 2, 0).numpy()) for i in x], y), id="a list of PIL"),
        pytest.param(lambda x, y: [[x[:9], y[:9]], [x[9:], y[9:]]], id="two batches as a loader gives them"),
        pytest.param(lambda x, y: ((x[:9], y[:9]), (x[9:], y[9:])), id="a pair of batches"),
        pytest.param(lambda x, y: (x, y.numpy().astype(object)), id="whole numbers as objects"),
    ],
)
def test_every_way_to_hold_the_same_images_is_the_same_data(given: Any) -> None:
    images, labels = data()
    plain, other = read_samples((images, labels)), read_samples(given(images, labels))
    assert plain.ids == other.ids
    assert plain.dataset("d", 4).card.fingerprint == other.dataset("d", 4).card.fingerprint


def test_a_bare_module_is_measured_and_stays_as_it_was(tmp_path: Path) -> None:
    module = net().train()
    outcomes = holdfast.evaluate(module, data(), changes=CHANGES, store=str(tmp_path), pictures=0)
    assert module.training
    assert all(parameter.requires_grad for parameter in module.parameters())
    assert outcomes.scores[0].value == 23 / 24
    images, labels = data()
    attacked = holdfast.attack(module, images, labels, CHANGES[1], ids=outcomes[1].result.ids)
    assert (~attacked.broken).tolist() == outcomes[1].result.correct.tolist()


def test_a_loader_that_shuffles_is_the_same_data_each_time(tmp_path: Path) -> None:
    images, labels = data()
    runs = [
        measured(DataLoader(TensorDataset(images.float() / 255, labels), batch_size=7, shuffle=True), tmp_path)
        for _ in range(2)
    ]
    assert [outcome.fresh for outcome in runs[0]] == [True, True]
    assert [outcome.fresh for outcome in runs[1]] == [False, False]


def test_two_samples_are_a_dataset_of_two_and_a_pair_of_lists_a_pair() -> None:
    images, labels = data(2)
    pair = read_samples((images, labels))
    one, other = zip(images, labels.tolist(), strict=True)
    for given in ([one, other], [list(one), list(other)], (one, other), (list(images), labels.tolist())):
        assert read_samples(given).ids == pair.ids
        assert read_samples(given).labels.tolist() == labels.tolist()
    assert read_samples((tuple(images), tuple(labels.tolist()))).ids == pair.ids


def test_a_sampler_of_batches_that_shuffles_is_the_same_data_each_time() -> None:
    images, labels = data()
    known = TensorDataset(images.float() / 255, labels)
    loaders = [DataLoader(known, batch_sampler=BatchSampler(RandomSampler(known), 5, False)) for _ in range(2)]
    assert read_samples(loaders[0]).ids == read_samples(loaders[1]).ids


def test_an_item_that_cannot_be_read_is_named() -> None:
    class Broken(Pictures):
        def __getitem__(self, index: int) -> Any:
            if index == 3:
                raise OSError("no such file: 3.png")
            return super().__getitem__(index)

    for given in (Broken(), DataLoader(Broken("arrays"), batch_size=1)):
        with pytest.raises(HoldfastError, match=r"item 3 of the data cannot be read: OSError: no such file: 3.png"):
            read_samples(given)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"seed": 1.5}, "--seed is a whole number"),
        ({"seed": "a"}, "--seed is a whole number"),
        ({"seed": None}, "--seed is a whole number"),
        ({"samples": 2.5}, "--samples is a whole number"),
        ({"samples": "10"}, "--samples is a whole number"),
        ({"batch_size": 2.5}, "--batch-size is a whole number"),
        ({"precision": "1%"}, "--precision is a number"),
        ({"store": 3}, "a store is a folder"),
        ({"name": 3}, "a name is a text"),
        ({"name": ""}, "cannot be a name"),
        ({"name": "two\nlines"}, "cannot be a name"),
    ],
)
def test_options_of_another_kind_are_refused_before_anything_runs(
    options: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(Misuse, match=problem):
        holdfast.evaluate(net(), data(), **{"store": str(tmp_path), **options})
    assert not any(tmp_path.iterdir())


def test_whole_numbers_of_numpy_and_paths_are_taken(tmp_path: Path) -> None:
    one = holdfast.evaluate(net(), data(), store=tmp_path, seed=np.int64(3), samples=np.int32(8), pictures=0)
    other = holdfast.evaluate(net(), data(), store=str(tmp_path), seed=3, samples=8, pictures=0)
    assert [one[0].fresh, other[0].fresh] == [True, False]


def test_a_module_that_is_given_twice_is_measured_once(tmp_path: Path) -> None:
    module = net()
    assert len(holdfast.evaluate([module, module], data(), store=tmp_path, pictures=0)) == 1


def test_other_images_are_other_rows(tmp_path: Path) -> None:
    images, labels = data()
    measured((images, labels), tmp_path)
    images[3, 0, 0, 0] = 255 - images[3, 0, 0, 0]
    assert all(outcome.fresh for outcome in measured((images, labels), tmp_path))


def test_class_names_of_a_dataset_are_kept(tmp_path: Path) -> None:
    assert measured(Pictures(), tmp_path)[0].result.footer.classes == ("cat", "dog", "owl", "fox")


X, Y = data(6)


@pytest.mark.parametrize(
    ("given", "problem", "hint"),
    [
        ((X, nn.functional.one_hot(Y, 4)), "one-hot", "argmax"),
        ((X, Y.float()), "whole numbers", "class numbers"),
        ((X, Y[:2]), "6 images need as many labels", None),
        ((X, Y - 9), "negative", "from 0"),
        ((X, ["a"] * 6), "whole numbers", "number the names"),
        ((X.float(), Y), r"must lie in \[0, 1\]", "255"),
        ((X.float() / 50 - 2, Y), r"must lie in \[0, 1\]", "Normalize"),
        ((X.float() / 0, Y), r"must lie in \[0, 1\]", None),
        ((X[:, :2], Y), "1 or 3 channels", "channels"),
        ((X[0], Y), "count, channels, height, width", "images"),
        ((X.long(), Y), "uint8, or floats", "uint8"),
        (X, "no labels", "images, labels"),
        ({"x": X, "y": Y}, "a dict", "pair"),
        ([{"image": X[0], "label": 0}], r"dict with the keys `image`, `label`", r'item\["image"\]'),
        (DataLoader([{"pixel_values": X[0], "labels": 0}]), "dict with the keys", "pixel_values"),
        (DataLoader(TensorDataset(X, Y, Y)), "3 things", "collate_fn"),
        (DataLoader(TensorDataset(X)), "1 things", "collate_fn"),
        ([(X[0], 0), (X[0, :, :4], 1), (X[0], 1)], "item 1 has images of 3x4x8", "one size"),
        (([], []), "no images", None),
        ((None, Y), "got NoneType", "images, labels"),
        (("cifar10", Y), "got str", None),
        ([X[0], X[1]], "is a Tensor, not", "Dataset"),
        ((X.float() * float("nan"), Y), r"must lie in \[0, 1\]", "NaN"),
        ([(Image.new("I;16", (8, 8), 9000), 0)], "mode I;16, not of 8 bits", "floats"),
        (([Image.new("F", (8, 8), 0.5)], [0]), "mode F, not of 8 bits", None),
        (([Image.new("I", (8, 8), 300)], [0]), "mode I, not of 8 bits", None),
        (42, "no labelled images in a int", "Dataset"),
    ],
)
def test_what_cannot_be_taken_is_refused_with_what_to_do(given: object, problem: str, hint: str | None) -> None:
    with pytest.raises(HoldfastError, match=problem) as caught:
        read_samples(given)
    if hint is not None:
        assert caught.value.hint is not None
        assert __import__("re").search(hint, caught.value.hint)


def test_random_augmentation_is_warned_of() -> None:
    class Augmented(Pictures):
        def __getitem__(self, index: int) -> Any:
            image, label = super().__getitem__(index)
            self.drawn = getattr(self, "drawn", 0) + 1
            return np.roll(np.asarray(image), self.drawn % 8, axis=0), label

    with pytest.warns(HoldfastWarning, match="another image each time"):
        read_samples(Augmented())


@pytest.mark.parametrize(
    ("model", "problem"),
    [
        (nn.Linear, "is a class"),
        (lambda x: x, "got function"),
        ({}, "no model"),
        (nn.Sequential(nn.Flatten(), nn.Linear(5, 4)), "does not take these images"),
        (nn.Conv2d(3, 4, 3), r"must return logits of shape"),
    ],
)
def test_what_is_no_model_is_refused(model: object, problem: str, tmp_path: Path) -> None:
    with pytest.raises(HoldfastError, match=problem):
        holdfast.evaluate(model, data(), store=str(tmp_path))


def test_labels_that_the_model_does_not_know_are_refused(tmp_path: Path) -> None:
    images, labels = data()
    with pytest.raises(Misuse, match="knows the classes 0 to 1"):
        holdfast.evaluate(net(classes=2), (images, labels), store=str(tmp_path))
    with pytest.raises(Misuse, match="knows the classes 0 to 1"):
        holdfast.attack(net(classes=2), images, labels, "fgsm")


def test_channels_last_comes_back_as_it_came() -> None:
    images, labels = data()
    last = images.permute(0, 2, 3, 1).numpy()
    one = holdfast.attack(net(), images.numpy(), labels, "fgsm:radius=8/255").images
    np.testing.assert_array_equal(
        holdfast.attack(net(), last, labels.tolist(), "fgsm:radius=8/255").images, one.transpose(0, 2, 3, 1)
    )
    made = holdfast.corrupt(last, "contrast:severity=3")
    np.testing.assert_array_equal(made, holdfast.corrupt(images.numpy(), "contrast:severity=3").transpose(0, 2, 3, 1))


def test_an_outcome_is_one_line_and_all_are_a_table(tmp_path: Path) -> None:
    outcomes = measured(data(), tmp_path, name="mine", data_name="my pets")
    assert repr(outcomes[0]) == "mine under my pets: 95.8 % [76.9, 99.8] of 24"
    assert str(outcomes).splitlines()[0].split() == ["model", "scenario", "right", "n", "flags"]
    assert "<td>my pets</td>" in outcomes._repr_html_()
    assert outcomes.records()[0]["accuracy"] == 23 / 24


def test_an_outcome_that_failed_carries_its_error_and_raises_it(tmp_path: Path) -> None:
    class Broken(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            if len(images) > 2:
                raise RuntimeError("no <more>")
            return images.mean((1, 2, 3))[:, None].repeat(1, 4)

    (outcome,) = outcomes = holdfast.evaluate(Broken(), data(), store=str(tmp_path))
    assert "no <more>" in repr(outcome)
    assert "no &lt;more&gt;" in outcomes._repr_html_()
    with pytest.raises(HoldfastError, match="no <more>"):
        outcomes.scores  # noqa: B018
    assert outcomes.failed == [outcome]


def test_models_by_name_and_two_of_one_name(tmp_path: Path) -> None:
    other = net()
    with torch.no_grad():
        other[1].weight.mul_(-1)
    with pytest.raises(Misuse, match="two models are named `Sequential`"):
        holdfast.evaluate([net(), other], data(), store=str(tmp_path))
    outcomes = holdfast.evaluate({"one": net(), "other": other}, data(), store=str(tmp_path), pictures=0)
    assert [outcome.model for outcome in outcomes] == ["one", "other"]


def test_data_does_not_take_the_name_of_a_dataset(tmp_path: Path) -> None:
    for name, problem in (("cifar10", "a dataset that holdfast has"), ("a+b", "cannot be a name"), (" x", "name")):
        with pytest.raises(Misuse, match=problem):
            measured(data(), tmp_path, data_name=name)


def test_changes_go_behind_texts_too(tmp_path: Path) -> None:
    outcomes = holdfast.evaluate(
        "fashion-standard", "fashion-mnist-2k", changes=["", "contrast:severity={1,2}"], samples=4, store=str(tmp_path)
    )
    names = ["fashion-mnist-2k", *(f"fashion-mnist-2k+contrast:severity={level}" for level in (1, 2))]
    assert [outcome.scenario for outcome in outcomes] == names


def test_a_notebook_shows_a_bar_that_is_updated(tmp_path: Path) -> None:
    shown: list[str] = []

    class Handle:
        def update(self, page: object) -> None:
            shown.append(str(page))

    def display(page: str) -> Handle:
        shown.append(page)
        return Handle()

    clock = iter(range(10_000))
    measured(data(), tmp_path, watcher=NotebookWatcher(display, lambda: float(next(clock))))
    assert "<progress" in shown[0]
    assert "2 of 2 runs" in shown[-1]
    assert "100% of 24 samples" in shown[-1]


def test_a_suite_on_a_live_module_and_arrays(tmp_path: Path) -> None:
    suite = tmp_path / "mine.toml"
    suite.write_text(
        'title = "Two"\ndataset = "fashion-mnist-2k"\n[[board]]\nname = "clean"\nscenarios = ["{dataset}"]\n'
        '[[board]]\nname = "noisy"\nscenarios = ["{dataset}+contrast:severity={1,3}"]\n'
    )
    result = holdfast.benchmark(net(), str(suite), dataset=data(), name="mine", store=str(tmp_path / "rows"))
    assert result.scores["clean"].value == pytest.approx(23 / 24)
    assert set(result.scores) == {"clean", "noisy"}
    assert list(result.rows) == ["data", "data+contrast:severity=1", "data+contrast:severity=3"]
    assert repr(result).splitlines()[1].split() == ["score", "mine"]
    assert "mine is 1 of 1" in repr(result)
    assert "<table>" in result._repr_html_()
    assert result.report(tmp_path / "page.html").read_text().count("mine") > 1
    with pytest.raises(Misuse, match="of one model"):
        holdfast.benchmark([net()], str(suite))


def test_a_suite_that_could_not_run_raises_why(tmp_path: Path) -> None:
    with pytest.raises(HoldfastError, match="channels"):
        holdfast.benchmark(net(), "quick", parts=["clean"], samples=4, store=str(tmp_path))
