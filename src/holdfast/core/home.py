"""Where files lie on this machine: what is downloaded once and used often, and the weights that measure LPIPS."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = "HOLDFAST_DATA"
LPIPS = "lpips"  # the folder in it
SELF = "self"  # the evaluated model, whose own features measure


def data_home() -> Path:
    """$HOLDFAST_DATA, or ~/.cache/holdfast/data."""
    chosen = os.environ.get(ROOT)
    return Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "holdfast" / "data"


class Weights(NamedTuple):
    """The names that a file of weights may have, and where it can be had."""

    files: tuple[str, ...]
    source: str


LPIPS_WEIGHTS = {
    "alexnet": Weights(
        ("alexnet.pth", "alexnet-owt-7be5be79.pth"), "https://download.pytorch.org/models/alexnet-owt-7be5be79.pth"
    ),
    "alexnet-cifar": Weights(
        ("alexnet_cifar.pt",), "https://perceptual-advex.s3.us-east-2.amazonaws.com/alexnet_cifar.pt"
    ),
}


def weights_file(network: str) -> Path | None:
    """The weights of a known network: in the data folder, or where torch keeps what torchvision brought."""
    torch_home = Path(os.environ.get("TORCH_HOME") or Path.home() / ".cache" / "torch").expanduser()
    folders = (data_home() / LPIPS, torch_home / "hub" / "checkpoints")
    paths = [folder / file for folder in folders for file in LPIPS_WEIGHTS[network].files]
    return next((path for path in paths if path.is_file()), None)


def first_network(networks: Sequence[str]) -> str:
    """The first of these networks that can measure on this machine; the last where none can."""
    for network in networks:
        if network == SELF or (network in LPIPS_WEIGHTS and weights_file(network) is not None):
            return network
    return networks[-1]
