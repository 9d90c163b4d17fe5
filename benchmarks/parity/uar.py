"""The attacks of advex-uar against ours: same model, same images, same radius and number of steps.

    python benchmarks/parity/uar.py --peer ADVEX_UAR --model file:MODEL.safetensors --dataset REF
        [--attacks "jpeg-l1:10,gabor-attack:10;density=1"] [--samples 200] [--steps 20] [--batch 50] [--seed 0]
        [--same-draws]

ADVEX_UAR is a checkout of github.com/ddkang/advex-uar. REF is a dataset of 32 x 32 in colour, say arrays:FILE.npz. Both
take cross-entropy and a step of radius / √steps in the attack's own terms. A sample is kept when the model is right
about the changed image. Settings after a semicolon are for ours alone. `elastic-aligned` runs theirs as the torch of
its time did: it fetches pixels by the grid that it places them by. `--same-draws` gives theirs the start and the
kernels of ours; snow, whose kernels theirs draws once per batch, then goes image by image. The difference is ours less
theirs, with its paired interval. Exits with 1 where ours leaves more than one point of accuracy more than theirs.
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
from subject import batch_of, peer_parser, right
from torch import Tensor
from torch.overrides import TorchFunctionMode

from holdfast.attacks.threat import scene_of
from holdfast.attacks.threats.jpeg_threat import BLOCK, BlockLayout
from holdfast.attacks.threats.snow_threat import KINDS, streaks
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch
from holdfast.metrics.difference_tests import paired_difference
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
CASES = (
    *("elastic:0.25", "elastic:0.5", "jpeg-linf:0.05", "jpeg-linf:0.1", "jpeg-l2:1", "jpeg-l2:2", "jpeg-l1:10"),
    *("jpeg-l1:20", "fog-attack:25", "fog-attack:50", "snow-attack:0.05", "snow-attack:0.1", "gabor-attack:5"),
    "gabor-attack:10",
)
TABLE = ",".join(f"{case};published=true,{case}" for case in CASES)
HEAD = (
    "attack                      radius  theirs    ours  difference            agree   ours broken only   theirs only"
    "   seconds (theirs, ours)   passes"
)
POINT = 0.01
WORSE = 1


def main() -> int:
    parser = peer_parser(__doc__, attacks=TABLE)
    parser.add_argument("--same-draws", action="store_true", help="theirs starts where ours does")
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
        apart = paired_difference(ours.numpy(), kept.numpy())
        interval = f"{100 * apart.value:+.1f} [{100 * apart.low:+.1f}, {100 * apart.high:+.1f}]"
        print(
            f"{name + (' ' + extra if extra else ''):28}{radius:>6}{kept.float().mean():8.1%}{ours.float().mean():8.1%}"
            f"  {interval:20}{(ours == kept).float().mean():8.1%}{int((kept & ~ours).sum()):19}"
            f"{int((ours & ~kept).sum()):14}"
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
        changed = []
        for some in torch.arange(len(batch)).split(1 if chosen.same_draws and kind == "SnowAttack" else chosen.batch):
            part = batch.take(some)
            if chosen.same_draws:
                give_draws(attack, f"{PAIRS[name][0]}:radius={radius},published=true", part, chosen.seed)
            levels = part.images * LEVELS
            changed.append(attack._forward(_levels(model), levels, part.labels, avoid_target=True).detach())
        torch.nn.functional.grid_sample = sample
    seconds = time.perf_counter() - began
    return right(model, (torch.cat(changed) / LEVELS).clamp(0, 1), batch.labels, width=chosen.batch), seconds


def give_draws(attack: Any, text: str, batch: Batch, seed: int) -> None:
    """Makes theirs start from what ours draws for these samples."""
    mine = registry.build(registry.bind("attack", text))
    noise, draw = Noise.of(seed, batch.ids), torch.zeros(len(batch), dtype=torch.int64)
    scene = scene_of(mine.threat, batch.images, torch.full((len(batch),), mine.radius), noise, draw)
    start = mine.threat.start(scene, noise, draw) / mine.radius
    kind, kernels = type(attack).__name__, scene.props.get("kernel")
    if kind == "JPEGAttack":
        flat = _in_their_order(start, batch.images).requires_grad_()  # theirs multiplies it by the radius once more
        attack._init = lambda *sizes: flat  # noqa: ARG005
    elif kind == "ElasticAttack":
        flow = (start * mine.radius * 2 / SIDE).requires_grad_()
        attack._init = lambda *sizes: flow  # noqa: ARG005
    elif kind == "FogAttack":
        fields = [field.clone().requires_grad_() for field in _wibbles((start + 1) / 2)]
        attack._init = lambda *sizes: fields  # noqa: ARG005
    elif kind == "SnowAttack":
        flakes = start.clone().requires_grad_()
        attack._init = lambda *sizes: flakes  # noqa: ARG005
        streaks_drawn = streaks(noise.scope("snow"), draw)
        module = importlib.import_module("advex_uar.attacks.snow_attack")
        module.make_kernels = lambda: [streaks_drawn[:, i : i + 1] for i in range(KINDS)]  # type: ignore[attr-defined]
    else:
        specks = start[:, None].clone().requires_grad_()
        attack._init = lambda *sizes: (specks, (start[:, None] == 0).float())  # noqa: ARG005
        attack._get_gabor_kernel = lambda *sizes: kernels[:, None]  # noqa: ARG005


def _in_their_order(coefficients: Tensor, images: Tensor) -> Tensor:
    """Theirs turns an image over its diagonal before it cuts it into blocks."""
    layout = BlockLayout.of(images)
    assert layout.chroma is not None
    luma = coefficients[:, : layout.luma_size].view(-1, 1, *layout.luma, BLOCK, BLOCK)
    chroma = coefficients[:, layout.luma_size :].view(-1, 2, *layout.chroma, BLOCK, BLOCK)
    return torch.cat([part.transpose(2, 3).transpose(4, 5).flatten(1) for part in (luma, chroma)], dim=1)


def _wibbles(field: Tensor) -> list[Tensor]:
    """Level by level: the middles of squares, then the two kinds of points between corners."""
    spacing, parts = field.shape[-1], []
    while spacing > 1:
        half = spacing // 2
        parts += [field[:, half::spacing, half::spacing], field[:, ::spacing, half::spacing]]
        parts.append(field[:, half::spacing, ::spacing])
        spacing = half
    return parts


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
