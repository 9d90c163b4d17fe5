"""Which broken models are found out, by what, and whether honest ones raise an alarm: the tables of docs/trust.md.

    python benchmarks/trust_table.py --results FILE [--part broken|honest] [--imagenet ARRAYS.npz] [--page PAGE]

Every model is checked (`check`), tried (`check --attacks`) and run under pgd-linf at 16/255 on 100 samples; the truth
is the same samples under an attack built for the model, on the network inside it. Results are kept line by line, and
what is there is not measured again; `--page` writes what there is into docs/trust.md, between its marks.
"""

from __future__ import annotations

import argparse
import copy
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from broken_models import CASES, Case, crops, made, straight_through
from torch import Tensor, nn

from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch, Dataset
from holdfast.engine.evaluate import evaluate
from holdfast.engine.order import chosen_samples
from holdfast.engine.trials import flags_on, trials_on
from holdfast.models import TorchClassifier, load, wrap

RADIUS, SAMPLES, CALLS = "16/255", 100, 4
CPU = torch.device("cpu")
INSIDE: dict[str, Callable[[nn.Module, Tensor], Tensor]] = {
    "rounded to 12 levels": lambda net, x: net(straight_through(x, 12)),
    "thermometer code": lambda net, x: net(straight_through(x, 16)),
    "rounded, with a leak that points elsewhere": lambda net, x: net(straight_through(x, 12)),
    "straight-through on 6 levels": lambda net, x: net(straight_through(x, 6)),
    "hard vote over five crops": lambda net, x: torch.stack([net(crop) for crop in crops(x)]).mean(0),
    "hard vote with a saturated backward": lambda net, x: torch.stack([net(crop) for crop in crops(x)]).mean(0),
}


