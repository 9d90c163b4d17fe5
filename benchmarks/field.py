"""The models people have, on one device: what peers reach, what `evaluate` reaches from a cold start, and the floor.

    python benchmarks/field.py [--model wrn-28-10 …] [--seconds 60] [--attack apgd-ce-linf] [--write docs/benchmarks.md]

Each model has random weights, and its own predictions are the labels, so that hardly anything breaks: the dearest case.
A "pair" is a forward pass and the gradient to the images. In one process, one model after the other:

- peers: pairs as torch's defaults make them (TF32 convolutions, channels first, no graph), at the best of some widths;
- floor: the network in float16 with its first layer in float32, norms folded, compiled for one length, in a CUDA graph;
- ours: `holdfast.evaluate` of an attack at default settings, from loading to the finished rows, compiling included. The
  job is as long as the floor would take --seconds for. Pairs are the backward passes that the rows count.

Forward passes alone likewise: TF32, a clean evaluation, the compiled network.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from timeline import Timeline, watch_everything
from torch import Tensor, nn

import holdfast
from holdfast.engine.device import device_name, full_precision, pick_device, tf32
from holdfast.models import TorchClassifier, wrap
from holdfast.models.compiling import CACHE
from holdfast.models.fast import FastModel
from holdfast.models.weights import architecture

HEAD = (
    "| model | pairs/s: peers | ours | floor, uncompiled | floor | ours / peers | ours / floor "
    "| forwards/s: peers | ours | floor |\n|---|" + "---|" * 9
)
BEGIN, END = "<!-- field: made by `benchmarks/field.py` -->", "<!-- end of field -->"
RADIUS = 1e-5  # so small that random networks keep their predictions
ROUNDS = 10


@dataclass(frozen=True, slots=True)
class Subject:
    """A network of the field: how it is made, the size of its images, how many are asked about at once."""

    title: str
    make: Callable[[], nn.Module]
    size: int
    classes: int
    widths: tuple[int, ...]


def own(text: str) -> Callable[[], nn.Module]:
    return lambda: architecture(text).net


def timm(name: str) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        import timm

        net: nn.Module = timm.create_model(name, pretrained=False)
        return net

    return make


SUBJECTS = {
    "resnet-20": Subject("ResNet-20, 32 px", own("resnet20-cifar"), 32, 10, (64,)),
    "resnet-18": Subject("ResNet-18, 32 px", own("resnet18-cifar"), 32, 10, (512, 1024, 2048)),
    "wrn-28-10": Subject("WRN-28-10, 32 px", own("wide-resnet:depth=28,width=10"), 32, 10, (256, 512, 1024)),
    "resnet-50": Subject("ResNet-50, 224 px", timm("resnet50"), 224, 1000, (128, 256, 512)),
    "vit-s": Subject("ViT-S/16, 224 px", timm("vit_small_patch16_224"), 224, 1000, (128, 256, 512)),
    "convnext-t": Subject("ConvNeXt-T, 224 px", timm("convnext_tiny"), 224, 1000, (128, 256, 512)),
}
FIELD = ("resnet-18", "wrn-28-10", "resnet-50", "vit-s", "convnext-t")


@dataclass(frozen=True, slots=True)
class Paces:
    """Images per second."""

    peers: float
    ours: float
    uncompiled: float
    floor: float
    peers_forward: float
    ours_forward: float
    floor_forward: float
    words: str

    def line(self, title: str) -> str:
        numbers = [f"{pace:,.0f}" for pace in (self.peers, self.ours, self.uncompiled, self.floor)]
        ratios = [f"{self.ours / self.peers:.1f}x", f"{100 * self.ours / self.floor:.0f} %"]
        forwards = [f"{pace:,.0f}" for pace in (self.peers_forward, self.ours_forward, self.floor_forward)]
        return f"| {title} | {' | '.join(numbers + ratios + forwards)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", nargs="+", choices=list(SUBJECTS), default=list(FIELD))
    parser.add_argument("--seconds", type=float, default=60.0, help="length of the job at the floor's pace")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--attack", default="apgd-ce-linf")
    parser.add_argument("--again", action="store_true", help="evaluate a second time, with what the first compiled")
    parser.add_argument("--clean", type=int, default=20_000, help="most images of the clean evaluation")
    parser.add_argument("--timeline", action="store_true", help="say what a job does, when, and for how long")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--write", type=Path, help="a document with the marks of this table")
    chosen = parser.parse_args()
    device = pick_device(chosen.device)
    if chosen.timeline:
        watch_everything(Timeline())
    lines, words = [HEAD], []
    print(f"{device_name(device)}, jobs of {chosen.seconds:g} s at the floor's pace\n{HEAD}", flush=True)
    for name in chosen.model:
        paces = measure(SUBJECTS[name], device, chosen)
        lines.append(paces.line(SUBJECTS[name].title))
        words.append(f"{SUBJECTS[name].title}: {paces.words}.")
        print(f"{lines[-1]}  {paces.words}", flush=True)
    if chosen.write:
        about = f"{device_name(device)}, {chosen.attack}, {chosen.steps} steps; the floor takes {chosen.seconds:g} s."
        write(chosen.write, "\n".join([about, "", *lines, "", "How gradients were made: " + " ".join(words)]))


def measure(subject: Subject, device: torch.device, chosen: argparse.Namespace) -> Paces:
    torch.manual_seed(0)
    net = subject.make().eval().to(device)
    draw = torch.Generator().manual_seed(1)
    pool = torch.randint(0, 256, (max(subject.widths), 3, subject.size, subject.size), generator=draw)
    images = (pool / 255).float().to(device)
    model = wrap(net, name=subject.title, classes=subject.classes)

    peers = max(pace(partial(pair, net, images[:width]), width, device) for width in subject.widths)
    peers_forward = max(pace(partial(forward, net, images[:width]), width, device) for width in subject.widths)
    with fresh_compiler_cache():
        uncompiled, floor, floor_forward = floors(model, images, max(subject.widths), device)

    count = max(64, int(chosen.seconds * floor / (chosen.steps + 1)))
    pixels = pool[torch.arange(count) % len(pool)].to(torch.uint8)
    labels = own_predictions(net, pixels, device)
    change = f"{chosen.attack}:radius={RADIUS},steps={chosen.steps}"
    with fresh_compiler_cache():
        ours, words = evaluated(net, pixels, labels, change, subject, device)
        if chosen.again:
            again, _ = evaluated(net, pixels, labels, change, subject, device)
            words += f"; with a warm cache {again:,.0f} pairs/s"
    count = min(chosen.clean, max(64, int(10 * peers_forward)))
    pixels = pool[torch.arange(count) % len(pool)].to(torch.uint8)
    ours_forward, _ = evaluated(net, pixels, own_predictions(net, pixels, device), "", subject, device)
    return Paces(peers, ours, uncompiled, floor, peers_forward, ours_forward, floor_forward, words)


def floors(model: TorchClassifier, images: Tensor, width: int, device: torch.device) -> tuple[float, float, float]:
    """Pairs in float16 with norms folded, the same compiled, and compiled forward passes; each in a CUDA graph."""
    if device.type != "cuda":
        exact = pace(lambda: pair(model, images[:width]), width, device)
        return exact, exact, pace(lambda: forward(model, images[:width]), width, device)
    with full_precision():
        plain = FastModel(model, images, width=width, speed="graph")
        uncompiled = recorded_pace(lambda given: pair(plain, given), images[:width])
        compiled = FastModel(model, images, width=width, speed="compile")
        floor = recorded_pace(lambda given: pair(compiled, given), images[:width])
        return uncompiled, floor, recorded_pace(lambda given: forward(compiled, given), images[:width])


@contextlib.contextmanager
def fresh_compiler_cache() -> Iterator[None]:
    """The compiler begins with nothing on disk, so what follows is a cold start; torch sets Triton's folder itself."""
    names = (CACHE, "TRITON_CACHE_DIR")
    before = {name: os.environ.pop(name, None) for name in names}
    with tempfile.TemporaryDirectory() as folder:
        os.environ[CACHE] = folder
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value


