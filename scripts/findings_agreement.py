"""What posterior agreement claims, and the rule by which rows and tables decide whether it holds."""

from __future__ import annotations

from collections import Counter
from statistics import mean

from findings_curves import DEFENDED, MASKING, ROLES, UNDEFENDED, above_the_defended, read_curves
from findings_epochs import differences, mean_difference, printed_differences, read_epochs
from findings_measured import Measured
from findings_rules import AGREEMENT, FAILS, HOLDS, UNKNOWN, Finding, points, unknown_because

from holdfast.core.rounding import percent, shown
from holdfast.core.types import Score
from holdfast.metrics.scopes import metric_of

SHORTCUTS = ("1-cgo", "2-cgo", "3-cgo")
TRAINED_RADIUS = 8  # of 255: of the defended model whose agreement is drawn over radii
COUNTED = 5  # the first epoch that a choice may fall on: scripts/make_selection.py says why


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
