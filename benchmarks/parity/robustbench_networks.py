"""Our networks of RobustBench's zoo against its own code: random weights in the public layout of keys, same images.

    python benchmarks/parity/robustbench_networks.py [--peer ROBUSTBENCH] [--names NAME,NAME] [--images 64]

ROBUSTBENCH is a checkout of github.com/RobustBench/robustbench; without it the installed package is used. Of models
with the same network and normalisation the first stands for all. The peer's network gets random weights and running
statistics; its state dict, saved as the public checkpoints are, is loaded by `robustbench:NAME`. Prints the largest
difference of logits of each, relative to the largest logit, and exits with 1 where one is above 1e-5.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import torch
from importing import declare_torchvision_operators
from torch import Tensor, nn

from holdfast.models import load
from holdfast.models.robustbench_zoo import CLASSES, zoo

LIMIT = 1e-5  # the order of additions differs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", type=Path)
    parser.add_argument("--names", default="")
    parser.add_argument("--images", type=int, default=64)
    args = parser.parse_args()
    peers = peer_models(args.peer)
    worst = 0.0
    for (dataset, threat, name), count in representatives(set(filter(None, args.names.split(",")))).items():
        started = time.perf_counter()
        try:
            net = randomised(peer_network(peers, dataset, threat, name))
        except (KeyError, ImportError, TypeError) as error:
            print(f"{dataset:8} {threat:11} {name:45} the peer cannot make it: {error!r:.70}")
            continue
        images = torch.rand(args.images, 3, *(2 * [32 if dataset.startswith("cifar") else 224]))
        difference = compare(net, images, dataset, threat, name)
        worst = max(worst, difference)
        seconds = time.perf_counter() - started
        print(f"{dataset:8} {threat:11} {name:45} {difference:.1e}  for {count} models, {seconds:.0f} s", flush=True)
    print(f"largest difference {worst:.1e}")
    return int(worst > LIMIT)


def representatives(names: set[str]) -> dict[tuple[str, str, str], int]:
    """The first model of each network, and how many have it; or the models asked for."""
    first: dict[object, tuple[str, str, str]] = {}
    counts: dict[tuple[str, str, str], int] = {}
    for key, entry in zoo().items():
        if names and key[2] not in names:
            continue
        key = first.setdefault((entry.architecture, entry.mean, entry.std), key)
        counts[key] = counts.get(key, 0) + 1
    return counts


def peer_models(checkout: Path | None) -> Any:
    """The peer's lists of models. What its import needs and no network uses is stood in for."""
    if checkout is not None:
        sys.path.insert(0, str(checkout))
    for name in ("autoattack", "autoattack.state"):
        sys.modules.setdefault(name, MagicMock())
    declare_torchvision_operators()
    return importlib.import_module("robustbench.model_zoo.models").model_dicts


def peer_network(peers: Any, dataset: str, threat: str, name: str) -> nn.Module:
    enums = importlib.import_module("robustbench.model_zoo.enums")
    timm = importlib.import_module("timm")
    registered = f"{name}_{dataset}_{threat}".lower().replace("-", "_")
    if timm.is_model(registered):
        made: nn.Module = timm.create_model(registered, num_classes=CLASSES[dataset], pretrained=False)
        return made
    entry = peers[enums.BenchmarkDataset(dataset)][enums.ThreatModel(threat)][name]
    network: nn.Module = entry["model"]()
    return network


def randomised(net: nn.Module) -> nn.Module:
    """Weights as initialised, but scales, running statistics and LayerScale away from their neutral values."""
    generator = torch.Generator().manual_seed(0)
    for name, tensor in net.state_dict().items():
        if not tensor.is_floating_point() or (name.endswith(("mu", "sigma", "mean", "std")) and "running" not in name):
            continue
        if name.endswith("running_mean") or (tensor.ndim <= 1 and name.endswith("bias")):
            tensor.normal_(0, 0.2, generator=generator)
        elif name.endswith("running_var") or tensor.ndim <= 1 or "temperature" in name:
            tensor.uniform_(0.5, 1.5, generator=generator)
    return net.eval()


def compare(net: nn.Module, images: Tensor, dataset: str, threat: str, name: str) -> float:
    state = net.state_dict()
    if isinstance(net, nn.Sequential) and hasattr(net, "normalize"):
        state = {key.removeprefix("model."): value for key, value in state.items() if key.startswith("model.")}
    content = {"last": state} if name.startswith(("Kireev2021", "Andriushchenko2020")) else {"state_dict": state}
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        path = Path(folder) / dataset / threat / f"{name}.pt"
        path.parent.mkdir(parents=True)
        torch.save(content, path)
        expected = torch.cat([net(part) for part in images.split(16)])
        ours = load(f"robustbench:{name},threat={threat},dataset={dataset},folder={folder}")
        logits = torch.cat([ours(part) for part in images.split(16)])
    assert len(expected.unique()) > expected.shape[1], f"the logits of `{name}` say nothing"
    return float((logits - expected).abs().max() / expected.abs().max().clamp_min(1))


if __name__ == "__main__":
    raise SystemExit(main())
