"""The attacks of advex-uar against ours: same model, same images, same radius and number of steps.

    python benchmarks/parity/uar.py --peer ADVEX_UAR --model file:MODEL.safetensors --dataset REF
        [--attacks "jpeg-l1:10,gabor-attack:10;density=1"] [--samples 200] [--steps 20] [--batch 50] [--seed 0]

ADVEX_UAR is a checkout of github.com/ddkang/advex-uar. REF is a dataset of 32 x 32 in colour, say arrays:FILE.npz. Both
take cross-entropy and a step of radius / √steps in the attack's own terms. A sample is kept when the model is right
about the changed image. Settings after a semicolon are for ours alone. `elastic-aligned` runs theirs as the torch of
its time did: it fetches pixels by the grid that it places them by. Exits with 1 where ours leaves more than one point
of accuracy more than theirs.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import math
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from subject import batch_of, right
from torch import Tensor
from torch.overrides import TorchFunctionMode

from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch
from holdfast.models import TorchClassifier, load

SIDE, LEVELS = 32, 255.0
# name → our attack, their class and its settings
PAIRS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "elastic": ("elastic", "ElasticAttack", {"kernel_size": 5, "kernel_std": 3.0 / 224.0 * SIDE}),
    "elastic-aligned": ("elastic", "ElasticAttack", {"kernel_size": 5, "kernel_std": 3.0 / 224.0 * SIDE}),
    "jpeg-linf": ("jpeg-linf", "JPEGAttack", {"opt": "linf"}),
    "jpeg-l2": ("jpeg-l2", "JPEGAttack", {"opt": "l2"}),
    "jpeg-l1": ("jpeg-l1", "JPEGAttack", {"opt": "l1"}),
    "fog-attack": ("fog-attack", "FogAttack", {}),
    "snow-attack": ("snow-attack", "SnowAttack", {}),
    "gabor-attack": ("gabor-attack", "GaborAttack", {}),
}
TABLE = (
    "elastic:0.25;published_grid=true,elastic:0.5;published_grid=true,elastic-aligned:0.25,elastic-aligned:0.5,jpeg-linf:0.05,jpeg-linf:0.1,jpeg-l2:1,"
    "jpeg-l2:2,jpeg-l1:10,jpeg-l1:20,fog-attack:25,fog-attack:50,snow-attack:0.05,snow-attack:0.1,"
    "gabor-attack:5,gabor-attack:10,gabor-attack:5;density=1,gabor-attack:10;density=1"
)
HEAD = (
    "attack                      radius  theirs    ours   agree   ours broken only   theirs only"
    "   seconds (theirs, ours)   passes"
)
POINT = 0.01
WORSE = 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", type=Path, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--attacks", default=TABLE)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()

    theirs = peer(chosen.peer)
    model, batch = load(chosen.model, device="cpu"), batch_of(chosen.dataset, chosen.samples)
    clean = right(model, batch.images, batch.labels, width=chosen.batch)
    print(f"{chosen.model}, n = {len(batch)}, clean accuracy {clean.float().mean():.1%}, {chosen.steps} steps\n{HEAD}")
    worse, known = False, {}
    for case in chosen.attacks.split(","):
        name, _, rest = case.partition(":")
        radius, _, extra = rest.replace(";", ",").partition(",")
        if (name, radius) not in known:
            known[name, radius] = kept_by_theirs(theirs, name, float(radius), model, batch, chosen)
        kept, their_time = known[name, radius]
        ours, our_time, passes = kept_by_ours(
            f"{PAIRS[name][0]}:radius={radius},steps={chosen.steps}{',' + extra if extra else ''}",
            model,
            batch,
            chosen,
        )
        worse |= bool(ours.float().mean() > kept.float().mean() + POINT)
        print(
            f"{name + (' ' + extra if extra else ''):28}{radius:>6}{kept.float().mean():8.1%}{ours.float().mean():8.1%}"
            f"{(ours == kept).float().mean():8.1%}{int((kept & ~ours).sum()):19}{int((ours & ~kept).sum()):14}"
            f"{their_time:17.1f}{our_time:8.1f}{passes:9.1f}",
            flush=True,
        )
    return WORSE if worse else 0


def peer(folder: Path) -> ModuleType:
    """The published attacks. They import torchvision, which none of them uses."""
    if not (folder / "advex_uar" / "attacks").is_dir():
        raise SystemExit(f"{folder} has no advex_uar/attacks: nothing to compare with")
    sys.path.insert(0, str(folder))
    sys.modules.setdefault("torchvision", ModuleType("torchvision"))
    return importlib.import_module("advex_uar.attacks")


class OnCpu(TorchFunctionMode):
    """Sends what is written for a GPU to the CPU."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is Tensor.cuda:
            return args[0]
        kwargs = dict(kwargs or {})
        if kwargs.get("device") == "cuda":
            kwargs["device"] = "cpu"
        return func(*args, **kwargs)


def kept_by_theirs(
    theirs: ModuleType, name: str, radius: float, model: TorchClassifier, batch: Batch, chosen: argparse.Namespace
) -> tuple[Tensor, float]:
    _, kind, extra = PAIRS[name]
    torch.manual_seed(chosen.seed)
    np.random.seed(chosen.seed)  # noqa: NPY002 - theirs draws from it
    sample = torch.nn.functional.grid_sample
    began = time.perf_counter()
    with warnings.catch_warnings(), OnCpu():
        warnings.simplefilter("ignore")
        if name.endswith("aligned"):
            torch.nn.functional.grid_sample = functools.partial(sample, align_corners=True)  # type: ignore[assignment]
        attack = getattr(theirs, kind)(chosen.steps, radius, radius / math.sqrt(chosen.steps), SIDE, **extra)
        changed = [
            attack._forward(_levels(model), batch.images[some] * LEVELS, batch.labels[some], avoid_target=True).detach()
            for some in torch.arange(len(batch)).split(chosen.batch)
        ]
        torch.nn.functional.grid_sample = sample
    seconds = time.perf_counter() - began
    return right(model, (torch.cat(changed) / LEVELS).clamp(0, 1), batch.labels, width=chosen.batch), seconds


def _levels(model: TorchClassifier) -> Callable[[Tensor], Tensor]:
    return lambda pixels: model(pixels / LEVELS)


def kept_by_ours(
    text: str, model: TorchClassifier, batch: Batch, chosen: argparse.Namespace
) -> tuple[Tensor, float, float]:
    attack = registry.build(registry.bind("attack", text))
    began = time.perf_counter()
    changed = attack(model, batch, Noise.of(chosen.seed, batch.ids), width=chosen.batch)
    seconds = time.perf_counter() - began
    assert not changed.reasons, changed.reasons
    passes = float((changed.forwards + changed.backwards).float().mean())
    return right(model, changed.images, batch.labels, width=chosen.batch), seconds, passes


if __name__ == "__main__":
    raise SystemExit(main())