def evaluated(
    net: nn.Module, pixels: Tensor, labels: Tensor, change: str, subject: Subject, device: torch.device
) -> tuple[float, str]:
    """Passes per second of wall time of one `evaluate`, and how its gradients were made."""
    if device.type == "cuda":
        torch.cuda.empty_cache()  # what the measurements before left
    with tempfile.TemporaryDirectory() as store:
        begun = time.perf_counter()
        outcome = holdfast.evaluate(
            net, (pixels, labels), changes=[change], store=store, device=str(device), pictures=0, name=subject.title
        )[0]
        seconds = time.perf_counter() - begun
    if outcome.rows is None:
        raise SystemExit(f"{subject.title}: {outcome.error}")
    footer = outcome.rows.footer
    passes = footer.backwards if change else footer.n
    return passes / seconds, str(footer.facts.get("gradients", "float32"))


def own_predictions(net: nn.Module, pixels: Tensor, device: torch.device) -> Tensor:
    with torch.no_grad(), tf32():
        split = pixels.split(256)  # type: ignore[no-untyped-call]
        parts = [net(part.to(device).float() / 255).argmax(1).cpu() for part in split]
    return torch.cat(parts)


def pair(net: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
    leaf = images.detach().clone().requires_grad_()
    gradient: Tensor = torch.autograd.grad(net(leaf).logsumexp(1).sum(), leaf)[0]
    return gradient


def forward(net: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
    with torch.no_grad():
        return net(images)


def recorded_pace(work: Callable[[Tensor], Tensor], images: Tensor) -> float:
    """Images per second of work replayed from a CUDA graph."""
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            work(images)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work(images)
    return pace(graph.replay, len(images), images.device)


def pace(work: Callable[[], object], count: int, device: torch.device) -> float:
    """Images per second, the median of some rounds after two to warm up."""
    seconds = []
    for _ in range(ROUNDS + 2):
        _wait(device)
        begun = time.perf_counter()
        work()
        _wait(device)
        seconds.append(time.perf_counter() - begun)
    return count / sorted(seconds[2:])[ROUNDS // 2]


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def write(document: Path, table: str) -> None:
    """Puts the table between its marks, or at the end of the document."""
    text = document.read_text()
    made = f"{BEGIN}\n{table}\n{END}"
    if BEGIN in text:
        before, rest = text.split(BEGIN, 1)
        made = before + made + rest.split(END, 1)[1]
    else:
        made = f"{text.rstrip()}\n\n## Models of the field\n\n{made}\n"
    document.write_text(made)


if __name__ == "__main__":
    main()
