"""What the five papers claim, and the rule by which rows decide whether it holds: a function for every claim.

Each takes the accuracies of a store and says what they show; where models or scenarios are missing it cannot be told.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from statistics import mean, median

import numpy as np
from findings_curves import DEFENDED, MASKING, ROLES, UNDEFENDED, above_the_defended, read_curves
from findings_epochs import differences, mean_difference, printed_differences, read_epochs
from findings_measured import FEWEST, STANDARD, Measured, agreement, is_ball, r2, slope, value_of
from findings_planes import SOURCES, explained, read_planes

from holdfast.core.rounding import percent, shown
from holdfast.core.table import table
from holdfast.core.types import Score
from holdfast.metrics.scopes import metric_of
from holdfast.store.published import published
from holdfast.store.rows import Rows
from holdfast.trends.bands import upper_limit_score
from holdfast.trends.fits import fit

OOD = "OODRobustBench, arXiv:2310.12793"
MULTI = "MultiRobustBench, arXiv:2302.10980"
MULTI_ID = "Multi-ID effective robustness, arXiv:2302.01381"
AGREEMENT = "Posterior agreement"
TESTBED = "ImageNet testbed, arXiv:2007.00644"
PRINTED = "oodrobustbench-cifar10-linf"  # what the paper's Table 1 has
STRONG, WEAK = 0.9, 0.5  # R²
NOISES = ("gaussian-noise", "shot-noise", "impulse-noise")
LOW_FREQUENCY = ("contrast", "fog")
UNSEEN = ("stadv", "ppgd", "lpa")
SHORTCUTS = ("1-cgo", "2-cgo", "3-cgo")
TRAINED_RADIUS = 8  # of 255: of the defended model whose agreement is drawn over radii
COUNTED = 5  # the first epoch that a choice may fall on: scripts/make_selection.py says why
FAR_BELOW = 0.8  # an upper limit below this is far from what perfect robustness would be
HOLDS, FAILS, UNKNOWN = "holds", "does not hold", "cannot be told here"


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim of a paper and what the store says. `rule`: what decides."""

    paper: str
    claim: str
    theirs: str
    ours: str
    verdict: str
    rule: str


def number(score: Score) -> str:
    between = f" [{shown(score.low, 2)}, {shown(score.high, 2)}]" if score.has_interval else ""
    return f"{shown(score.value, 2)}{between}"


def unknown_because(paper: str, claim: str, theirs: str, why: str, rule: str) -> Finding:
    return Finding(paper, claim, theirs, why, UNKNOWN, rule)


def accuracy_lines(data: Measured) -> Finding:
    claim = "ID accuracy strongly correlates with OOD accuracy in a linear relationship for most dataset shifts."
    theirs = "R² > 0.9 for most shifts, over adversarially trained models"
    rule = f"R² ≥ {STRONG} for more than half of the corruptions, adversarial models"
    shifts = sorted({line.footer.changes[0].name for line in data.of_kinds("corruption").values()})
    models = [m for m in data.models if data.is_adversarial(m)]
    found = {shift: r2((value_of(data.clean(m)), data.under(m, shift)) for m in models) for shift in shifts}
    return _lines_finding(
        claim, theirs, rule, {name: score for name, score in found.items() if score is not None}, data
    )


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
    return _lines_finding(claim, theirs, rule, found, data)


def _lines_finding(claim: str, theirs: str, rule: str, found: Mapping[str, Score], data: Measured) -> Finding:
    if not found:
        why = f"{len(data.models)} models; a line needs {FEWEST} with both scores"
        return unknown_because(OOD, claim, theirs, why, rule)
    strong = [name for name, score in found.items() if score.value >= STRONG]
    weakest = min(found, key=lambda name: found[name].value)
    strongest = max(found, key=lambda name: found[name].value)
    ours = (
        f"{len(strong)} of {len(found)} shifts; median R² {shown(median(s.value for s in found.values()), 2)}, "
        f"{strongest} {number(found[strongest])}, {weakest} {number(found[weakest])}"
    )
    return Finding(OOD, claim, theirs, ours, HOLDS if len(strong) > len(found) / 2 else FAILS, rule)


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


