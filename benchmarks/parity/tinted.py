"""A bundled network in colour at 32 x 32 that a CPU attacks quickly: `fashion-at-linf` on tinted images.

    python benchmarks/parity/tinted.py TINTED.npz
    python benchmarks/parity/uar.py --model python:tinted:model --dataset arrays:TINTED.npz …

Run the second from this folder, where `python:tinted:model` is found. Every image of `fashion-mnist-2k` gets a frame of
two black pixels and a tint of its own that leaves its luma as it was; the network sees the luma without the frame.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.core.registry import registry
from holdfast.core.types import ModelCard
from holdfast.models import TorchClassifier, load

FRAME = 2
LUMA = (0.299, 0.587, 0.114)


class Luma(nn.Module):
    """A network for grey images that is shown colour ones with a frame."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.register_buffer("weights", torch.tensor(LUMA).view(1, 3, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        grey = (images * self.weights).sum(dim=1, keepdim=True)
        logits: Tensor = self.net(grey[:, :, FRAME:-FRAME, FRAME:-FRAME])
        return logits


def model() -> TorchClassifier:
    net = load("fashion-at-linf", device="cpu").net
    card = ModelCard("fashion-at-linf-tinted", "benchmarks/parity/tinted.py", classes=10, channels=3, size=32)
    return TorchClassifier(Luma(net).eval(), card)


def main() -> int:
    dataset = registry.build(registry.bind("dataset", "fashion-mnist-2k"))
    grey = torch.as_tensor(dataset.images(list(range(len(dataset.ids)))).pixels).float() / 255
    grey = F.pad(grey, (FRAME,) * 4)
    colour = torch.rand(len(grey), 3, 1, 1, generator=torch.Generator().manual_seed(0))
    tint = colour - (colour * torch.tensor(LUMA).view(1, 3, 1, 1)).sum(dim=1, keepdim=True)
    images = ((grey + tint * grey * (1 - grey)) * 255).round().byte()
    np.savez(Path(sys.argv[1]), images=images.permute(0, 2, 3, 1).numpy(), labels=dataset.labels)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
