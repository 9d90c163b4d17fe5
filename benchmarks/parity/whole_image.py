"""Hue, saturation, brightness, contrast, affine and perspective attacks against MultiRobustBench.

    python benchmarks/parity/whole_image.py --peer MULTIROBUSTBENCH --model file:MODEL.safetensors --dataset REF
        [--attacks hue-attack:0.5,affine:0.05] [--samples 500] [--steps 20] [--batch 50] [--seed 0]

MULTIROBUSTBENCH is a checkout of github.com/multirobustbench/multirobustbench; it needs kornia 0.6.9. REF is a dataset
in colour. Ours takes `published=true` and both draw their own starts. The difference is ours less theirs, with its
paired interval. Exits with 1 where ours leaves more than one point of accuracy more than theirs.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from types import ModuleType
from unittest.mock import MagicMock

import torch
from subject import batch_of, ours, peer_parser, right
from torch import Tensor
from uar import OnCpu

from holdfast.core.types import Batch
from holdfast.metrics.difference_tests import paired_difference
from holdfast.models import TorchClassifier, load

PAIRS = {
    "hue-attack": "Hue",
    "saturation-attack": "Saturation",
    "brightness-attack": "Brightness",
    "contrast-attack": "Contrast",
    "affine": "AffineWarp",
    "perspective": "PerspectiveWarp",
}
CASES = "hue-attack:0.5,saturation-attack:0.5,brightness-attack:0.2,contrast-attack:0.5,affine:0.05,perspective:0.001"
# what the peer imports at its top and these attacks never call
STUBS = (
    *("autoattack", "autoattack.autopgd_base", "perceptual_advex", "perceptual_advex.attacks"),
    *("perceptual_advex.perceptual_attacks", "recoloradv", "recoloradv.mister_ed"),
)
POINT = 0.01
WORSE = 1


def main() -> int:
    parser = peer_parser(__doc__, attacks=CASES, samples=500)
    chosen = parser.parse_args()

    theirs = peer(chosen.peer)
    model, batch = load(chosen.model, device="cpu"), batch_of(chosen.dataset, chosen.samples)
    clean = right(model, batch.images, batch.labels)
    print(f"{chosen.model}, n = {len(batch)}, clean accuracy {clean.float().mean():.1%}, {chosen.steps} steps")
    print("attack               radius  theirs    ours  difference            agree")
    worse = False
    for case in chosen.attacks.split(","):
        name, _, radius = case.partition(":")
        kept = kept_by_theirs(theirs, name, float(radius), model, batch, chosen)
        text = f"{name}:radius={radius},steps={chosen.steps},published=true"
        mine = ours(model, batch, text, width=chosen.batch, seed=chosen.seed).right
        apart = paired_difference(mine.numpy(), kept.numpy())
        interval = f"{100 * apart.value:+.1f} [{100 * apart.low:+.1f}, {100 * apart.high:+.1f}]"
        print(
            f"{name:21}{radius:>6}{kept.float().mean():8.1%}{mine.float().mean():8.1%}  {interval:20}"
            f"{(mine == kept).float().mean():8.1%}",
            flush=True,
        )
        worse |= bool(mine.float().mean() > kept.float().mean() + POINT)
    return WORSE if worse else 0


def peer(folder: Path) -> ModuleType:
    """The published attacks, with what they import but do not use here replaced by nothing."""
    if not (folder / "attacks/attacks.py").exists():
        raise SystemExit(f"{folder} has no attacks/attacks.py: nothing to compare with")
    sys.path.insert(0, str(folder))
    for name in STUBS:
        sys.modules[name] = MagicMock()
    sys.modules["perceptual_advex.attacks"].MisterEdAttack = torch.nn.Module  # type: ignore[attr-defined]
    sys.modules["perceptual_advex.attacks"].UARAttack = torch.nn.Module  # type: ignore[attr-defined]
    return importlib.import_module("attacks.attacks")


def kept_by_theirs(
    theirs: ModuleType, name: str, radius: float, model: TorchClassifier, batch: Batch, chosen: argparse.Namespace
) -> Tensor:
    torch.manual_seed(chosen.seed)
    kept = []
    with OnCpu():
        attack = getattr(theirs, PAIRS[name])(model, radius, num_iterations=chosen.steps)
        for some in torch.arange(len(batch)).split(chosen.batch):
            made = attack(batch.images[some], batch.labels[some]).detach().clamp(0, 1)
            kept.append(right(model, made, batch.labels[some]))
    return torch.cat(kept)


if __name__ == "__main__":
    raise SystemExit(main())
