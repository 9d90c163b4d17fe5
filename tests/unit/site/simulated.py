"""Suites, tables and stores with made-up numbers, to draw plots from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from synthetic import CLASSES, add, change, fog, pgd

from holdfast.core.refs import digest
from holdfast.core.suites import Suite, load_suite
from holdfast.core.table import Table
from holdfast.store.footer import Footer
from holdfast.store.rows import Predictions, to_rows
from holdfast.store.scores import Scores
from holdfast.store.store import Store
from holdfast.trends.spaces import LOGIT

HOSTILE = "<img src=x onerror=alert(1)>"
ATTACKS = ("AutoLinfAttack", "StAdvAttack", "ElasticAttack", "Hue")
STRENGTHS = (0.025, 0.05, 0.075, 0.1)
SAMPLES = 120

SHIFTS = """
title = "Shifts"
source = "arXiv:2310.12793"
dataset = "cifar10"
published = ["oodrobustbench-cifar10-linf"]
sort = "ood-d-robustness"

[[board]]
name = "id-accuracy"
title = "accuracy, ID"
scenarios = ["{dataset}"]

[[board]]
name = "ood-d-accuracy"
title = "accuracy, OOD_d"
scenarios = ["{dataset}+{fog,jpeg}:severity={1,2,3}", "cifar10.1"]

[[board]]
name = "id-robustness"
title = "robustness, ID"
scenarios = ["{dataset}+mm5-linf:radius=8/255"]

[[board]]
name = "ood-d-robustness"
title = "robustness, OOD_d"
scenarios = ["{dataset}+{fog,jpeg}:severity={1,2,3}+mm5-linf:radius=8/255"]

[[board]]
name = "stronger"
scenarios = ["{dataset}+mm5-linf:radius={4/255,16/255}"]
"""
MANY_ATTACKS = """
title = "Many attacks"
dataset = "cifar10"
sort = "cr-ind-avg"

[[part]]
name = "ranked"
scenarios = ["{dataset}", "{dataset}+sweep:attack=({apgd-fab-t-linf,stadv,elastic}),radii=[0.025,0.05,0.075,0.1]"]
settings = ["NoAttack", "AutoLinfAttack", "StAdvAttack", "ElasticAttack"]

[[board]]
name = "clean-accuracy"
scenarios = ["{dataset}"]
settings = ["NoAttack"]

[[board]]
name = "cr-ind-avg"
part = "ranked"
score = "cr-ind-avg"

[[board]]
name = "cr-ind-worst"
part = "ranked"
score = "cr-ind-worst"

[[board]]
name = "stability-constant"
unit = "number"
part = "ranked"
score = "stability-constant"
"""
PLANE = """
title = "Two references"
dataset = "imagenet"
sort = "imagenet-v2"

[[board]]
name = "imagenet"
settings = ["imagenet-125"]

[[board]]
name = "yfcc"
settings = ["yfcc-125"]

