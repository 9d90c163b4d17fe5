"""StAdv and ReColor against perceptual-advex: same model, same images, same radius, steps and rate.

    python benchmarks/parity/perceptual.py --peer PERCEPTUAL_ADVEX --recoloradv RECOLORADV \\
        --model file:MODEL.safetensors --dataset REF [--samples 500] [--radii 1,0.5] [--steps 20] [--published]

PERCEPTUAL_ADVEX is a checkout of github.com/cassidylaidlaw/perceptual-advex, RECOLORADV the unpacked source of
recoloradv 0.0.1 (`pip download recoloradv --no-deps`). REF is a dataset, say arrays:FILE.npz. Radii
are multiples of each attack's default. Exits with 1 where ours leaves more than one point of accuracy more than theirs.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.abc
import io
import sys
import time
import warnings
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from unittest.mock import MagicMock

import torch
from subject import batch_of, right
from torch import Tensor

from holdfast.attacks.attack import Attack
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch
from holdfast.models import TorchClassifier, load

# packages that the peer imports and these two attacks never call: absent here, or too old for this torch
STUBS = ("torchvision", "robustness", "advex_uar", "matplotlib", "six", "tensorboardX")
PAIRS = {"stadv": ("StAdvAttack", 0.05, 0.01), "recolor": ("ReColorAdvAttack", 0.06, 0.001)}
POINT = 0.01
WORSE = 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", type=Path, required=True)
    parser.add_argument("--recoloradv", type=Path, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--attacks", default=",".join(PAIRS))
    parser.add_argument("--radii", default="1,0.5")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--published", action="store_true", help="ours as strong as theirs is meant to be")
    parser.add_argument("--rate", type=float, help="the same for both; otherwise the attack's default")
    parser.add_argument("--batch", type=int, default=50)
    chosen = parser.parse_args()

    theirs = peer(chosen.peer, chosen.recoloradv)
    model, batch = load(chosen.model, device="cpu"), batch_of(chosen.dataset, chosen.samples)
    clean = right(model, batch.images, batch.labels)
    print(f"{chosen.model}, n = {len(batch)}, clean accuracy {clean.float().mean():.1%}, {chosen.steps} steps\n")
    print("attack     radius  theirs   ours  agree  broken by ours only  theirs only  seconds (theirs  ours)  forwards")
    worse = False
    for name in chosen.attacks.split(","):
        published, default, usual = PAIRS[name]
        rate = chosen.rate or usual
        for factor in map(float, chosen.radii.split(",")):
            radius = default * factor
            text = f"{name}:radius={radius},steps={chosen.steps},rate={rate}"
            attack = registry.build(registry.bind("attack", text + (",published=true" if chosen.published else "")))
            other = getattr(theirs, published)(model.net, bound=radius, num_iterations=chosen.steps, lr=rate)
            kept, their_time = survivors_of_theirs(other, model, batch, chosen.batch)
            ours, our_time, passes = survivors_of_ours(attack, model, batch, chosen.batch)
            worse |= bool(ours.float().mean() > kept.float().mean() + POINT)
            print(
                f"{name:10} {radius:.4f} {kept.float().mean():7.1%}{ours.float().mean():7.1%}"
                f"{(ours == kept).float().mean():7.1%}{int((kept & ~ours).sum()):21}{int((ours & ~kept).sum()):13}"
                f"{their_time:17.1f}{our_time:7.1f}{passes:10.1f}",
                flush=True,
            )
    return WORSE if worse else 0


def peer(folder: Path, recoloradv: Path) -> ModuleType:
    """The published attacks, with what they import but do not use here replaced by nothing."""
    for checkout, inside in ((folder, "perceptual_advex/attacks.py"), (recoloradv, "recoloradv/perturbations.py")):
        if not (checkout / inside).exists():
            raise SystemExit(f"{checkout} has no {inside}: nothing to compare with")
        sys.path.insert(0, str(checkout))
    sys.meta_path.insert(0, Stubs())
    warnings.filterwarnings("ignore")  # of the peer: calls that torch has since renamed
    return importlib.import_module("perceptual_advex.attacks")


class Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers every import below the stubbed packages with something that accepts everything."""

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        return ModuleSpec(name, self, is_package=True) if name.split(".")[0] in STUBS else None

    def create_module(self, spec: ModuleSpec) -> MagicMock:  # type: ignore[override]
        return MagicMock(name=spec.name)

    def exec_module(self, module: ModuleType) -> None: ...


def survivors_of_theirs(
    attack: torch.nn.Module, model: TorchClassifier, batch: Batch, size: int
) -> tuple[Tensor, float]:
    began, kept = time.perf_counter(), []
    for images, labels in zip(batch.images.split(size), batch.labels.split(size), strict=True):
        with contextlib.redirect_stdout(io.StringIO()):
            made = attack(images, labels).detach()
        kept.append(right(model, images, labels) & right(model, made.clamp(0, 1), labels))
    return torch.cat(kept), time.perf_counter() - began


def survivors_of_ours(attack: Attack, model: TorchClassifier, batch: Batch, size: int) -> tuple[Tensor, float, float]:
    """Who survives, the seconds it took, and the mean passes forward per sample."""
    began = time.perf_counter()
    made = attack(model, batch, Noise.of(0, batch.ids), width=size)
    took = time.perf_counter() - began
    assert made.forwards is not None, "an attack counts its passes"
    return right(model, made.images, batch.labels), took, float(made.forwards.float().mean())


if __name__ == "__main__":
    sys.exit(main())