def average_and_worst(data: Measured) -> Finding:
    claim = "Models have decent average robustness over attacks, with much room in the worst case."
    theirs = "CR-ind-avg up to 67.8, CR-ind-worst of the best three 2.5 to 3.3"
    rule = "over adversarial models the worst attack leaves less than half of what attacks leave on average"
    shares = []
    for m in (m for m in data.models if data.is_adversarial(m)):
        left = [
            line.accuracy.value
            for line in data.lines[m].values()
            if [change.kind for change in line.footer.changes] == ["attack"]
        ]
        if len(left) >= 4:
            shares.append((mean(left), min(left)))
    if not shares:
        return unknown_because(MULTI, claim, theirs, "no adversarial model under four attacks or more", rule)
    average, worst = mean(a for a, _ in shares), mean(w for _, w in shares)
    ours = f"{percent(average)} % on average, {percent(worst)} % under the worst, {len(shares)} models"
    return Finding(MULTI, claim, theirs, ours, HOLDS if worst < average / 2 else FAILS, rule)


def seen_attacks_help(data: Measured) -> Finding:
    claim = "Models trained on several attacks have better worst-case robustness than those trained on one."
    theirs = "shown by CR-ind-worst in its Figure 3"
    rule = "worst accuracy over linf, l2 and l1 attacks is higher for unions"
    worst: dict[bool, list[float]] = {True: [], False: []}
    for m in (m for m in data.models if data.is_adversarial(m)):
        left = [
            line.accuracy.value
            for line in data.lines[m].values()
            if [c.kind for c in line.footer.changes] == ["attack"] and is_ball(line.footer.changes[0].name)
        ]
        if len(left) >= 3:
            worst[len(data.threats(m)) > 1].append(min(left))
    if min(map(len, worst.values())) < 1:
        return unknown_because(MULTI, claim, theirs, "no pair of a union and a single threat", rule)
    ours = (
        f"unions {percent(mean(worst[True]))} % ({len(worst[True])} models), "
        f"single threats {percent(mean(worst[False]))} % ({len(worst[False])})"
    )
    return Finding(MULTI, claim, theirs, ours, HOLDS if mean(worst[True]) > mean(worst[False]) else FAILS, rule)


def agreement_discriminates(data: Measured) -> Finding:
    claim = "PA consistently discriminates the undefended model; accuracy under attack (AFR) tells less."
    theirs, rule = "shown in its Figure 3", "the interval of every undefended model's PA lies below all defended ones'"
    agree = metric_of("posterior-agreement")
    assert callable(agree), "posterior agreement is a score of two runs"
    scores: dict[bool, list[tuple[str, Score]]] = {True: [], False: []}
    for m in data.models:
        clean = next((line for line in data.lines[m].values() if not line.footer.changes), None)
        for line in data.lines[m].values():
            changes = line.footer.changes
            if clean is None or len(changes) != 1 or not changes[0].args.get("all_steps"):
                continue
            attacked, plain = data.rows(m, line.footer.scenario), data.rows(m, clean.footer.scenario)
            made = None if attacked is None or plain is None else agree(attacked, plain)
            if made is not None:
                scores[data.is_adversarial(m)].append((m, made))
            break
    if min(map(len, scores.values())) < 1:
        why = "no pair of a defended and an undefended model under PGD with `all_steps`"
        return unknown_because(AGREEMENT, claim, theirs, why, rule)
    below = max(score.high for _, score in scores[False]) < min(score.low for _, score in scores[True])
    values = {
        word: [score.value for _, score in part]
        for word, part in (("defended", scores[True]), ("undefended", scores[False]))
    }
    parts = [f"{len(v)} {word} {shown(min(v), 2)} to {shown(max(v), 2)} nats" for word, v in values.items()]
    return Finding(AGREEMENT, claim, theirs, "; ".join(parts), HOLDS if below else FAILS, rule)


