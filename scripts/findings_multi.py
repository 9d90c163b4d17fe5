"""What MultiRobustBench and multi-ID claim, and the rule by which rows and tables decide whether it holds."""

from __future__ import annotations

from statistics import mean, median

from findings_measured import Measured, is_ball
from findings_planes import SOURCES, explained, read_planes
from findings_rules import FAILS, HOLDS, MULTI, MULTI_ID, Finding, moved_off_the_line, unknown_because

from holdfast.core.rounding import percent, shown


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


def amount_of_data(data: Measured) -> Finding:
    return moved_off_the_line(
        data,
        MULTI_ID,
        "Models trained on subsets of one data set lie on its line.",
        "its lines are fitted on models of 5 to 50 % of CIFAR-10",
        "models of a tenth and of three tenths of the images lie within 5 points of the line of the others",
        ("10pc", "30pc"),
        lambda above: max(map(abs, above)) < 0.05,
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
