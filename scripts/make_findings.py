"""Writes docs/findings.md and its figure, and the scores that the board of the suite `findings` ships with.

    python scripts/make_findings.py --store rows [--every-score scores.csv] [--with-shipped]
    python scripts/make_findings.py --tables       # only the rows that rest on tables in docs/, not on a store

`scripts/findings_rows.py` makes the rows. With --with-shipped a store need not hold every run: models keep the scores
under attack that came with holdfast, each of which names its run, and the page says how many. The claims and the rules
that decide them are in files that `findings_claims.py` names. No torch, weights or images are needed.
"""

from __future__ import annotations

import argparse
import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from findings_claims import CLAIMS, OF_TABLES
from findings_measured import FEWEST, Measured, add_shipped, measured
from findings_rules import FAILS, HOLDS, UNKNOWN, Finding

from holdfast.boards.provenance import with_stored_names
from holdfast.core.errors import HoldfastError
from holdfast.core.suites import Column, load_suite
from holdfast.core.table import table
from holdfast.site.drawings import ScatterPanel, ScatterPoint, scatter_drawing, write_drawing
from holdfast.store.store import Store
from holdfast.trends.fits import fit

ROOT = Path(__file__).parents[1]
PUBLISHED = ROOT / "src" / "holdfast" / "store" / "published"
SUITE = "findings"
VERDICTS = (HOLDS, FAILS, UNKNOWN)
FIELDS = ("model", "setting", "value", "n", "source", "note")


def page(data: Measured, dataset: str) -> str:
    """The whole page."""
    findings = [claim(data) for claim in CLAIMS]
    attacks, cells = len(data.of_kinds("attack")), len(data.of_kinds("corruption"))
    counted = Counter(finding.verdict for finding in findings)
    text = [
        "# Findings",
        "",
        "What the five papers claim, and what rows of our own say. Made by `make findings` from a store; the scores",
        "come with holdfast: `holdfast board findings`. A line is fitted on logit scale; brackets are 95 % intervals.",
        "",
        f"On `{dataset}`: {len(data.models)} models, {cells} corruption cells, {attacks} attacks. " + in_all(counted),
        *([shipped_words(data)] if data.shipped else []),
        "",
        "![Accuracy under corruptions and unforeseen attacks over models, with their lines](figures/findings.svg)",
    ]
    for paper in dict.fromkeys(finding.paper for finding in findings):
        text += ["", f"## {paper}", "", "| claim | theirs | ours | verdict | rule |", "|---|---|---|---|---|"]
        text += [row(finding) for finding in findings if finding.paper == paper]
    text += ["", "## The models", "", "| model | group | trained on | threats | clean |", "|---|---|---|---|---|"]
    for model in data.models:
        clean = data.clean(model)
        threats = ", ".join(f"`{threat}`" for threat in data.threats(model)) or "none"
        shown = clean.percent() if clean else ""
        text.append(f"| {model} | {data.group(model)} | {data.trained_on(model)} | {threats} | {shown} |")
    return "\n".join(text) + "\n"


def shipped_words(data: Measured) -> str:
    """How much of the page rests on runs of an earlier store."""
    every = sum(map(len, data.lines.values()))
    return (
        f"{len(data.shipped):,} of its {every:,} runs are of an earlier store: their scores ship with their keys in "
        "`findings.csv`, and what needs rows leaves them out."
    )


def row(finding: Finding) -> str:
    parts = finding.claim, finding.theirs, finding.ours, f"**{finding.verdict}**", finding.rule
    return f"| {' | '.join(parts)} |"


def in_all(counted: Mapping[str, int]) -> str:
    """How many claims have each verdict."""
    return ", ".join(f"{counted.get(verdict, 0)} {verdict}" for verdict in VERDICTS) + "."


def with_tables(text: str) -> str:
    """The page with the rows that rest on tables made again; all others need a store."""
    made = [claim(Measured(None)) for claim in OF_TABLES]  # type: ignore[arg-type]
    rows = {f"| {finding.claim} |": row(finding) for finding in made}
    lines = [next((new for start, new in rows.items() if line.startswith(start)), line) for line in text.splitlines()]
    counted = Counter(verdict for line in lines for verdict in VERDICTS if f" | **{verdict}** | " in line)
    summary = next(number for number, line in enumerate(lines) if line.startswith("On `"))
    lines[summary] = lines[summary].partition(" attacks. ")[0] + " attacks. " + in_all(counted)
    return "\n".join(lines) + "\n"


class Axes(NamedTuple):
    """Two scores of each model, and the models that the line is fitted on."""

    title: str
    x: str
    y: str
    values: dict[str, tuple[float, float]]
    fitted: Sequence[str]


def axes(data: Measured) -> Iterator[Axes]:
    """What the figure shows."""
    clean = {m: score.value for m in data.models if (score := data.clean(m)) is not None}
    shifted = {m: (clean[m], y) for m in clean if (y := data.corrupted(m)) is not None}
    adversarial = [m for m in shifted if data.is_adversarial(m)]
    yield Axes("corruptions", "clean accuracy", "mean under 75 corruption cells", shifted, adversarial)
    if (seen := data.seen()) is not None:
        robust = {m: score.value for m in data.models if (score := data.score(m, seen)) is not None}
        unseen = {m: (robust[m], y) for m in robust if (y := data.unseen(m)) is not None}
        adversarial = [m for m in unseen if data.is_adversarial(m)]
        yield Axes("unforeseen attacks", "under mm5-linf at 8/255", "mean under six of no norm", unseen, adversarial)


