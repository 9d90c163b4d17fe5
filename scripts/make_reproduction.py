"""Writes docs/reproduction.md: published tables computed here, beside what the papers print.

Needs the public results of https://github.com/modestyachts/imagenet-testbed: the folder with robustness_top1s_*.csv and
model_types_*.json. The printed figures come with the package.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from holdfast.core.table import Table, table
from holdfast.trends import testbed
from holdfast.trends.robustness import effective_robustness, printed_line, upper_limit

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reproduction.md"
PRINTED = ROOT / "src" / "holdfast" / "store" / "published"
COLUMNS = {  # as the transcription names them: our field, and how the page calls it
    "imagenet": ("accuracy", "ImageNet accuracy"),
    "imagenetv2-effective-robustness": ("effective_robustness", "effective robustness"),
    "average-corruptions": ("corruption", "average corruption"),
    "average-pgd": ("pgd", "average PGD"),
}
NATURAL = dict(
    zip(
        ("imagenetv2", "objectnet", "imagenet-vid-pm0", "ytbb-pm0", "imagenet-vid-pm10", "ytbb-pm10", "imagenet-a"),
        testbed.NATURAL,
        strict=True,
    )
)


LIMITS = {  # arXiv:2310.12793, section 5: upper limits of robustness in percent, by training set and shift
    ("CIFAR10", "ood-d"): 66,
    ("CIFAR10", "ood-t"): 52,
    ("ImageNet", "ood-d"): 43,
    ("ImageNet", "ood-t"): 52,
}


class Cell(NamedTuple):
    """A printed number and ours, in the printed unit; NaN where the public results have none."""

    row: str
    column: str
    ours: float
    printed: float

    @property
    def is_exact(self) -> bool:
        # halves to even, as numpy rounds and the paper printed: 22.225 is 22.22 and 41.415 is 41.42
        return bool(np.round(round(self.ours, 9), 2) == self.printed)


def read_testbed(folder: Path) -> Table:
    """The public results as fractions, with the type of each model."""
    (scores,), (types,) = folder.glob("robustness_top1s_*.csv"), folder.glob("model_types_*.json")
    with scores.open(newline="") as file:
        head, *rows = csv.reader(file)
    values = np.array([[float(cell) / 100 if cell else np.nan for cell in row[1:]] for row in rows])
    facts = {name: {"type": kinds["nat"]} for name, kinds in json.loads(types.read_text()).items()}
    models = tuple(row[0] for row in rows)
    return Table(models, tuple(head[1:]), values, np.zeros(values.shape, dtype=np.int64), facts)


def printed(name: str) -> Iterator[tuple[str, str, float]]:
    """The legible cells of a transcribed table."""
    with (PRINTED / f"{name}.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if row["value"]:
                yield row["model"], row["setting"], float(row["value"])


def illegible(name: str) -> int:
    """How many cells of a transcribed table cannot be read."""
    with (PRINTED / f"{name}.csv").open(newline="") as file:
        return sum(not row["value"] for row in csv.DictReader(file))


def table_1_cells(results: Table) -> list[Cell]:
    """Every legible cell of Table 1."""
    ours = {row.model: row for row in testbed.table_1(results)}
    return [
        Cell(model, setting, 100 * float(getattr(ours[model], COLUMNS[setting][0])), value)
        for model, setting, value in printed("imagenet-testbed")
    ]


def table_2_cells(results: Table) -> list[Cell]:
    """Every legible cell of Table 2."""
    made = testbed.table_2(results, draws=0)
    place = {name: i for i, name in enumerate(made.synthetic)}
    natural = {name: made.natural.index(title) for name, title in NATURAL.items()}
    return [
        Cell(model, setting, float(made.values[place[model], natural[setting]]), value)
        for model, setting, value in printed("imagenet-testbed-correlations")
    ]


def page(results: Table) -> str:
    """The page, from the public results."""
    line, one, two = testbed.line_of_table_1(results), table_1_cells(results), table_2_cells(results)
    parts = [
        "# Published tables, computed again",
        "",
        "## ImageNet testbed",
        "",
        "Made by `python scripts/make_reproduction.py FOLDER` from the public results of the ImageNet testbed",
        "(github.com/modestyachts/imagenet-testbed) and the tables of arXiv:2007.00644 as transcribed in this package.",
        "A cell is exact when ours, rounded to two decimals, is what is printed. Cells without a value in the",
        f"transcription are not counted: {illegible('imagenet-testbed')} of Table 1, where the text at hand runs rows",
        "into each other (14 of them can be read, but not as in the public results, and are taken as misread), and",
        f"{illegible('imagenet-testbed-correlations')} of Table 2, cut off at the margin.",
        "",
        f"The line of Table 1: logit(ImageNetV2) = {line.slope:.6f} · logit(ImageNet) {line.intercept:+.6f} over",
        f"{line.n} standard models, r {line.pearson:.5f}, R² {line.r2:.4f} in logits and {line.r2_accuracy:.4f} in",
        f"accuracy, mean absolute error {100 * line.mae:.2f} points.",
        "",
        "| what | legible | exact | missing in the public results | largest difference |",
        "|---|---|---|---|---|",
    ]
    for name, (_, title) in COLUMNS.items():
        parts.append(_summary(f"Table 1, {title}", (cell for cell in one if cell.column == name)))
    for name, title in NATURAL.items():
        parts.append(_summary(f"Table 2, {title}", (cell for cell in two if cell.column == name)))
    parts += limits()
    parts += _comparison(
        "ImageNet testbed, Table 1: percent and points", "model", one, {k: v[1] for k, v in COLUMNS.items()}
    )
    parts += _comparison("ImageNet testbed, Table 2: Pearson correlations", "synthetic shift", two, NATURAL)
    return "\n".join(parts) + "\n"


def limits() -> list[str]:
    """The lines behind OODRobustBench's effective robustness, and what they promise at most."""
    with (PRINTED / "oodrobustbench-training.models.csv").open(newline="") as file:
        data = {row["model"]: row["trained_on"] for row in csv.DictReader(file)}
    cells = {(model, setting): value / 100 for model, setting, value in printed("oodrobustbench-training")}
    parts = [
        "",
        "## OODRobustBench: the lines behind effective robustness",
        "",
        "arXiv:2310.12793 prints scores and effective robustness (Tables 6 to 10) but not its lines. Score minus",
        "effective robustness gives them back; `apart` is how far the printed values are from one straight",
        "line at most, in points. The upper limit is the line at 100 %.",
        "",
        "| trained on | robustness under | models | slope | intercept | limit, ours | printed | difference | apart |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for (dataset, shift), limit in LIMITS.items():
        y, beyond = f"{shift}-robustness", f"{shift}-effective-robustness"
        scores = table({key: value for key, value in cells.items() if data[key[0]] == dataset})
        line = printed_line(scores, y=y, x="id-robustness", beyond=beyond)
        ours, apart = 100 * upper_limit(line), effective_robustness(line, scores) - scores.column(beyond)
        parts.append(
            f"| {dataset} | {shift} | {line.n} | {line.slope:.4f} | {100 * line.intercept:.2f} | {ours:.1f} | {limit} "
            f"| {ours - limit:+.1f} | {100 * np.abs(apart).max():.3f} |"
        )
    return parts


def _summary(title: str, cells: Iterable[Cell]) -> str:
    found = list(cells)
    apart = [abs(cell.ours - cell.printed) for cell in found if np.isfinite(cell.ours)]
    exact, missing = sum(cell.is_exact for cell in found), sum(not np.isfinite(cell.ours) for cell in found)
    return f"| {title} | {len(found)} | {exact} | {missing} | {max(apart):.3f} |"


def _comparison(title: str, first: str, cells: list[Cell], columns: dict[str, str]) -> list[str]:
    """One table per column: ours, printed, difference."""
    parts = ["", f"## {title}"]
    for name, what in columns.items():
        parts += ["", f"### {what[0].upper() + what[1:]}", "", f"| {first} | ours | printed | difference |"]
        parts.append("|---|---|---|---|")
        for cell in cells:
            if cell.column != name:
                continue
            ours = f"{cell.ours:.4f}" if np.isfinite(cell.ours) else "missing"
            difference = f"{cell.ours - cell.printed:+.4f}" if np.isfinite(cell.ours) else ""
            parts.append(f"| {cell.row} | {ours} | {cell.printed:g} | {difference} |")
    return parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the public results of the testbed")
    PAGE.write_text(page(read_testbed(parser.parse_args().folder)), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
