"""Zero-shot classifiers: a CLIP image tower and the texts of its classes."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.core.errors import Misuse, unknown
from holdfast.core.home import data_home
from holdfast.core.registry import register
from holdfast.core.types import Classifier
from holdfast.models.classifier import described, weights_digest
from holdfast.models.extras import made_by, optional
from holdfast.models.weights import TORCH_FILES, fit_weights, read_state

Template = str | Callable[[str], str]
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
CIFAR_PROMPTS = (  # Radford et al. 2021, arXiv:2103.00020; data/prompts.md of openai/CLIP
    *("a photo of {} {}.", "a blurry photo of {} {}.", "a black and white photo of {} {}."),
    *("a low contrast photo of {} {}.", "a high contrast photo of {} {}.", "a bad photo of {} {}."),
    *("a good photo of {} {}.", "a photo of {} small {}.", "a photo of {} big {}."),
)
SCALE = 100.0  # of the cosines: where CLIP's own scale is clipped, and what its zero-shot evaluation multiplies by
COMPLETE = ("hf-hub:", "local-dir:")  # names that bring their own weights
TEXTS_AT_ONCE = 256


@register("model", "open-clip", source="https://github.com/mlfoundations/open_clip")
def open_clip_model(
    name: str,
    *,
    pretrained: str | None = None,
    classes: tuple[str, ...] = ("imagenet",),
    templates: tuple[str, ...] = ("imagenet",),
) -> Classifier:
    """A zero-shot classifier: `open-clip:ViT-B-32,pretrained=laion2b_s34b_b79k,classes=cifar10,templates=cifar10`.

    `pretrained` is a tag of open_clip or a file. `classes`: `imagenet` or `cifar10` (the names of the field), a text
    file with a name per line, or a list. `templates`: `imagenet` (80), `simple` (7), `cifar10` (18), a text file, or
    a list; `{}` stands for the class. The texts' embeddings are computed once and kept under $HOLDFAST_DATA. Differs
    from open_clip's own evaluation: images of another size are resized bilinearly, without a crop.
    """
    package = optional("open_clip", extra="open-clip")
    names, prompts = zero_shot_classes(package, classes), prompt_templates(package, templates)
    model = _created(package, name, pretrained)
    weights = kept_text_weights(package, model, name, names, prompts)
    visual = model.visual
    size = getattr(visual, "image_size", None)
    return described(
        ZeroShot(visual, weights),
        name=name,
        classes=len(names),
        channels=3,
        size=int(size[0] if isinstance(size, tuple | list) else size) if size else None,
        mean=tuple(getattr(visual, "image_mean", None) or package.OPENAI_DATASET_MEAN),
        std=tuple(getattr(visual, "image_std", None) or package.OPENAI_DATASET_STD),
        notes=f"zero-shot, {len(names)} classes, {len(prompts)} templates, weights {pretrained or name}",
    )


class ZeroShot(nn.Module):
    """Cosines between an image's embedding and those of the classes' texts, times 100."""

    texts: Tensor

    def __init__(self, visual: nn.Module, texts: Tensor) -> None:
        super().__init__()
        self.visual = visual
        self.register_buffer("texts", texts)
        self.training = visual.training

    def forward(self, images: Tensor) -> Tensor:
        features = self.visual(images)
        features = features[0] if isinstance(features, tuple) else features  # CoCa gives its tokens, too
        return SCALE * F.normalize(features, dim=-1) @ self.texts.to(features.dtype)


def zero_shot_classes(package: ModuleType, classes: Sequence[str]) -> tuple[str, ...]:
    """The classes a list stands for: one word may be a known set or a text file."""
    names = tuple(classes)
    if names == ("imagenet",):
        names = tuple(package.IMAGENET_CLASSNAMES)
    elif names == ("cifar10",):
        names = CIFAR10
    elif len(names) == 1:
        names = _lines(names[0], "classes", ("imagenet", "cifar10"))
    if len(set(names)) != len(names) or len(names) < 2:
        repeated = next((name for name in names if names.count(name) > 1), None)
        problem = f"`{repeated}` is there twice" if repeated is not None else f"got {len(names)}"
        raise Misuse(f"a zero-shot classifier has two classes or more, each once: {problem}")
    return names


def prompt_templates(package: ModuleType, templates: Sequence[str]) -> tuple[Template, ...]:
    """The templates a list stands for; `{}` in each is where the class goes."""
    texts = tuple(templates)
    if texts == ("imagenet",):
        return tuple(package.OPENAI_IMAGENET_TEMPLATES)
    if texts == ("simple",):
        return tuple(package.SIMPLE_IMAGENET_TEMPLATES)
    if texts == ("cifar10",):
        return tuple(prompt.replace("{}", article, 1) for article in ("a", "the") for prompt in CIFAR_PROMPTS)
    if len(texts) == 1 and "{}" not in texts[0]:
        texts = _lines(texts[0], "templates", ("imagenet", "simple", "cifar10"))
    for text in texts:
        if text.count("{}") != 1:
            raise Misuse(f"the template `{text}` has {text.count('{}')} places for the class", hint="write {} once")
    return texts


def text_weights(
    package: ModuleType, model: Any, name: str, names: Sequence[str], prompts: Sequence[Template]
) -> Tensor:
    """Embeddings (features x classes): the mean over templates of the texts' unit embeddings, of length 1."""
    tokenizer = package.get_tokenizer(name)
    texts = [
        prompt.replace("{}", each) if isinstance(prompt, str) else prompt(each) for each in names for prompt in prompts
    ]
    with torch.no_grad():
        parts = [
            F.normalize(model.encode_text(tokenizer(texts[start : start + TEXTS_AT_ONCE])), dim=-1)
            for start in range(0, len(texts), TEXTS_AT_ONCE)
        ]
    means = torch.cat(parts).float().reshape(len(names), len(prompts), -1).mean(dim=1)
    return F.normalize(means, dim=-1).T.contiguous()