[[board]]
name = "imagenet-v2"
settings = ["v2-125"]
"""


def suite(folder: Path, text: str, name: str = "made-up") -> Suite:
    path = folder / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    return load_suite(str(path))


def measured_store(path: Path, models: tuple[str, ...] = ("ours", HOSTILE)) -> Store:
    """Models measured on all of `SHIFTS`, each sample with its own perturbation size."""
    store = Store(str(path))
    for k, model in enumerate(models):
        named = {"model": model, "n": SAMPLES, "population": SAMPLES}
        add(store, 0.9 - 0.03 * k, **named)
        add(store, 0.78, dataset="cifar10.1", **named)
        for radius, accuracy in ((4, 0.7), (8, 0.55 - 0.04 * k), (16, 0.2)):
            add(store, accuracy, pgd(radius / 255, "mm5-linf"), sizes=radius / 255, **named)
        for name, cost in (("fog", 0.05), ("jpeg", 0.03)):
            for severity in (1, 2, 3):
                add(store, 0.88 - cost * severity - 0.03 * k, fog(severity, name), **named)
                add(store, 0.5 - cost * severity, fog(severity, name), pgd(8 / 255, "mm5-linf"), **named)
    return store


def add_sweep(store: Store, radii: list[float], *, model: str = "ours") -> Footer:
    """One sweep in which the samples broke at these radii; 0 wrong from the start, inf never."""
    clean = add(store, np.mean([radius > 0 for radius in radii]), model=model, n=len(radii), population=len(radii))
    swept = change("attack", "sweep", attack="(apgd-fab-t-linf)", radii=STRENGTHS)
    text = "sweep:attack=(apgd-fab-t-linf),radii=[0.025,0.05,0.075,0.1]"
    scenario = f"cifar10+{text}"
    footer = replace(
        clean, key=digest([model, scenario]), family=digest([model, scenario, ""]), scenario=scenario,
        scenario_full=scenario, changes=(replace(swept, text=text),),
    )  # fmt: skip
    n = len(radii)
    predictions = Predictions(
        ids=[f"test/{i:05d}" for i in range(n)],
        labels=np.zeros(n, np.int64),
        logits=np.tile(np.arange(len(CLASSES), dtype=np.float32), (n, 1)),
        sizes=np.full(n, np.nan, np.float32),
        radii=np.array(radii, np.float32),
        forwards=np.ones(n, np.int64),
        backwards=np.ones(n, np.int64),
        reasons=[None] * n,
    )
    rows = to_rows(predictions, footer)
    return store.finish([rows], rows.ids, footer).footer


def battery(names: tuple[str, ...], *, benchmark: str = "made-up", seed: int = 0) -> Scores:
    """Accuracies under four attacks at four strengths, with the best known of each; one model lacks an attack."""
    random = np.random.default_rng(seed)
    settings = ("NoAttack", *(f"{attack}/{strength}" for attack in ATTACKS for strength in STRENGTHS))
    fall = np.array([0.0, *(0.12 * (level + 1) for _ in ATTACKS for level in range(len(STRENGTHS)))])
    best = np.round(np.clip(0.93 - fall + random.normal(0, 0.02, len(fall)), 0.05, 1), 6)
    own = np.clip(best * random.uniform(0.2, 1.05, (len(names), len(fall))), 0, 1)
    own[-1, 5:9] = np.nan
    facts = {name: {"attacks_used": '{"AutoLinfAttack": 0.05}' if i % 2 else "{}"} for i, name in enumerate(names)}
    values = np.round(np.vstack([own, best]), 6)
    table = Table((*names, "acc*"), settings, values, np.zeros(values.shape, np.int64), facts, {}, "made up")
    return Scores(benchmark, table)


def on_a_plane(models: int, *, benchmark: str = "made-up", seed: int = 0) -> Scores:
    """Models whose third score lies near a plane over the first two, in logit space."""
    random = np.random.default_rng(seed)
    x = random.normal(0.5, 1, (models, 2))
    y = 0.6 * x[:, 0] + 0.3 * x[:, 1] - 0.4 + random.normal(0, 0.05, models)
    values = LOGIT.inverse(np.column_stack([x, y]))
    names = tuple(f"model-{i}" for i in range(models))
    facts = {name: {"type": ("ImageNet", "YFCC")[i % 2]} for i, name in enumerate(names)}
    counts = np.full(values.shape, 6250, dtype=np.int64)
    return Scores(benchmark, Table(names, ("imagenet-125", "yfcc-125", "v2-125"), values, counts, facts, {}, "made up"))


def many(models: int, settings: tuple[str, ...], *, benchmark: str, seed: int = 0) -> Scores:
    """As many scores as a large board has."""
    random = np.random.default_rng(seed)
    skill = random.normal(1, 0.8, (models, 1))
    values = LOGIT.inverse(
        skill * random.uniform(0.6, 1.2, len(settings)) + random.normal(0, 0.15, (models, len(settings)))
    )
    names = tuple(f"simulated-model-{i:04d}" for i in range(models))
    facts = {name: {"type": ("STANDARD", "MORE_DATA")[i % 2]} for i, name in enumerate(names)}
    counts = np.full(values.shape, 50_000, dtype=np.int64)
    return Scores(benchmark, Table(names, settings, values, counts, facts, {}, "simulated"))
