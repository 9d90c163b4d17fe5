"""Our zero-shot classifiers against open_clip's own: random weights in a file, real class names and templates.

    python benchmarks/parity/zero_shot.py [--models ViT-B-32,RN50,coca_ViT-B-32] [--images 64] [--imagenet]

Needs open_clip (`pip install holdfast[open-clip]`). For each model a file of random weights is written; open_clip
computes `100 * encode_image(normalised images) @ build_zero_shot_classifier(...)` with it, and `open-clip:` the same.
CIFAR-10's names with CLIP's 18 templates; `--imagenet` adds ImageNet's 1,000 names with the 7 simple ones. Prints the
largest difference of logits and exits with 1 where one is above 1e-4 (logits reach 100).
"""

from __future__ import annotations

import argparse
import importlib
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from importing import declare_torchvision_operators
from torch import Tensor

from holdfast.models import load
from holdfast.models.open_clip import SCALE, prompt_templates, zero_shot_classes

LIMIT = 1e-4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="ViT-B-32,RN50,coca_ViT-B-32")
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--imagenet", action="store_true")
    args = parser.parse_args()
    declare_torchvision_operators()
    package: Any = importlib.import_module("open_clip")
    settings = [("cifar10", "cifar10"), *([("imagenet", "simple")] if args.imagenet else [])]
    worst = 0.0
    for name in args.models.split(","):
        for classes, templates in settings:
            started = time.perf_counter()
            difference = compare(package, name, classes, templates, args.images)
            seconds = time.perf_counter() - started
            print(f"{name:16} {classes:9} {templates:9} {difference:.1e}  {seconds:.0f} s", flush=True)
            worst = max(worst, difference)
    print(f"open_clip {package.__version__}: largest difference {worst:.1e}")
    return int(worst > LIMIT)


def compare(package: Any, name: str, classes: str, templates: str, count: int) -> float:
    torch.manual_seed(0)
    model = package.create_model(name, pretrained=None).eval()
    for key, tensor in model.state_dict().items():
        if key.endswith("running_var"):
            tensor.uniform_(0.5, 1.5)
    size = model.visual.image_size
    images = torch.rand(count, 3, *(size if isinstance(size, tuple) else (size, size)))
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        os.environ["HOLDFAST_DATA"] = folder
        torch.save(model.state_dict(), Path(folder) / "w.pt")
        expected = theirs(package, model, name, classes, templates, images)
        ref = f"open-clip:{name},pretrained={folder}/w.pt,classes={classes},templates={templates}"
        first = load(ref)(images)
        kept = load(ref)(images)
    assert torch.equal(first, kept), "the kept text weights give the same logits"
    assert (expected.max() - expected.min()) > LIMIT, "the logits say something"
    return float((first - expected).abs().max())


def theirs(package: Any, model: Any, name: str, classes: str, templates: str, images: Tensor) -> Tensor:
    """As open_clip's own zero-shot evaluation computes it."""
    mean, std = (torch.tensor(numbers)[:, None, None] for numbers in (model.visual.image_mean, model.visual.image_std))
    classifier = package.build_zero_shot_classifier(
        model,
        tokenizer=package.get_tokenizer(name),
        classnames=list(zero_shot_classes(package, (classes,))),
        templates=list(prompt_templates(package, (templates,))),
    )
    features = model.encode_image((images - mean) / std, normalize=True)
    logits: Tensor = SCALE * features @ classifier
    return logits


if __name__ == "__main__":
    raise SystemExit(main())
