"""Where the weights of the networks that measure LPIPS lie on this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from holdfast.core.home import data_home

FOLDER = "lpips"
SELF = "self"


class Weights(NamedTuple):
    """The names that a file of weights may have, and where it can be had."""

    files: tuple[str, ...]
    source: str


KNOWN = {
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
    folders = (data_home() / FOLDER, torch_home / "hub" / "checkpoints")
    paths = [folder / file for folder in folders for file in KNOWN[network].files]
    return next((path for path in paths if path.is_file()), None)


def first_network(networks: Sequence[str]) -> str:
    """The first of these networks that can measure on this machine; the last where none can."""
    for network in networks:
        if network == SELF or (network in KNOWN and weights_file(network) is not None):
            return network
    return networks[-1]