def panels(data: Measured) -> list[ScatterPanel]:
    drawn = []
    for each in axes(data):
        points = [
            ScatterPoint(model, x, y, data.group(model), model in each.fitted) for model, (x, y) in each.values.items()
        ]
        lines, note = [], f"fewer than {FEWEST} models, no line"
        if len(each.fitted) >= FEWEST:
            cells = {(m, part): v for m in each.fitted for part, v in zip("xy", each.values[m], strict=True)}
            line = fit(table(cells), "y", "x", space="linear")
            ends = np.linspace(*np.nanpercentile(table(cells).column("x"), [0, 100]), 50)
            lines, note = [(ends, line.expected(ends[:, None]))], f"R² {line.r2:.2f} over {line.n} models"
        drawn.append(ScatterPanel(each.title, each.x, each.y, points, lines, note))
    return drawn


def scores_of(data: Measured, column: Column, model: str) -> tuple[float, int | None, str] | None:
    """A column's value for a model, its count where it is one cell, and where it comes from; None where cells lack."""
    found = [data.lines[model].get(scenario) for scenario in column.every_scenario]
    if column.score or column.of or not found or any(line is None for line in found):
        return None
    accuracies = [line.accuracy for line in found if line is not None]
    if len(accuracies) == 1 and found[0] is not None:
        footer = found[0].footer
        return accuracies[0].value, accuracies[0].n, f"own rows, run {footer.key}"
    terms = [np.mean([data.lines[model][name].accuracy.value for name in term]) for term in column.scenarios]
    return float(np.mean(terms)), None, f"own rows, mean of {len(accuracies)} runs of 1,000 samples"


def shipped_scores() -> list[dict[str, str]]:
    """The scores that come with holdfast."""
    with (PUBLISHED / f"{SUITE}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_published(data: Measured, before: Sequence[Mapping[str, str]]) -> None:
    """The scores of the suite's columns, with what is known of the models. Those of `before` stay where none is new."""
    board = with_stored_names(load_suite(SUITE), data.store).board
    scores = {(score["model"], score["setting"]): dict(score) for score in before if score["model"] in data.lines}
    for model in data.models:
        for column in board:
            if (made := scores_of(data, column, model)) is not None:
                row = model, column.name, f"{100 * made[0]:.4g}", str(made[1] or ""), made[2], ""
                scores[model, column.name] = dict(zip(FIELDS, row, strict=True))
    order = [column.name for column in board]
    with (PUBLISHED / f"{SUITE}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(scores[key] for key in sorted(scores, key=lambda key: (key[0], order.index(key[1]))))
    with (PUBLISHED / f"{SUITE}.models.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["model", "type", "trained_on", "threats"])
        for model in data.models:
            writer.writerow([model, data.group(model), data.trained_on(model), " ".join(data.threats(model))])


def write_every_score(data: Measured, path: Path) -> None:
    """Every accuracy: model, scenario, how many were right, of how many, and the run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["model", "scenario", "right", "n", "run"])
        for model in data.models:
            for scenario, line in data.lines[model].items():
                right = round(line.accuracy.value * line.accuracy.n)
                writer.writerow([model, scenario, right, line.accuracy.n, line.footer.key])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path)
    parser.add_argument(
        "--tables", action="store_true", help="make only the rows again that rest on tables, without a store"
    )
    parser.add_argument("--dataset", default="cifar10")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "findings.md")
    parser.add_argument(
        "--with-shipped", action="store_true", help="scores that ship stand in for runs not in the store"
    )
    parser.add_argument("--every-score", type=Path, help="a CSV of every accuracy with its run")
    given = parser.parse_args()
    if given.tables:
        given.out.write_text(with_tables(given.out.read_text(encoding="utf-8")), encoding="utf-8")
        print(given.out)
        return
    if given.store is None:
        parser.error("name a store, or --tables")
    data = measured(Store(given.store), given.dataset)
    if not data.models:
        parser.error(f"{given.store} has no rows of `{given.dataset}`")
    if given.with_shipped:
        columns = {
            column.name: column.every_scenario for column in with_stored_names(load_suite(SUITE), data.store).board
        }
        single = {name: scenarios[0] for name, scenarios in columns.items() if len(scenarios) == 1}
        add_shipped(data, shipped_scores(), single)
    damaged = [found for found in data.store.verify() if found.problem is not None]
    if damaged:
        raise HoldfastError(f"{len(damaged)} files of {given.store} are not as they were written: {damaged[0]}")
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(page(data, given.dataset), encoding="utf-8")
    write_drawing(scatter_drawing(panels(data)), given.out.parent / "figures" / "findings.svg")
    write_published(data, shipped_scores() if given.with_shipped else [])
    if given.every_score is not None:
        write_every_score(data, given.every_score)
    print(given.out)


if __name__ == "__main__":
    main()
