"""Stores with made-up rows, to make pages from."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from holdfast.core.refs import digest
from holdfast.core.types import Flag, ModelCard
from holdfast.core.values import value_text
from holdfast.store.footer import ChangeRecord, Footer
from holdfast.store.rows import Predictions, to_rows
from holdfast.store.store import Picture, Store

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SAMPLES = 400
CARD = ModelCard(
    name="ResNet-18, adversarially trained",
    source="zoo",
    classes=10,
    size=32,
    weights="3fa2c1d09b77e4aa",
    parameters=11_173_962,
    trained_on="CIFAR-10",
    threats=("pgd-linf:radius=8/255",),
    paper="arXiv:1706.06083",
    licence="MIT",
)


def change(kind: str, name: str, *, version: int = 1, hidden: Sequence[str] = (), **args: object) -> ChangeRecord:
    """A record of a change; `hidden` names arguments left at their default and so not in its text."""
    shown = ",".join(f"{key}={value_text(value)}" for key, value in args.items() if key not in hidden)  # type: ignore[arg-type]
    return ChangeRecord(kind, name, version, f"{name}:{shown}" if shown else name, dict(args))


def fog(severity: int, name: str = "fog", **args: object) -> ChangeRecord:
    return change("corruption", name, severity=severity, **args)


def pgd(radius: float, name: str = "pgd-linf", **args: object) -> ChangeRecord:
    return change("attack", name, radius=radius, **args)


def add(
    store: Store,
    accuracy: float,
    *changes: ChangeRecord,
    model: str = "resnet18",
    dataset: str = "cifar10",
    n: int = 200,
    population: int = 200,
    classes: Sequence[str] = CLASSES,
    reasons: dict[int, str] | None = None,
    sizes: float | None = None,
    radii: Sequence[float] | None = None,
    wrong_class: int | None = None,
    pictures: int = 0,
    side: int = 32,
    flags: Sequence[Flag] = (),
    **facts: object,
) -> Footer:
    """Keeps a run in which exactly round(accuracy * n) samples are right, and returns its footer.

    Right are the first samples of one fixed order, so that harder runs are right on a subset of easier ones. `radii`
    are the smallest that break each sample, and decide who is right; `wrong_class` is what every wrong answer names.
    """
    scenario = "+".join([dataset, *(one.text for one in changes)])
    family = digest([model, scenario, [[one.version, str(one.args)] for one in changes], str(facts)])
    footer = Footer(
        key=digest([family, n]),
        family=family,
        model=model,
        model_full=model,
        scenario=scenario,
        scenario_full=scenario,
        dataset=dataset,
        changes=tuple(changes),
        seed=0,
        selection="all" if n == population else f"{n} samples",
        samples=None if n == population else n,
        precision=None,
        weights="3fa2c1d09b77e4aa",
        data="d41d8cd98f00",
        card=CARD,
        classes=tuple(classes),
        population=population,
        started="2026-03-01T10:00:00+00:00",
        finished="2026-03-01T10:01:00+00:00",
        seconds=12.5,
        forwards=n * (11 if changes else 1),
        backwards=n * 10 if any(one.kind == "attack" for one in changes) else 0,
        device="NVIDIA H200",
        versions={"holdfast": "0.1.0", "torch": "2.7.0"},
        command=f"holdfast evaluate {model} --scenario '{scenario}'",
        flags=tuple(flags),
    )
    footer = replace(footer, **facts)  # type: ignore[arg-type]
    made = _predictions(round(accuracy * n), n, len(classes), reasons or {}, sizes, radii, wrong_class)
    rows = to_rows(made, footer)
    kept = store.finish([rows], rows.ids, footer)
    if pictures:
        wrong = [name for name, right in zip(kept.ids, kept.correct, strict=True) if not right][:pictures]
        store.add_pictures(
            footer.key, [Picture(name, png(side, i), png(side, i, noise=8)) for i, name in enumerate(wrong)]
        )
    return kept.footer


def sweep(radii: Sequence[float], attack: str = "pgd-linf:steps=10", **args: object) -> ChangeRecord:
    return change("attack", "sweep", attack=attack, radii=tuple(radii), **args)


def png(side: int, seed: int, *, noise: float = 0) -> bytes:
    """A small colourful picture, as an 8-bit RGB PNG."""
    y, x = np.mgrid[0:side, 0:side] / side
    waves = [np.sin(6 * (x * np.cos(seed + k) + y * np.sin(seed * 1.7 + k)) + k) for k in range(3)]
    values = np.stack(waves, -1) * 90 + 128
    values += (
        noise * np.random.default_rng(seed).uniform(-1, 1, values.shape) * (0.2 + np.hypot(x - 0.5, y - 0.5))[..., None]
    )
    pixels = values.clip(0, 255).astype(np.uint8)
    scanlines = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(scanlines)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def rich_store(path: Path) -> Store:
    """What a full evaluation leaves behind: corruptions, attacks, both at once, two models beside, trouble included."""
    store = Store(str(path))
    drops = {
        "gaussian_noise": 0.07, "defocus_blur": 0.04, "motion_blur": 0.05, "snow": 0.05, "frost": 0.06, "fog": 0.08,
        "brightness": 0.015, "contrast": 0.13,
    }  # fmt: skip
    weak = Flag(
        "gradient-vanishes", "warning", "The gradient was zero for 3 of 200 samples: the attack may be too weak."
    )
    note = Flag("few-steps", "note", "The attack took 10 steps; robust accuracy often falls further with more.")
    for model, shift in (("resnet18-linf", 0.0), ("resnet18-standard", 0.07), ("vit-tiny", 0.03)):
        mine = model == "resnet18-linf"
        add(store, 0.86 + shift, model=model, n=SAMPLES, population=SAMPLES)
        for i, (name, drop) in enumerate(drops.items()):
            for severity in range(1, 6):
                if (mine and (name, severity) == ("snow", 3)) or (not mine and (i > 3 or severity % 2 == 0)):
                    continue
                accuracy = 0.86 + shift - drop * severity * (1 + shift * 9 * (-1) ** i) + 0.01 * ((i * severity) % 3)
                pictures = 12 if mine and severity == 5 else 0
                n = SAMPLES // 4 if mine and name == "frost" else SAMPLES
                add(store, accuracy, fog(severity, name), model=model, n=n, population=SAMPLES, pictures=pictures)
        for radius in (2, 4, 8, 16):
            accuracy = max(0.0, (0.86 if mine else 0.9) - radius * (0.045 if mine else 0.2 - shift))
            flags = (weak, note) if radius == 8 else (note,)
            add(store, accuracy, pgd(radius / 255, steps=10), model=model, n=SAMPLES, population=SAMPLES,
                sizes=radius / 255, flags=flags, pictures=12 if mine and radius == 8 else 0)  # fmt: skip
        for radius in (0.25, 0.5, 1.0):
            accuracy = max(0.0, 0.8 - radius * (0.4 if mine else 1.5 + shift))
            add(store, accuracy, pgd(radius, "pgd-l2"), model=model, n=SAMPLES, population=SAMPLES, sizes=radius)
        add(
            store,
            0.31 if mine else 0.02,
            pgd(0.05, "stadv"),
            model=model,
            n=SAMPLES // 4,
            population=SAMPLES,
            sizes=0.03,
        )
        if mine:
            for severity in (1, 3, 5):
                add(store, 0.5 - 0.07 * severity, fog(severity), pgd(8 / 255, steps=10), model=model, n=SAMPLES // 4,
                    population=SAMPLES, sizes=7 / 255, reasons={4: "logits are not finite"}, pictures=6)  # fmt: skip
    add(store, 0.74, model="resnet18-linf", dataset="cifar10.1", n=1000, population=1000)
    return store


def _predictions(
    right: int,
    n: int,
    classes: int,
    reasons: dict[int, str],
    sizes: float | None,
    radii: Sequence[float] | None,
    wrong_class: int | None,
) -> Predictions:
    generator = np.random.default_rng(7)
    labels = np.arange(n) % classes
    order = generator.permutation(n)
    is_right = np.zeros(n, dtype=bool)
    is_right[order[:right]] = True
    if radii is not None:
        is_right = np.isinf(np.asarray(radii))
    logits = generator.normal(0, 1, (n, classes)).astype(np.float32)
    answers = np.where(is_right, labels, (labels + 1 + generator.integers(0, classes - 1, n)) % classes)
    if wrong_class is not None:
        answers = np.where(is_right, labels, np.where(labels == wrong_class, answers, wrong_class))
    logits[np.arange(n), answers] = 5 + generator.random(n) * 5
    for i in reasons:
        logits[i] = np.nan
    return Predictions(
        ids=[f"test/{i:05d}" for i in range(n)],
        labels=labels.astype(np.int64),
        logits=logits,
        sizes=np.full(n, np.nan if sizes is None else sizes, np.float32),
        radii=np.full(n, np.nan, np.float32) if radii is None else np.asarray(radii, np.float32),
        forwards=np.full(n, 11, np.int64),
        backwards=np.full(n, 10, np.int64),
        reasons=[reasons.get(i) for i in range(n)],
    )
