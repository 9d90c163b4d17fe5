"""What the ImageNet testbed claims, and the rule by which rows decide whether it holds."""

from __future__ import annotations

from statistics import mean

import numpy as np
from findings_measured import FEWEST, STANDARD, Measured, value_of
from findings_rules import FAILS, HOLDS, NOISES, TESTBED, Finding, unknown_because

from holdfast.core.rounding import percent
from holdfast.core.table import table
from holdfast.trends.fits import fit

LOW_FREQUENCY = ("contrast", "fog")


def low_frequencies(data: Measured) -> Finding:
    claim = "PGD-trained models see a drop in robustness to low-frequency corruptions such as contrast."
    theirs = "shown in its Figure 6"
    rule = "share of clean accuracy kept under contrast and fog is lower for adversarial than for standard models"
    kept: dict[bool, list[float]] = {True: [], False: []}
    for m in data.models:
        clean, values = data.clean(m), [data.under(m, name) for name in LOW_FREQUENCY]
        present = [value for value in values if value is not None]
        if clean is not None and clean.value > 0 and present:
            kept[data.is_adversarial(m)].append(mean(present) / clean.value)
    if min(map(len, kept.values())) < 1:
        return unknown_because(TESTBED, claim, theirs, "no pair of standard and adversarial models", rule)
    ours = (
        f"adversarial keep {percent(mean(kept[True]))} % ({len(kept[True])} models), "
        f"standard {percent(mean(kept[False]))} % ({len(kept[False])})"
    )
    return Finding(TESTBED, claim, theirs, ours, HOLDS if mean(kept[True]) < mean(kept[False]) else FAILS, rule)


def corruption_training(data: Measured) -> Finding:
    claim = "Training against one corruption does not transfer well to others."
    theirs, rule = "shown in its Figure 16", "the gain on other kinds of corruptions is below half of that on its own"
    base = [m for m in data.models if not data.is_adversarial(m) and " half under " not in data.trained_on(m)]
    for m in data.models:
        _, _, own = data.trained_on(m).partition(" half under ")
        own = own.partition(" of random")[0].partition(":")[0]
        mine = data.under(m, own) if own else None
        if mine is None or not base:
            continue
        before = [value for b in base if (value := data.under(b, own)) is not None]
        if not before:
            continue
        gain = mine - mean(before)
        shifts = {line.footer.changes[0].name for line in data.of_kinds("corruption").values()}
        alike = NOISES if own in NOISES else (own,)
        others = []
        for shift in sorted(shifts - set(alike)):
            values = [value for b in base if (value := data.under(b, shift)) is not None]
            here = data.under(m, shift)
            if here is not None and values:
                others.append(here - mean(values))
        if others:
            ours = (
                f"{m}: {percent(gain, signed=True)} points on {own}, {percent(mean(others), signed=True)} on the others"
            )
            return Finding(TESTBED, claim, theirs, ours, HOLDS if mean(others) < gain / 2 else FAILS, rule)
    return unknown_because(TESTBED, claim, theirs, "no model trained on a corruption, beside a standard one", rule)


def norms_under_corruptions(data: Measured) -> Finding:
    claim = "ℓp-adversarially robust models provide effective robustness."
    theirs = "on ImageNet-R and ImageNet-Sketch (its Figure 31)"
    rule = "under corruptions, means over models trained on l2 and on linf lie above the line of the standard models"
    line_of = {
        (m, part): v
        for m in data.models
        if data.group(m) == STANDARD
        for part, v in (("x", value_of(data.clean(m))), ("y", data.corrupted(m)))
        if v is not None
    }
    if len(line_of) < 2 * FEWEST:
        return unknown_because(TESTBED, claim, theirs, f"{FEWEST} standard models with all corruptions needed", rule)
    line = fit(table(line_of), "y", "x")
    above: dict[str, list[float]] = {"linf": [], "l2": []}
    for m in data.models:
        clean, shifted = value_of(data.clean(m)), data.corrupted(m)
        if data.group(m) in above and clean is not None and shifted is not None:
            above[data.group(m)].append(shifted - float(line.expected(np.array([[clean]]))[0]))
    if not all(above.values()):
        return unknown_because(TESTBED, claim, theirs, "no pair of linf and l2 training", rule)
    ours = "; ".join(
        f"{norm} {percent(mean(values), signed=True)} points ({len(values)} models)" for norm, values in above.items()
    )
    return Finding(TESTBED, claim, theirs, ours, HOLDS if all(mean(v) > 0 for v in above.values()) else FAILS, rule)
