"""Posterior agreement and accuracy under attack (AFR_T) over ratio and radius, of three models.

    python scripts/make_agreement_curves.py --store curves

Writes docs/agreement-curves.csv, which the page of findings reads. The models: an undefended one, one trained with PGD,
and the undefended one behind two defences that hide its gradients: JPEG of its images, whose rounding an attack takes
for the identity, and a reverse sigmoid of its probabilities (Lee et al. 2018, arXiv:1806.00054). Rows that the store
holds are not measured again.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import torch
from torch import Tensor, nn

from holdfast.corruptions.jpeg_tensors import through_jpeg
from holdfast.engine.evaluate import evaluate
from holdfast.metrics.along_ratios import ADVERSARIAL_RATIOS, over_adversarial_ratio
from holdfast.models import Classifier, TorchClassifier, load, wrap
from holdfast.store.store import Store

TABLE = Path(__file__).parents[1] / "docs" / "agreement-curves.csv"
DATASET, SAMPLES = "cifar10", 300
RADII = (2, 4, 8, 16, 32)  # of 255, as in the paper
ATTACK = "pgd-linf:radius={}/255,steps=20,random_start=false,all_steps=true"
UNDEFENDED, DEFENDED, MASKED = "cifar10-standard-r20", "cifar10-at-linf-r20", "jpeg-and-reverse-sigmoid"
FIELDS = ("model", "role", "radius", "ratio", "pa", "low", "high", "beta", "afr_t", "n", "runs")


class Masked(nn.Module):
    """A network behind JPEG and a reverse sigmoid; answers with log-probabilities."""

    def __init__(self, net: nn.Module, quality: int = 75, strength: float = 0.5, slope: float = 0.4) -> None:
        super().__init__()
        self.net, self.quality, self.strength, self.slope = net, quality, strength, slope

    def forward(self, images: Tensor) -> Tensor:
        rounded = (images.detach() * 255).round().clamp(0, 255).to(torch.uint8)
        compressed = through_jpeg(rounded, self.quality).to(images) / 255
        p = self.net(images + (compressed - images).detach()).softmax(dim=1)
        noise = self.strength * ((self.slope * torch.logit(p, eps=1e-6)).sigmoid() - 0.5)
        shifted = (p - noise).clamp_min(1e-6)
        return (shifted / shifted.sum(dim=1, keepdim=True)).log()


def models() -> dict[str, Classifier]:
    undefended = load(UNDEFENDED)
    assert isinstance(undefended, TorchClassifier)
    masked = wrap(Masked(undefended.net).eval(), name=MASKED, classes=10, channels=3, size=32)
    return {"undefended": undefended, "defended": load(DEFENDED), "masking": masked}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, required=True, help="folder of rows")
    parser.add_argument("--write", type=Path, default=TABLE)
    parser.add_argument("--device", default="auto")
    given = parser.parse_args()
    store, lines = Store(str(given.store)), []
    scenarios = [DATASET, *(f"{DATASET}+{ATTACK.format(radius)}" for radius in RADII)]
    for role, model in models().items():
        outcomes = evaluate(model, scenarios, store=store, samples=SAMPLES, device=given.device, pictures=0)
        clean, *attacked = (outcome.result for outcome in outcomes)
        for radius, rows in zip(RADII, attacked, strict=True):
            for point in over_adversarial_ratio(clean, rows, ratios=ADVERSARIAL_RATIOS[1:]):
                score = point.agreement.score
                numbers = [score.value, score.low, score.high, point.agreement.beta.value, 100 * point.afr_t.value]
                shown = [f"{number:.6g}" for number in numbers]
                runs = f"{clean.footer.key} {rows.footer.key}"
                lines.append([model.card.name, role, radius, point.ratio, *shown, len(rows), runs])
    with given.write.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FIELDS)
        writer.writerows(lines)
    print(given.write)


if __name__ == "__main__":
    main()
