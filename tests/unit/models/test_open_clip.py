"""Zero-shot classifiers against an independent computation, with a stand-in for open_clip; and its edges."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.models import load

IMAGES = torch.rand(3, 3, 8, 8, generator=torch.Generator().manual_seed(1))
MEAN, STD = (0.48, 0.45, 0.41), (0.27, 0.26, 0.25)


class Tower(nn.Module):
    image_size, image_mean, image_std = (8, 8), MEAN, STD

    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(192, 5)

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.proj(images.flatten(1))
        return features


class Clip(nn.Module):
    """Texts are embedded by the mean of their letters' vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.visual, self.letters = Tower(), nn.Embedding(128, 5)
        self.logit_scale = nn.Parameter(torch.tensor(2.0))

    def encode_text(self, tokens: Tensor, normalize: bool = False) -> Tensor:
        assert not normalize
        return (self.letters(tokens) * (tokens > 0)[..., None]).sum(1)


def tokens_of(texts: list[str]) -> Tensor:
    width = max(map(len, texts))
    return torch.tensor([[ord(letter) % 128 for letter in text.ljust(width, "\0")] for text in texts])


@pytest.fixture
def clip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimpleNamespace:
    """A stand-in with the interface of open_clip; `texts` are those that were embedded."""
    package: Any = ModuleType("open_clip")
    seen = SimpleNamespace(texts=[], created=[])

    def create_model(name: str, pretrained: str | None = None) -> nn.Module:
        seen.created.append((name, pretrained))
        if pretrained == "offline":
            raise RuntimeError("cannot download")
        torch.manual_seed(0)
        return Clip()

    def tokenizer(texts: list[str]) -> Tensor:
        seen.texts += texts
        return tokens_of(texts)

    package.create_model, package.get_tokenizer = create_model, lambda name: tokenizer
    package.list_models = lambda: ["ViT-B-32", "RN50"]
    package.list_pretrained_tags_by_model = lambda name: ["laion2b", "offline"]
    package.IMAGENET_CLASSNAMES = ["tench", "goldfish", "great white shark"]
    package.OPENAI_IMAGENET_TEMPLATES = [lambda c: f"a bad photo of a {c}.", lambda c: f"a {c} in a video game."]
    package.SIMPLE_IMAGENET_TEMPLATES = [lambda c: f"itap of a {c}."]
    package.OPENAI_DATASET_MEAN, package.OPENAI_DATASET_STD = MEAN, STD
    monkeypatch.setitem(sys.modules, "open_clip", package)
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path / "data"))
    return seen


def by_hand(net: Clip, images: Tensor, texts: list[list[str]]) -> Tensor:
    """100 x cosine between the image and the mean of its class's unit text vectors, one number at a time."""
    mean, std = (torch.tensor(numbers).reshape(3, 1, 1) for numbers in (MEAN, STD))
    rows = []
    for image in images:
        seen = net.visual.proj(((image - mean) / std).flatten())
        row = []
        for per_class in texts:
            vectors = [sum(net.letters.weight[ord(letter)] for letter in text) for text in per_class]
            middle = sum(vector / vector.norm() for vector in vectors) / len(vectors)  # type: ignore[union-attr, operator]
            row.append(100 * seen @ middle / (seen.norm() * middle.norm()))  # type: ignore[union-attr]
        rows.append(torch.stack(row))
    return torch.stack(rows).detach()


def other_weights(path: Path) -> Clip:
    torch.manual_seed(7)
    net = Clip()
    torch.save({"state_dict": {f"module.{key}": value for key, value in net.state_dict().items()}, "epoch": 3}, path)
    return net


@pytest.mark.usefixtures("clip")
def test_logits_are_the_cosines_with_the_mean_of_a_classs_texts(tmp_path: Path) -> None:
    net = other_weights(tmp_path / "w.pt")
    model = load(f'open-clip:RN50,pretrained={tmp_path}/w.pt,classes=[cat,dog,fox],templates=["a {{}}.","the {{}}"]')
    texts = [[f"a {name}.", f"the {name}"] for name in ("cat", "dog", "fox")]
    torch.testing.assert_close(model(IMAGES), by_hand(net, IMAGES, texts), rtol=1e-5, atol=1e-4)
    assert (model.card.classes, model.card.size, model.card.channels) == (3, 8, 3)
    images = IMAGES.clone().requires_grad_()
    model(images).sum().backward()
    assert images.grad is not None


