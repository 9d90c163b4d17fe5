"""What OODRobustBench claims, and the rule by which rows decide whether it holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from statistics import mean

import numpy as np
from findings_measured import FEWEST, Measured, agreement, is_ball, r2, slope, value_of
from findings_rules import (
    FAILS,
    HOLDS,
    NOISES,
    OOD,
    STRONG,
    WEAK,
    Finding,
    lines_finding,
    moved_off_the_line,
    number,
    off_the_line,
    unknown_because,
)

from holdfast.core.rounding import percent, shown
from holdfast.core.table import table
from holdfast.core.types import Score
from holdfast.store.published import published
from holdfast.store.rows import Rows
from holdfast.trends.bands import upper_limit_score
from holdfast.trends.fits import fit

PRINTED = "oodrobustbench-cifar10-linf"  # what the paper's Table 1 has
UNSEEN = ("stadv", "ppgd", "lpa")
FAR_BELOW = 0.8  # an upper limit below this is far from what perfect robustness would be


def accuracy_lines(data: Measured) -> Finding:
    claim = "ID accuracy strongly correlates with OOD accuracy in a linear relationship for most dataset shifts."
    theirs = "R² > 0.9 for most shifts, over adversarially trained models"
    rule = f"R² ≥ {STRONG} for more than half of the corruptions, adversarial models"
    shifts = sorted({line.footer.changes[0].name for line in data.of_kinds("corruption").values()})
    models = [m for m in data.models if data.is_adversarial(m)]
    found = {shift: r2((value_of(data.clean(m)), data.under(m, shift)) for m in models) for shift in shifts}
    return lines_finding(claim, theirs, rule, {name: score for name, score in found.items() if score is not None}, data)


def robustness_lines(data: Measured) -> Finding:
    claim = "ID robustness strongly correlates with OOD robustness in a linear relationship for most dataset shifts."
    theirs, rule = (
        "R² > 0.9 for most shifts",
        f"R² ≥ {STRONG} for more than half of the corruptions, adversarial models",
    )
    found: dict[str, Score] = {}
    for line in data.of_kinds("corruption", "attack").values():
        shift, attack = line.footer.changes[0].name, line.footer.changes[1].text
        inside = f"{line.footer.dataset}+{attack}"
        pairs = [
            (value_of(data.score(m, inside)), data.under(m, shift, attack))
            for m in data.models
            if data.is_adversarial(m)
        ]
        made = r2(pairs)
        if made is not None:
            found[shift] = made
    return lines_finding(claim, theirs, rule, found, data)


def mean_accuracy_line(data: Measured) -> Finding:
    pairs = [(value_of(data.clean(m)), data.corrupted(m)) for m in data.models if data.is_adversarial(m)]
    return _mean_line("accuracy", pairs, len(data.shifts()))


def mean_robustness_line(data: Measured) -> Finding:
    attacked = [line.footer for line in data.of_kinds("corruption", "attack").values()]
    if not attacked:
        return _mean_line("robustness", [], 0)
    attack = attacked[0].changes[1].text
    inside = f"{attacked[0].dataset}+{attack}"
    models = [m for m in data.models if data.is_adversarial(m)]
    pairs = [(value_of(data.score(m, inside)), data.corrupted(m, attack)) for m in models]
    return _mean_line("robustness", pairs, len(data.shifts(attack)))


def _mean_line(what: str, pairs: Sequence[tuple[float | None, float | None]], shifts: int) -> Finding:
    claim, rule = f"The line of ID against mean OOD {what}.", f"R² ≥ {STRONG}, adversarial models, under corruptions"
    table = published(PRINTED).table
    printed = list(zip(table.column(f"id-{what}"), table.column(f"ood-d-{what}"), strict=True))
    theirs = f"{_line_words(printed)}, the {len(printed)} models of its Table 1, corruptions and natural shifts"
    whole = [(x, y) for x, y in pairs if x is not None and y is not None]
    made = r2(whole)
    if made is None:
        return unknown_because(OOD, claim, theirs, f"{len(whole)} models with all corruptions; {FEWEST} needed", rule)
    ours = f"{_line_words(whole)}, {len(whole)} models, {shifts} corruptions"
    return Finding(OOD, claim, theirs, ours, HOLDS if made.value >= STRONG else FAILS, rule)


def _line_words(pairs: Sequence[tuple[float, float]]) -> str:
    made, steep = r2(pairs), slope(pairs)
    assert made is not None, "enough models"
    assert steep is not None, "enough models"
    return f"R² {number(made)}, slope {shown(steep, 2)}"


def robustness_degrades(data: Measured) -> Finding:
    claim = "Robustness degrades under dataset shift."
    theirs, rule = "by 18 points on average for CIFAR-10 linf", "mean drop above 0 by more than two standard errors"
    drops = []
    for m in (m for m in data.models if data.is_adversarial(m)):
        for line in data.lines[m].values():
            if [change.kind for change in line.footer.changes] == ["corruption", "attack"]:
                inside = data.score(m, f"{line.footer.dataset}+{line.footer.changes[1].text}")
                if inside is not None:
                    drops.append(inside.value - line.accuracy.value)
    if len(drops) < 2:
        return unknown_because(OOD, claim, theirs, "no adversarial model with attacked corruptions", rule)
    centre, error = mean(drops), float(np.std(drops, ddof=1)) / math.sqrt(len(drops))
    ours = f"by {percent(centre)} points (standard error {percent(error)}) over {len(drops)} cells"
    return Finding(OOD, claim, theirs, ours, HOLDS if centre > 2 * error else FAILS, rule)


def noise_catastrophe(data: Measured) -> Finding:
    claim = "Degradation under noise shifts can be abnormally catastrophic for some models."
    theirs = "43, 46 and 38 points under impulse, Gaussian and shot noise, where the average is 12, 9 and 8"
    rule = "some model loses three times the mean loss of all under a noise, and 20 points at least"
    worst, found = ("", 0.0, 0.0), False
    for noise in NOISES:
        lost = {
            m: clean.value - shifted
            for m in data.models
            if (clean := data.clean(m)) is not None and (shifted := data.under(m, noise)) is not None
        }
        if len(lost) < FEWEST:
            continue
        found = True
        model = max(lost, key=lambda m: lost[m])
        if lost[model] > worst[1]:
            worst = (f"{model} under {noise}", lost[model], mean(lost.values()))
    if not found:
        return unknown_because(OOD, claim, theirs, f"fewer than {FEWEST} models under noise", rule)
    ours = f"largest: {worst[0]}, {percent(worst[1])} points where the mean is {percent(worst[2])}"
    return Finding(OOD, claim, theirs, ours, HOLDS if worst[1] >= max(0.2, 3 * worst[2]) else FAILS, rule)


def unseen_threats(data: Measured) -> Finding:
    claim = "ℓp robustness correlates poorly with non-ℓp robustness (PPGD, LPA, StAdv)."
    theirs, rule = "R² close to 0 for LPA and StAdv", f"R² < {WEAK} for all of them, adversarial models"
    return _between_attacks(data, claim, theirs, rule, lambda name: name in UNSEEN, lambda r: r < WEAK)


def other_norms(data: Measured) -> Finding:
    claim = "ℓp robustness correlates strongly with ℓp robustness of different ε and p-norm."
    theirs, rule = "R² > 0.7 in all set-ups", "R² > 0.7 for all of them, adversarial models"
    return _between_attacks(data, claim, theirs, rule, is_ball, lambda r: r > 0.7)


def _between_attacks(
    data: Measured, claim: str, theirs: str, rule: str, chosen: Callable[[str], bool], good: Callable[[float], bool]
) -> Finding:
    attacks = data.of_kinds("attack")
    seen = data.seen()
    if seen is None:
        return unknown_because(OOD, claim, theirs, "no linf attack at 8/255 in the store", rule)
    models = [m for m in data.models if data.is_adversarial(m)]
    found = {}
    for scenario, line in attacks.items():
        if scenario == seen or not chosen(line.footer.changes[0].name):
            continue
        made = r2((value_of(data.score(m, seen)), value_of(data.score(m, scenario))) for m in models)
        if made is not None:
            found[line.footer.changes[0].text] = made
    if not found:
        return unknown_because(OOD, claim, theirs, f"{len(models)} adversarial models; {FEWEST} needed", rule)
    ours = "; ".join(f"{name} {number(score)}" for name, score in found.items())
    return Finding(OOD, claim, theirs, ours, HOLDS if all(good(s.value) for s in found.values()) else FAILS, rule)


def upper_limits(data: Measured) -> Finding:
    claim = "If current trends continue, models will not reach high robustness under unforeseen threats."
    theirs = "upper limit of OOD_t 52 % (CIFAR-10 linf), where linf robustness would be 100 %"
    rule = f"the interval of the upper limit ends below {percent(FAR_BELOW, 0)} %, linear fit over adversarial models"
    seen = data.seen()
    cells: dict[tuple[str, str], float] = {}
    for m in (m for m in data.models if data.is_adversarial(m)):
        inside, beyond = data.score(m, seen) if seen else None, data.unseen(m)
        if inside is not None and beyond is not None:
            cells |= {(m, "seen"): inside.value, (m, "unseen"): beyond}
    if len(cells) < 2 * FEWEST:
        return unknown_because(OOD, claim, theirs, f"{len(cells) // 2} adversarial models; {FEWEST} needed", rule)
    line = fit(table(cells), "unseen", "seen", space="linear")
    limit = upper_limit_score(line)
    ours = f"{percent(limit.value)} % [{percent(limit.low)}, {percent(limit.high)}] over {limit.n} models"
    if line.r2 < WEAK:
        ours += f"; R² is {shown(line.r2, 2)}: what these attacks leave hardly depends on linf robustness"
    return Finding(OOD, claim, theirs, ours, HOLDS if limit.high < FAR_BELOW else FAILS, rule)


def augmentation(data: Measured) -> Finding:
    return moved_off_the_line(
        data,
        OOD,
        "Advanced data augmentation is more robust than cropping alone, and more than the line expects.",
        "robustness and effective robustness above the baseline for most (Table 7)",
        "every model with CutMix or RandAugment lies above the line of the other standard models",
        ("cutmix", "randaugment"),
        lambda above: min(above) > 0,
    )


def architectures(data: Measured) -> Finding:
    claim = "Advanced architectures boost effective robustness; of those tested, ViT has the most."
    theirs = "shown in its Figure 7c, for robustness"
    rule = "the vision transformer lies above the line of the others, and further than any other architecture"
    names = ("vit", "wrn10", "pre18", "cn8", "w8")
    above = off_the_line(data, [f"{data.dataset}-standard-{name}" for name in names])
    vit = above.get(f"{data.dataset}-standard-vit")
    if vit is None or len(above) < 2:
        return unknown_because(OOD, claim, theirs, f"{FEWEST} standard models with all corruptions are needed", rule)
    ours = "; ".join(f"{name} {percent(value, signed=True)} points" for name, value in above.items())
    return Finding(OOD, claim, theirs, ours, HOLDS if vit == max(above.values()) and vit > 0 else FAILS, rule)


def agreement_lines(data: Measured) -> Finding:
    claim = "Models' agreement on adversarial examples with and without the shift lies on a line."
    theirs, rule = (
        "shown in its Figures 5 and 14",
        f"R² ≥ {STRONG} on logit scale for more than half of the corruptions",
    )
    by_shift: dict[str, dict[str, tuple[Rows, Rows]]] = {}
    for scenario, line in data.of_kinds("corruption", "attack").items():
        inside = f"{line.footer.dataset}+{line.footer.changes[1].text}"
        for m in (m for m in data.models if data.is_adversarial(m)):
            before, after = data.rows(m, inside), data.rows(m, scenario)
            if before is not None and after is not None:
                by_shift.setdefault(line.footer.changes[0].name, {})[m] = before, after
    found = {}
    for shift, rows in by_shift.items():
        pairs = (
            [tuple(agreement(one[i], other[i]) for i in (0, 1)) for one, other in combinations(rows.values(), 2)]
            if len(rows) >= FEWEST
            else []
        )
        made = r2([(x, y) for x, y in pairs])
        if made is not None:
            found[shift] = made
    return lines_finding(claim, theirs, rule, found, data)