def agreement_over_ratios(data: Measured) -> Finding:  # noqa: ARG001 - of docs/agreement-curves.csv
    claim = "Over ratio and radius AFR overestimates the undefended model, PA does not."
    theirs = "shown in its Figure 3, with a model that hides its gradients (JPEG and a reverse sigmoid) low on both"
    rule = (
        "PA puts the undefended and the masking model below the defended one at every ratio from 0.1 and radius from "
        "2/255, AFR_T does not"
    )
    points = read_curves()
    if {point.role for point in points} != set(ROLES):
        return unknown_because(AGREEMENT, claim, theirs, "needs scripts/make_agreement_curves.py", rule)
    inside = [point for point in points if point.radius <= TRAINED_RADIUS]
    outside = [point for point in points if point.radius > TRAINED_RADIUS]
    parts, misplaced = [], Counter[str]()
    for words, some in ((f"up to {TRAINED_RADIUS}/255", inside), ("at larger radii", outside)):
        for role in (UNDEFENDED, MASKING):
            counts = {measure: above_the_defended(some, role, measure) for measure in ("agreement", "afr")}
            misplaced.update({measure: count for measure, (count, _) in counts.items()})
            (by_agreement, every), (by_afr, _) = counts.values()
            counted = f"by PA at {by_agreement}, by AFR_T at {by_afr} of {every} points"
            parts.append(f"{words} {role} not below the defended {counted}")
    whole = {p.role: p for p in points if (p.radius, p.ratio) == (8, 1.0)}
    parts += [
        f"{role} at 8/255 and ratio 1: PA {shown(whole[role].agreement, 2)}, β {shown(whole[role].beta, 2)}, "
        f"AFR_T {percent(whole[role].afr)} %"
        for role in (UNDEFENDED, MASKING, DEFENDED)
    ]
    holds = misplaced["agreement"] == 0 and misplaced["afr"] > 0
    return Finding(AGREEMENT, claim, theirs, "; ".join(parts), HOLDS if holds else FAILS, rule)


def chosen_epochs(method: str, data: Measured) -> Finding:  # noqa: ARG001 - of docs/selected-epochs.csv
    claim = f"PA-selected epochs generalise better than accuracy-selected ones on shortcut tasks: {method.upper()}."
    rule = (
        "mean accuracy on the five test sets, chosen by PA less chosen by accuracy, epochs from the fifth on: "
        "holds where the interval over trainings lies above 0, does not hold where it ends below a point"
    )
    epochs = read_epochs()
    values = differences(epochs, method, COUNTED)
    opportunities = sorted({each.opportunity for each in epochs if each.method == method})
    printed = printed_differences(method, opportunities or SHORTCUTS)
    theirs = "not in its Table 1"
    if printed:
        theirs = (
            f"by {percent(mean(printed), signed=True)} points on average, {percent(max(printed), signed=True)} at most"
        )
    if len(values) < 3:
        return unknown_because(AGREEMENT, claim, theirs, "needs scripts/make_selection.py with three seeds", rule)
    found, every = mean_difference(values), mean_difference(differences(epochs, method, 1))
    reached = mean(e.accuracy for e in epochs if (e.method, e.first, e.by) == (method, COUNTED, "accuracy"))
    each = ", ".join(
        f"{name} {percent(mean(differences(epochs, method, COUNTED, name)), signed=True)}" for name in opportunities
    )
    ours = (
        f"{points(found)} points over {found.n} trainings ({each}), on 1,200 images with a small-cnn of 8,000 weights, "
        f"accuracy {percent(reached)} % where chance is 25; of all ten epochs {points(every)}"
    )
    verdict = HOLDS if found.low > 0 else FAILS if found.high < 0.01 else UNKNOWN
    return Finding(AGREEMENT, claim, theirs, ours, verdict, rule)


def points(score: Score) -> str:
    """A difference of shares with its interval, in points."""
    return (
        f"{percent(score.value, signed=True)} [{percent(score.low, signed=True)}, {percent(score.high, signed=True)}]"
    )