def kept_text_weights(
    package: ModuleType, model: Any, name: str, names: Sequence[str], prompts: Sequence[Template]
) -> Tensor:
    """As `text_weights`, from the file that an earlier call left for the same weights, classes and templates."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file, save_file

    examples = [prompt if isinstance(prompt, str) else prompt("{}") for prompt in prompts]
    identity = [weights_digest(model), name, getattr(package, "__version__", ""), *names, "", *examples]
    path = data_home() / "zero-shot" / f"{hashlib.sha256(chr(0).join(identity).encode()).hexdigest()[:32]}.safetensors"
    with contextlib.suppress(OSError, SafetensorError, KeyError):
        kept: Tensor = load_file(path)["texts"]
        if kept.shape[1] == len(names):
            return kept
    texts = text_weights(package, model, name, names, prompts)
    with contextlib.suppress(OSError):  # a folder that cannot be written to costs time, no result
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}")
        save_file({"texts": texts}, partial)
        partial.replace(path)
    return texts


def _created(package: ModuleType, name: str, pretrained: str | None) -> Any:
    """The whole model with its weights; a weights file is read here, so that code in it never runs."""
    if not name.startswith(COMPLETE):
        if name not in package.list_models():
            raise unknown("open_clip model", name, package.list_models())
        if pretrained is None:
            raise Misuse(
                f"`open-clip:{name}` does not say which weights",
                hint=f"pretrained=FILE, or a tag: {', '.join(_tags(package, name)[:5]) or 'none is listed'}",
            )
    elif pretrained is not None:
        raise Misuse(f"`{name}` brings its own weights", hint="leave out `pretrained`")
    file = None if pretrained is None else Path(pretrained).expanduser()
    is_file = file is not None and (file.is_file() or file.suffix in (".safetensors", *TORCH_FILES))
    if file is not None and not is_file and pretrained not in _tags(package, name):
        raise unknown(
            f"weights of `{name}`",
            str(pretrained),
            _tags(package, name),
            otherwise="name a tag of open_clip, or a file",
        )
    state = read_state(file) if file is not None and is_file else None
    hint = "without a network, download the weights elsewhere and name the file: pretrained=FILE"
    tag = None if is_file else pretrained
    model = made_by("open_clip", name, lambda: package.create_model(name, pretrained=tag), hint=hint)
    return model if state is None else fit_weights(model, state, what=f"`{pretrained}`")


def _tags(package: ModuleType, name: str) -> list[str]:
    return list(package.list_pretrained_tags_by_model(name))


def _lines(path: str, what: str, sets: Sequence[str]) -> tuple[str, ...]:
    file = Path(path).expanduser()
    if not file.is_file():
        raise unknown(
            f"set of {what}", path, sets, otherwise="name a text file with one on each line, or write a list: [a,b]"
        )
    return tuple(line.strip() for line in file.read_text(encoding="utf-8").splitlines() if line.strip())