def test_names_and_templates_of_the_field_are_known(clip: SimpleNamespace) -> None:
    assert load("open-clip:ViT-B-32,pretrained=laion2b").card.classes == 3
    assert clip.texts[:2] == ["a bad photo of a tench.", "a tench in a video game."]
    clip.texts.clear()
    assert load("open-clip:ViT-B-32,pretrained=laion2b,classes=cifar10,templates=cifar10").card.classes == 10
    assert len(clip.texts) == len(set(clip.texts)) == 180
    assert clip.texts[0] == "a photo of a airplane."
    assert clip.texts[-1] == "a photo of the big truck."
    clip.texts.clear()
    load("open-clip:ViT-B-32,pretrained=laion2b,templates=simple")
    assert clip.texts == ["itap of a tench.", "itap of a goldfish.", "itap of a great white shark."]


def test_classes_and_templates_come_from_text_files(clip: SimpleNamespace, tmp_path: Path) -> None:
    (tmp_path / "classes.txt").write_text("polar bear\n\nice cream \n")
    (tmp_path / "prompts.txt").write_text("a photo of {}\n{}, drawn\n")
    load(f"open-clip:RN50,pretrained=laion2b,classes={tmp_path}/classes.txt,templates={tmp_path}/prompts.txt")
    assert clip.texts == ["a photo of polar bear", "polar bear, drawn", "a photo of ice cream", "ice cream, drawn"]


def test_texts_are_embedded_once_for_the_same_weights_classes_and_templates(
    clip: SimpleNamespace, tmp_path: Path
) -> None:
    ref = 'open-clip:RN50,pretrained=laion2b,classes=[cat,dog],templates="a {}"'
    first = load(ref)
    assert len(clip.texts) == 2
    second = load(ref)
    assert len(clip.texts) == 2
    assert torch.equal(first(IMAGES), second(IMAGES))
    assert first.card.weights == second.card.weights
    load(ref.replace("dog", "cow"))
    load(ref.replace('"a {}"', '"the {}"'))
    other_weights(tmp_path / "w.pt")
    load(ref.replace("laion2b", f"{tmp_path}/w.pt"))
    assert len(clip.texts) == 8
    for kept in (tmp_path / "data" / "zero-shot").iterdir():
        kept.write_bytes(b"cut short")
    assert torch.equal(load(ref)(IMAGES), first(IMAGES))
    assert len(clip.texts) == 10


@pytest.mark.usefixtures("clip")
@pytest.mark.parametrize(
    ("ref", "problem", "hint"),
    [
        ("open-clip:ViT-B-23,pretrained=laion2b", "no open_clip model named `ViT-B-23`", "ViT-B-32"),
        ("open-clip:RN50", "does not say which weights", "laion2b"),
        ("open-clip:RN50,pretrained=laion2", "no weights of `RN50` named `laion2`", "laion2b"),
        ("open-clip:RN50,pretrained=absent.pt", "there is no weights file `absent.pt`", ""),
        ("open-clip:RN50,pretrained=offline", "open_clip cannot make `RN50`: cannot download", "pretrained=FILE"),
        ("open-clip:RN50,pretrained=laion2b,classes=imagnet", "no set of classes named `imagnet`", "imagenet"),
        ("open-clip:RN50,pretrained=laion2b,classes=[cat,cat]", "`cat` is there twice", ""),
        ("open-clip:RN50,pretrained=laion2b,templates=[a {},b]", "the template `b` has 0 places", "{}"),
        ("open-clip:hf-hub:a/b,pretrained=laion2b", "brings its own weights", "leave out"),
    ],
)
def test_what_is_wrong_is_said(ref: str, problem: str, hint: str) -> None:
    with pytest.raises(HoldfastError, match=problem) as raised:
        load(ref)
    assert hint in str(raised.value.hint or "")


def test_code_in_a_weights_file_never_runs(clip: SimpleNamespace, tmp_path: Path) -> None:
    torch.save(SimpleNamespace(weights=Clip()), tmp_path / "w.pt")
    with pytest.raises(HoldfastError, match="more than tensors"):
        load(f"open-clip:RN50,pretrained={tmp_path}/w.pt")
    assert clip.created == []


def test_without_the_package_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "open_clip", None)
    with pytest.raises((HoldfastError, Misuse)) as raised:
        load("open-clip:RN50,pretrained=laion2b")
    assert "holdfast[open-clip]" in str(raised.value.hint)
