"""PPGD, LPA and Fast-LPA against perceptual-advex: same model, same images, the model's own features as judge of both.

    python benchmarks/parity/lpips.py --peer PERCEPTUAL_ADVEX --model file:MODEL.safetensors --dataset REF
        [--samples 200] [--attacks ppgd,ppgd;published=true,lpa] [--radii 0.1,0.3] [--steps 20] [--batch 50]
        [--seed 0] [--same-start]

PERCEPTUAL_ADVEX is a checkout of github.com/cassidylaidlaw/perceptual-advex. REF is a dataset, say
arrays:FILE.npz. The published projection may leave an image outside the bound, so its accuracy is given twice: as it
comes, and with only the images inside counted. Settings after a semicolon are for ours alone. `--same-start` gives
theirs the noise that ours starts from, so that no draw is left between them. The difference is ours less theirs inside,
with its paired interval. Exits with 1 where ours leaves more than a point of accuracy more.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple
from unittest.mock import MagicMock, patch

import torch
from subject import batch_of, peer_parser
from torch import Tensor, nn

from holdfast.attacks.perceptual.lpips import distance, network_for
from holdfast.attacks.perceptual.lpips_ball import START
from holdfast.attacks.success import is_within, is_wrong
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch
from holdfast.metrics.difference_tests import paired_difference
from holdfast.models import TorchClassifier, load

# what the peer imports at its top and these attacks never call: absent here, or too old for this torch
STUBS = (
    *(
        "torchvision",
        "torchvision.models",
        "torchvision.datasets",
        "torchvision.datasets.vision",
        "torchvision.transforms",
    ),
    *("robustness", "robustness.attacker", "robustness.cifar_models", "robustness.cifar_models.resnet"),
    *("robustness.datasets", "robustness.data_augmentation", "robustness.model_utils"),
    *("advex_uar", "advex_uar.common", "advex_uar.common.pyt_common"),
)
PEERS = {
    "ppgd": ("PerceptualPGDAttack", {}),
    "lpa": ("LagrangePerceptualAttack", {}),
    "fast-lpa": ("FastLagrangePerceptualAttack", {"projection": "newtons"}),
}
POINT = 0.01
WORSE = 1


def main() -> int:
    parser = peer_parser(__doc__, attacks="ppgd,lpa")
    parser.add_argument("--radii", default="0.1,0.3")
    parser.add_argument("--same-start", action="store_true", help="theirs starts from our noise")
    chosen = parser.parse_args()

    theirs = peer(chosen.peer)
    model, batch = load(chosen.model, device="cpu"), batch_of(chosen.dataset, chosen.samples)
    with torch.no_grad():
        clean = ~is_wrong(model(batch.images), batch.labels)
    print(f"{chosen.model}, n = {len(batch)}, clean accuracy {clean.float().mean():.1%}, {chosen.steps} steps")
    print(
        "attack                   radius  theirs  theirs inside   ours  difference           agree  only ours breaks"
        "  only theirs  seconds       forwards"
    )
    worse, known = False, {}
    for case in chosen.attacks.split(","):
        name, _, extra = case.partition(";")
        for radius in map(float, chosen.radii.split(",")):
            if (name, radius) not in known:
                known[name, radius] = survivors_of_theirs(theirs, name, model, batch, radius, chosen)
            kept = known[name, radius]
            text = f"{name}:radius={radius},steps={chosen.steps}{',' + extra if extra else ''}"
            row = compared(kept, text, model, batch, chosen)
            worse |= bool(row.ours.float().mean() > row.inside.float().mean() + POINT)
            print(f"{name + (' ' + extra if extra else ''):24} {radius:6} {row}", flush=True)
    return WORSE if worse else 0


class Row:
    """Who survives: theirs as they come, theirs with only what is inside counted, ours."""

    def __init__(
        self, theirs: Tensor, inside: Tensor, ours: Tensor, seconds: list[float], forwards: list[float]
    ) -> None:
        self.theirs, self.inside, self.ours, self.seconds, self.forwards = theirs, inside, ours, seconds, forwards

    def __str__(self) -> str:
        theirs, inside, ours = (kept.float().mean() for kept in (self.theirs, self.inside, self.ours))
        apart = paired_difference(self.ours.numpy(), self.inside.numpy())
        interval = f"{100 * apart.value:+.1f} [{100 * apart.low:+.1f}, {100 * apart.high:+.1f}]"
        return (
            f"{theirs:7.1%} {inside:14.1%} {ours:6.1%}  {interval:20} {(self.ours == self.inside).float().mean():6.1%}"
            f"{int((self.inside & ~self.ours).sum()):18}{int((self.ours & ~self.inside).sum()):13}"
            f"{self.seconds[0]:9.0f},{self.seconds[1]:5.0f}{self.forwards[0]:9.0f},{self.forwards[1]:5.0f}"
        )


class Kept(NamedTuple):
    """Who survives theirs, as they come and with only what is inside counted, its seconds and passes per sample."""

    everyone: Tensor
    inside: Tensor
    seconds: float
    forwards: float


def survivors_of_theirs(
    theirs: ModuleType, name: str, model: TorchClassifier, batch: Batch, radius: float, chosen: argparse.Namespace
) -> Kept:
    shown = Shown(model, batch.images)
    published, more = PEERS[name]
    other = getattr(theirs, published)(shown, bound=radius, num_iterations=chosen.steps, lpips_model="self", **more)
    torch.manual_seed(chosen.seed)
    began, kept, inside = time.perf_counter(), [], []
    for some in torch.arange(len(batch)).split(chosen.batch):
        images, labels = batch.images[some], batch.labels[some]
        with started_as_ours(batch.take(some), chosen.seed) if chosen.same_start else contextlib.nullcontext():
            made = other(images.clone(), labels).detach().clamp(0, 1)
        with torch.no_grad():
            wrong, right = is_wrong(model(made), labels), ~is_wrong(model(images), labels)
            near = is_within(distance(shown.look, images, made), torch.full((len(images),), radius))
        kept.append(right & ~wrong)
        inside.append(right & ~(wrong & near))
    seconds = time.perf_counter() - began
    return Kept(torch.cat(kept), torch.cat(inside), seconds, shown.forwards / len(batch))


@contextlib.contextmanager
def started_as_ours(batch: Batch, seed: int) -> Iterator[None]:
    """Every normal noise that is drawn in here is the start of ours: theirs draws nothing else."""
    draw = torch.zeros(len(batch), dtype=torch.int64)
    start = START * Noise.of(seed, batch.ids).normal("start", batch.images.shape[1:], draw=draw)
    with patch.object(Tensor, "normal_", lambda tensor, mean, spread: tensor.copy_(start)):  # noqa: ARG005
        yield


def compared(kept: Kept, text: str, model: TorchClassifier, batch: Batch, chosen: argparse.Namespace) -> Row:
    began = time.perf_counter()
    attack = registry.build(registry.bind("attack", text))
    changed = attack(model, batch, Noise.of(chosen.seed, batch.ids), width=chosen.batch)
    seconds = [kept.seconds, time.perf_counter() - began]
    with torch.no_grad():
        ours = ~is_wrong(model(changed.images), batch.labels) & ~is_wrong(model(batch.images), batch.labels)
    forwards = [kept.forwards, float(changed.forwards.float().mean())]
    return Row(kept.everyone, kept.inside, ours, seconds, forwards)


class Shown(nn.Module):
    """A classifier as the peer wants it: features, logits, or both in one pass."""

    def __init__(self, model: TorchClassifier, images: Tensor) -> None:
        super().__init__()
        self.model, self.look, self.forwards = model, network_for("self", model, images), 0

    def features(self, images: Tensor) -> tuple[Tensor, ...]:
        return self.features_logits(images)[0]

    def features_logits(self, images: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
        self.forwards += len(images)
        logits: list[Tensor] = []
        hook = self.model.register_forward_hook(lambda module, args, output: logits.append(output))  # noqa: ARG005
        maps = tuple(self.look(images))
        hook.remove()
        return maps, logits[0]

    def forward(self, images: Tensor) -> Tensor:
        return self.features_logits(images)[1]


def peer(folder: Path) -> ModuleType:
    """The published attacks, with what they import but do not use here replaced by nothing."""
    if not (folder / "perceptual_advex/perceptual_attacks.py").exists():
        raise SystemExit(f"{folder} is no checkout of perceptual-advex, so there is nothing to compare with")
    sys.path.insert(0, str(folder))
    for name in STUBS:
        sys.modules[name] = MagicMock()
    return importlib.import_module("perceptual_advex.perceptual_attacks")


if __name__ == "__main__":
    sys.exit(main())