class Inside(nn.Module):
    """What the attack built for a broken model attacks instead."""

    def __init__(self, net: nn.Module, forward: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.net, self.how = net, forward

    def forward(self, images: Tensor) -> Tensor:
        return self.how(self.net, images)


def truth(case: Case, net: nn.Module, other: nn.Module) -> float:
    """The share right under the strongest of several attacks on the network inside, asked of a fresh model each."""
    dataset = registry.build(registry.bind("dataset", "fashion-mnist-2k"))
    index = np.sort(chosen_samples(dataset.ids, dataset.labels, SAMPLES))
    images = dataset.images(index.tolist()).pixels.float() / 255
    labels = torch.from_numpy(dataset.labels[index])
    batch = Batch(images, labels, tuple(dataset.ids[i] for i in index))
    inside = Inside(copy.deepcopy(net), INSIDE.get(case.name, lambda inner, x: inner(x)))
    surrogates = [inside, copy.deepcopy(other)] if "network" in case.name else [inside]
    right = torch.ones(SAMPLES)
    for surrogate in surrogates:
        for ref in ("apgd-ce-linf:steps=50", "apgd-dlr-linf:steps=50", "pgd-linf:steps=1"):
            attack = registry.build(registry.bind("attack", f"{ref},radius={RADIUS}"))
            model = wrap(copy.deepcopy(surrogate), name="inside", classes=10, channels=1)
            found = attack(model, batch, Noise.of(0, batch.ids), width=SAMPLES).images
            asked = made(case, net, other)
            with torch.no_grad():
                answers = torch.stack([asked(found) for _ in range(CALLS)])
            good = (answers.argmax(2) == labels) & answers.isfinite().all(2)
            right = torch.minimum(right, good.float().mean(0))
    return float(right.mean())


def measured(model: TorchClassifier, dataset: str, *, radius: str, samples: int) -> dict[str, object]:
    """The flags of a check, of its trials and of a run, with seconds."""
    data = registry.build(registry.bind("dataset", dataset))
    begun = time.perf_counter()
    checked = flags_on(model, data, CPU)
    check_seconds = time.perf_counter() - begun
    begun = time.perf_counter()
    trials = _tried(model, data)  # the command leaves them out after an error, which is enough to know
    trial_seconds = time.perf_counter() - begun
    with tempfile.TemporaryDirectory() as store:
        scenario = f"{dataset}+pgd-linf:radius={radius}"
        (outcome,) = evaluate(model, scenario, store=store, samples=samples, device="cpu", pictures=0)
    rows = outcome.rows
    return {
        "check": [flag.name for flag in checked],
        "trials": trials,
        "run": ["fails with an error"] if rows is None else [flag.name for flag in rows.footer.flags],
        "tallies": {} if rows is None else rows.footer.tallies,
        "shown": None if rows is None else float(rows.correct.mean()),
        "check seconds": round(check_seconds, 2),
        "trial seconds": round(trial_seconds, 1),
    }


def _tried(model: TorchClassifier, data: Dataset) -> list[str]:
    try:
        return [flag.name for flag in trials_on(model, data, CPU, lambda _: None)]
    except Exception as error:  # noqa: BLE001 - a broken model may raise anything
        return [f"raises {type(error).__name__}"]


class Patches(nn.Module):
    """A small vision transformer."""

    def __init__(self, patch: int = 4, width: int = 64, depth: int = 3) -> None:
        super().__init__()
        self.cut = nn.Conv2d(1, width, patch, patch)
        self.position = nn.Parameter(0.02 * torch.randn(1, (28 // patch) ** 2, width))
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.cut(images).flatten(2).transpose(1, 2) + self.position
        return self.head(self.layers(tokens).mean(1))  # type: ignore[no-any-return]


class Half(nn.Module):
    """An honest network in bfloat16."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = copy.deepcopy(net).bfloat16()
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        return self.net(images.bfloat16()).float()  # type: ignore[no-any-return]


def coloured(images: Tensor) -> Tensor:
    """Grey images in a colour of their own each."""
    tint = 0.4 + 0.6 * torch.rand(len(images), 3, 1, 1, generator=torch.Generator().manual_seed(0))
    return (images * tint).clamp(0, 1)


def convolutions(channels: int) -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(channels, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(32 * 49, 64), nn.ReLU(), nn.Linear(64, 10)),
    )


def trained(net: nn.Module, images: Tensor, labels: Tensor, *, epochs: int, radius: float = 0.0) -> nn.Module:
    """Adam; with a radius, against one sign step from a random start."""
    torch.manual_seed(0)
    optimiser = torch.optim.Adam(net.parameters(), 2e-3)
    for _ in range(epochs):
        for rows in torch.randperm(len(images)).split(64):
            x, y = images[rows], labels[rows]
            if radius:
                start = (x + radius * (2 * torch.rand_like(x) - 1)).requires_grad_(True)
                (gradient,) = torch.autograd.grad(F.cross_entropy(net(start), y), start)
                x = (x + (start.detach() - x + 1.25 * radius * gradient.sign()).clamp(-radius, radius)).clamp(0, 1)
            optimiser.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimiser.step()
    return net.eval()


def honest(folder: Path, imagenet: str | None) -> list[tuple[str, Callable[[], TorchClassifier], str, str]]:
    """Name, how to make it, dataset and radius of each honest model."""
    data = registry.build(registry.bind("dataset", "fashion-mnist-2k"))
    grey, labels = data.images(range(2000)).pixels, torch.from_numpy(data.labels)
    colour = (coloured(grey.float() / 255) * 255).byte()
    np.savez(folder / "colour.npz", images=colour[1500:].permute(0, 2, 3, 1).numpy(), labels=labels[1500:].numpy())
    np.savez(folder / "grey.npz", images=grey[1500:, 0].numpy(), labels=labels[1500:].numpy())
    x, y, c = grey[:1500].float() / 255, labels[:1500], colour[:1500].float() / 255

    def own(net: nn.Module, images: Tensor, channels: int, epochs: int, radius: float = 0.0) -> TorchClassifier:
        return wrap(trained(net, images, y, epochs=epochs, radius=radius), name="own", classes=10, channels=channels)

    dense = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.GELU(), nn.Linear(128, 10))
    standard = load("fashion-standard", device="cpu").net
    greys, colours = f"arrays:{folder / 'grey.npz'}", f"arrays:{folder / 'colour.npz'}"
    found = [
        *[
            (name, lambda name=name: load(name, device="cpu"), "fashion-mnist-2k", RADIUS)
            for name in ("fashion-standard", "fashion-noise", "fashion-at-linf", "fashion-at-l2")
        ],
        ("ViT, grey, undefended", lambda: own(Patches(), x, 1, 8), greys, "8/255"),
        ("dense network, grey, undefended", lambda: own(dense, x, 1, 15), greys, "8/255"),
        ("CNN, colour, undefended", lambda: own(convolutions(3), c, 3, 12), colours, "8/255"),
        ("CNN, colour, robust", lambda: own(convolutions(3), c, 3, 25, 8 / 255), colours, "8/255"),
        (
            "fashion-standard in bfloat16",
            lambda: wrap(Half(standard), name="half", classes=10, channels=1),
            greys,
            "8/255",
        ),
    ]
    if imagenet is not None:
        for size in (0, 1, 2):
            ref = f"efficientnet-lite:{size}"
            found.append((ref, lambda ref=ref: load(ref, device="cpu"), f"arrays:{imagenet}", "0.25/255"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--part", choices=["broken", "honest"])
    parser.add_argument(
        "--imagenet", help="An .npz of ImageNet images of 224 pixels with labels, for the large networks."
    )
    parser.add_argument("--page", type=Path)
    asked = parser.parse_args()
    kept = _lines(asked.results)
    if asked.part != "honest":
        net, other = (load(name, device="cpu").net for name in ("fashion-standard", "fashion-noise"))
        for case in CASES:
            if case.name not in kept:
                model = wrap(made(case, net, other), name="broken", classes=10, channels=1)
                result = measured(model, "fashion-mnist-2k", radius=RADIUS, samples=SAMPLES)
                _keep(
                    asked.results, {"name": case.name, "family": case.family, "truth": truth(case, net, other)} | result
                )
    if asked.part != "broken":
        with tempfile.TemporaryDirectory() as folder:
            for name, make, dataset, radius in honest(Path(folder), asked.imagenet):
                if name not in kept:
                    large = name.startswith("efficientnet")
                    result = measured(make(), dataset, radius=radius, samples=32 if large else SAMPLES)
                    _keep(asked.results, {"name": name, "family": "honest"} | result)
    if asked.page is not None:
        write_page(asked.page, list(_lines(asked.results).values()))


def write_page(page: Path, results: list[dict[str, object]]) -> None:
    """Puts both tables between the marks of a page."""
    broken, honest = ([r for r in results if (r["family"] == "honest") == is_honest] for is_honest in (False, True))
    lines = [
        "| family | model | pgd-linf shows | truth | `check` | `check --attacks` | pgd-linf run |",
        "|---" * 7 + "|",
    ]
    for r in broken:
        shown = "no number" if r["shown"] is None else f"{100 * r['shown']:.0f} %"  # type: ignore[operator]
        flags = [", ".join(f"`{name}`" if " " not in name else name for name in found) or "—" for found in _seen(r)]
        lines.append(f"| {r['family']} | {r['name']} | {shown} | {100 * r['truth']:.0f} % | {' | '.join(flags)} |")  # type: ignore[operator]
    counts = [sum(bool(found[i]) for found in map(_seen, broken)) for i in range(3)]
    both = sum(bool(found[0] or found[1]) for found in map(_seen, broken))
    own = sum(bool(set(found[2]) - set(found[0])) for found in map(_seen, broken))
    missed = sum(not any(found) for found in map(_seen, broken))
    lines += [
        "",
        f"Of {len(broken)}, `check` finds {counts[0]}, its attacks {counts[1]} (both {both}), and the flags of ",
    ]
    lines[-1] += f"the run {counts[2]}, {own} of them by flags that are not the check's; {missed} are missed by all."
    lines += ["", "| honest model | pgd-linf shows | flags | `check`, s | `--attacks`, s |", "|---" * 5 + "|"]
    for r in honest:
        alarms = ", ".join(sorted({name for found in _seen(r) for name in found})) or "none"
        shown = "no number" if r["shown"] is None else f"{100 * r['shown']:.0f} %"  # type: ignore[operator]
        lines.append(f"| {r['name']} | {shown} | {alarms} | {r['check seconds']} | {r['trial seconds']} |")
    start, end = "<!-- tables -->\n", "<!-- end of tables -->"
    before, _, rest = page.read_text().partition(start)
    page.write_text(before + start + "\n" + "\n".join(lines) + "\n\n" + end + rest.partition(end)[2])


def _seen(result: dict[str, object]) -> list[list[str]]:
    """The flags of the check, of the trials, and of the run; trials are not run after an error."""
    return [list(result[name]) for name in ("check", "trials", "run")]  # type: ignore[call-overload]


def _lines(path: Path) -> dict[str, dict[str, object]]:
    found = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {result["name"]: result for result in found}


def _keep(path: Path, result: dict[str, object]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(result) + "\n")
    print(result["name"], result.get("shown"), result.get("truth"), _seen(result), flush=True)


if __name__ == "__main__":
    main()