def planes(data: Measured) -> Finding:  # noqa: ARG001 - of docs/planes.csv
    claim = "With several ID test sets models of different training data lie on one plane."
    theirs = "R² of the plane above that of either line, and smaller errors for models left out of the fit"
    rule = (
        "each group of models left out of the fit in turn, the plane's mean error is below that of both lines "
        "on more than half of the shifted sets"
    )
    models = read_planes()
    if models is None:
        return unknown_because(MULTI_ID, claim, theirs, "needs scripts/make_planes.py", rule)
    fits = [[explained(models, y, x) for x in (SOURCES, *((source,) for source in SOURCES))] for y in models.shifted]
    errors = [[each.error for each in both] for both in fits]
    better = sum(plane < min(of_lines) for plane, *of_lines in errors)
    apart = [f"{100 * mean(column):.1f}" for column in zip(*errors, strict=True)]
    shares = [shown(median(each.r2 for each in column), 2) for column in zip(*fits, strict=True)]
    ours = (
        f"{better} of {len(fits)} shifted sets; errors {apart[0]} points on the plane, {apart[1]} and {apart[2]} on "
        f"the lines of MNIST and of the UCI digits; median R² {shares[0]}, {shares[1]} and {shares[2]}; "
        f"{len(models.groups)} small-cnn of 31,000 weights, trained on either source or on mixtures of both"
    )
    return Finding(MULTI_ID, claim, theirs, ours, HOLDS if better > len(fits) / 2 else FAILS, rule)


OF_EPOCHS: Sequence[Callable[[Measured], Finding]] = [partial(chosen_epochs, name) for name in ("erm", "irm", "lisa")]
OF_TABLES = (planes, agreement_over_ratios, *OF_EPOCHS)  # these rest on tables beside the page, not on the store


# how far lines reach, and who lies off them


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


def off_the_line(data: Measured, names: Sequence[str]) -> dict[str, float]:
    """How far models lie above the line of accuracy under corruptions that all other standard ones draw."""
    base = {m: (value_of(data.clean(m)), data.corrupted(m)) for m in data.models if data.group(m) == STANDARD}
    known = {m: (x, y) for m, (x, y) in base.items() if x is not None and y is not None}
    above: dict[str, float] = {}
    for name in names:
        others = {
            (m, part): value for m, pair in known.items() if m != name for part, value in zip("xy", pair, strict=True)
        }
        if name in known and len(others) >= 2 * (FEWEST - 1):
            x, y = known[name]
            above[name] = y - float(fit(table(others), "y", "x").expected(np.array([[x]]))[0])
    return above


def _moved(
    data: Measured,
    paper: str,
    claim: str,
    theirs: str,
    rule: str,
    words: Sequence[str],
    good: Callable[[list[float]], bool],
) -> Finding:
    chosen = [m for m in data.models if data.group(m) == STANDARD and any(word in m for word in words)]
    above = off_the_line(data, chosen)
    if not above:
        return unknown_because(paper, claim, theirs, f"{FEWEST} standard models with all corruptions are needed", rule)
    ours = "; ".join(f"{name} {percent(value, signed=True)} points" for name, value in above.items())
    return Finding(paper, claim, theirs, ours, HOLDS if good(list(above.values())) else FAILS, rule)


def augmentation(data: Measured) -> Finding:
    return _moved(
        data,
        OOD,
        "Advanced data augmentation is more robust than cropping alone, and more than the line expects.",
        "robustness and effective robustness above the baseline for most (Table 7)",
        "every model with CutMix or RandAugment lies above the line of the other standard models",
        ("cutmix", "randaugment"),
        lambda above: min(above) > 0,
    )


def amount_of_data(data: Measured) -> Finding:
    return _moved(
        data,
        MULTI_ID,
        "Models trained on subsets of one data set lie on its line.",
        "its lines are fitted on models of 5 to 50 % of CIFAR-10",
        "models of a tenth and of three tenths of the images lie within 5 points of the line of the others",
        ("10pc", "30pc"),
        lambda above: max(map(abs, above)) < 0.05,
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
    return _lines_finding(claim, theirs, rule, found, data)


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


CLAIMS: Sequence[Callable[[Measured], Finding]] = (
    *(accuracy_lines, robustness_lines, mean_accuracy_line, mean_robustness_line, robustness_degrades),
    *(noise_catastrophe, unseen_threats, other_norms),
    *(upper_limits, augmentation, architectures, amount_of_data, agreement_lines),
    *(average_and_worst, seen_attacks_help, planes, agreement_discriminates, agreement_over_ratios, *OF_EPOCHS),
    *(low_frequencies, corruption_training, norms_under_corruptions),
)
