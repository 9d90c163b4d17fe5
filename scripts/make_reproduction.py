"""Writes docs/reproduction.md: published tables computed here, beside what the papers print.

FOLDER holds the public results, each in a folder of its own: imagenet-testbed (robustness_top1s_*.csv and
model_types_*.json of github.com/modestyachts/imagenet-testbed), multirobustbench (def_accs.json and ata_accs.json),
oodrobustbench (*_leaderboard.csv) and cifar10.1-predictions (github.com/modestyachts/CIFAR-10.1). The importers of the
package read them; the printed figures come with the package.
"""

from __future__ import annotations

import argparse
import json
import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from holdfast.boards.table_entries import battery_of
from holdfast.core.table import Table, table
from holdfast.core.types import Score
from holdfast.metrics.multi_attack import CLEAN, Battery, competitiveness, knowledge, single_competitiveness
from holdfast.metrics.ood import ood
from holdfast.metrics.stability import Stability, stability
from holdfast.store.importers import read_results
from holdfast.store.published import published, unread
from holdfast.store.scores import tidy
from holdfast.trends import testbed
from holdfast.trends.fits import Fit, fit
from holdfast.trends.robustness import effective_robustness, printed_line, upper_limit

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reproduction.md"
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
ATTACKS = (  # the nine of arXiv:2302.10980, and none
    "NoAttack",
    "AutoLinfAttack",
    "AutoL2Attack",
    "AutoL1Attack",
    "StAdvAttack",
    "ReColorAdvAttack",
    "JPEGLinfAttack",
    "JPEGL1Attack",
    "ElasticAttack",
    "LPIPSAttack",
)
DEFENCES = {  # as the transcription and as the public results name them
    "dai2022-linf": "Dai2022Formulating_Linf",
    "rebuffi2021-linf": "Rebuffi2021Fixing_Linf",
    "zhang2019-linf": "Zhang2019Theoretically_Linf",
    "madry2018-linf": "Madry2017Towards_Linf",
    "dai2022-lpips": "Dai2022Formulating_LPIPS",
    "laidlaw2021-lpips": "LaidLaw2021Perceptual",
    "rebuffi2021-l2": "Rebuffi2021Fixing_L2",
    "dai2022-l2": "Dai2022Formulating_L2",
    "zhang2019-l2": "Zhang2019Theoretically_L2",
    "madry2018-l2": "Madry2017Towards_L2",
    "madaan2020-no-rst-l1-l2-linf": "Madaan2021Learning_MNG-AC",
    "maini2020-l1-l2-linf": "Maini2020Adversarial",
    "madaan2020-rst-l1-l2-linf": "Madaan2021Learning_MNG-AC-RST",
    "tramer2019-max-l1-l2-linf": "Tramer2019Adversarial_MAX",
    "tramer2019-avg-l1-l2-linf": "Tramer2019Adversarial_AVG",
    "jin2020": "Jin2020Manifold",
}
SINGLE = {"ElasticAttack": 38.48, "StAdvAttack": 50.35}  # arXiv:2302.10980, section 5: the best single-CR_ind-avg
OOD_TABLES = {  # arXiv:2310.12793: table, and half a unit of its last digit
    "oodrobustbench-cifar10-linf": ("Table 1", 0.05),
    "oodrobustbench-cifar10-l2": ("Table 4", 0.005),
    "oodrobustbench-imagenet-linf": ("Table 5", 0.005),
}
LIMITS = {  # arXiv:2310.12793, section 5: upper limits of robustness in percent, by training set and shift
    ("CIFAR10", "ood-d"): 66,
    ("CIFAR10", "ood-t"): 52,
    ("ImageNet", "ood-d"): 43,
    ("ImageNet", "ood-t"): 52,
}
CIFAR = {"cifar10": "CIFAR-10", "cifar10.1:version=v4": "CIFAR-10.1 v4", "cifar10.1": "CIFAR-10.1 v6"}


class Cell(NamedTuple):
    """A printed number and ours, in the printed unit; NaN where the public results have none."""

    row: str
    column: str
    ours: float
    printed: float
    slack: float = 0.005  # half a unit of the last digit printed

    @property
    def is_exact(self) -> bool:
        return abs(self.ours - self.printed) <= self.slack + 1e-9

    @property
    def texts(self) -> list[str]:
        """Ours, printed and the difference."""
        if math.isnan(self.ours):
            return ["missing", f"{self.printed:g}", ""]
        return [f"{self.ours:.4f}", f"{self.printed:g}", f"{round(self.ours - self.printed, 4) + 0:+.4f}"]


def page(folder: Path) -> str:
    """The page, from the public results."""
    parts = [
        "# Published tables, computed again",
        "",
        *_paragraph(
            "Made by `python scripts/make_reproduction.py FOLDER` from the public results of four benchmarks, read by "
            "the importers of this package, and from the papers' tables as transcribed in it. A number is exact when "
            "ours, rounded to as many decimals, is what is printed."
        ),
        *testbed_section(read_testbed(folder)),
        *multi_attack_section(read_defences(folder)),
        *ood_section(folder),
        *limits_section(),
        *cifar_section(folder),
    ]
    return "\n".join(parts) + "\n"


def printed(name: str) -> Iterator[tuple[str, str, float]]:
    """The legible cells of a transcribed table, in the printed unit."""
    for record in tidy(published(name)):
        yield str(record["model"]), str(record["setting"]), float(str(record["value"]))


# the ImageNet testbed


def read_testbed(folder: Path) -> Table:
    """The public results as fractions, with the type of each model."""
    (scores,) = read_results("imagenet-testbed", folder / "imagenet-testbed").scores
    return scores.table


def table_1_cells(results: Table) -> list[Cell]:
    """Every legible cell of Table 1."""
    ours = _table_1(results)
    return [Cell(model, setting, ours[model, setting], value) for model, setting, value in printed("imagenet-testbed")]


def table_2_cells(results: Table) -> list[Cell]:
    """Every legible cell of Table 2."""
    made = testbed.table_2(results, draws=0)
    row_of = {name: i for i, name in enumerate(made.synthetic)}
    natural = {name: made.natural.index(title) for name, title in NATURAL.items()}
    return [
        Cell(model, setting, float(made.values[row_of[model], natural[setting]]), value)
        for model, setting, value in printed("imagenet-testbed-correlations")
    ]


def testbed_section(results: Table) -> list[str]:
    line, one, two = testbed.line_of_table_1(results), table_1_cells(results), table_2_cells(results)
    parts = [
        "",
        "## ImageNet testbed",
        "",
        *_paragraph(
            "arXiv:2007.00644, Tables 1 and 2. The line of Table 1: logit(ImageNetV2) = "
            f"{line.slope:.6f} · logit(ImageNet) {line.intercept:+.6f} over {line.n} standard models, "
            f"r {line.pearson:.5f}, R² {line.r2:.4f} in logits and {line.r2_accuracy:.4f} in accuracy, "
            f"mean absolute error {100 * line.mae:.2f} points."
        ),
        "",
        "| what | legible | exact | missing in the public results | largest difference |",
        "|---|---|---|---|---|",
    ]
    for name, (_, title) in COLUMNS.items():
        parts.append(_summary(f"Table 1, {title}", (cell for cell in one if cell.column == name)))
    for name, title in NATURAL.items():
        parts.append(_summary(f"Table 2, {title}", (cell for cell in two if cell.column == name)))
    parts += _left_out(results)
    parts += _folded("Table 1: percent and points", "model", one, {name: title for name, (_, title) in COLUMNS.items()})
    parts += _folded("Table 2: Pearson correlations", "synthetic shift", two, NATURAL)
    return parts


def _table_1(results: Table) -> dict[tuple[str, str], float]:
    """Table 1 as we compute it, in percent and points."""
    return {
        (row.model, setting): 100 * float(getattr(row, field))
        for row in testbed.table_1(results)
        for setting, (field, _) in COLUMNS.items()
    }


def _left_out(results: Table) -> list[str]:
    """What the text at hand says where the transcription has no value, beside the public results."""
    ours, notes = _table_1(results), unread("imagenet-testbed")
    against = [note for note in notes if "not as in the public results" in note.note]
    repeated = [note for note in notes if note.note.endswith("the number of the row above") and note not in against]
    parts = [
        "",
        *_paragraph(
            f"Of Table 1, {len(notes)} cells have no value in the transcription, because rows run into each other in "
            f"the text at hand: {len(repeated)} repeat the number of the row above, "
            f"{len(notes) - len(repeated) - len(against)} have none of their own, and {len(against)} read otherwise "
            f"than the public results say. Those {len(against)} are taken as misread, which only the printed page can "
            f"settle; counted as printed they would be {len(against)} more cells that differ. The accuracy of "
            "resnet50-randomized_smoothing_noise_0.25 stands on two lines, 70.37 (the number of the row above) and "
            f"70.29; the second is taken. Of Table 2, {len(unread('imagenet-testbed-correlations'))} cells are cut off "
            "at the margin."
        ),
        "",
        "| model | column | the text | the public results |",
        "|---|---|---|---|",
    ]
    for note in notes:
        value = ours[note.model, note.setting]
        result = "none" if math.isnan(value) else f"{value:.2f}"
        parts.append(f"| {note.model} | {COLUMNS[note.setting][1]} | {note.note} | {result} |")
    return parts


# MultiRobustBench


def read_defences(folder: Path) -> Table:
    """Accuracies of every defence, and the row `acc*`."""
    (scores,) = read_results("multirobustbench", folder / "multirobustbench").scores
    return scores.table


def battery_and_training(results: Table, name: str) -> tuple[Battery, dict[str, float]]:
    """The 181 cells of a defence, and what it was trained on."""
    cells = battery_of(results, DEFENCES[name], ATTACKS, results)
    assert cells is not None, "ata_accs.json is beside def_accs.json"
    return cells, json.loads(results.fact(DEFENCES[name], "attacks_used"))


def defence_cells(results: Table) -> list[Cell]:
    """Every printed number of MultiRobustBench's table and figures."""
    return [
        Cell(name, setting, _defence_score(setting, *battery_and_training(results, name)), value)
        for name, setting, value in printed("multirobustbench")
    ]


def single_cells(results: Table) -> list[Cell]:
    """The best single-CR over all defences."""
    made = {name: single_competitiveness(battery_and_training(results, name)[0], resamples=1) for name in DEFENCES}
    cells = []
    for attack, value in SINGLE.items():
        best = max(made, key=lambda name: made[name][attack].average.value)
        cells.append(Cell(best, f"single-CR, {attack}", 100 * made[best][attack].average.value, value))
    return cells


def multi_attack_section(results: Table) -> list[str]:
    cells, single = defence_cells(results), single_cells(results)
    constants = [cell for cell in cells if cell.column == "stability-constant"]
    parts = [
        "",
        "## MultiRobustBench",
        "",
        *_paragraph(
            "arXiv:2302.10980, Table 1, Figures 2 and 3, and section 5. 181 cells a defence: no attack, and nine "
            f"attacks at twenty strengths. {_exact((*cells, *single))} printed numbers are exact, with "
            f"{_exact(constants)} stability constants (15 of Table 1, one of Figure 3). The last column is the pair of "
            "attacks that sets a constant, and how far apart they are in acc*."
        ),
        "",
        "| defence | score | ours | printed | difference | set by |",
        "|---|---|---|---|---|---|",
    ]
    for cell in (*cells, *single):
        pair = _pair(stability(*battery_and_training(results, cell.row))) if cell in constants else ""
        parts.append(f"| {cell.row} | {cell.column} | {' | '.join(cell.texts)} | {pair} |")
    return parts


def _defence_score(setting: str, cells: Battery, trained: Mapping[str, float]) -> float:
    if setting == "stability-constant":
        return stability(cells, trained).constant.value
    if setting == "attacks-seen":
        return 100 * knowledge(cells.entries, trained).share
    if setting == "clean-accuracy":
        return 100 * float(cells.accuracies[cells.entries.index(CLEAN)])
    made = competitiveness(cells, resamples=1)
    return 100 * {"cr-ind-avg": made.average, "cr-ind-worst": made.individual_worst}[setting].value


def _exact(cells: Sequence[Cell]) -> str:
    return f"{sum(cell.is_exact for cell in cells)} of {len(cells)}"


def _pair(made: Stability) -> str:
    return f"{made.known}, {made.other}: {100 * made.gap:.4f} points"


# OODRobustBench


def ood_cells(scores: Table, slack: float) -> list[Cell]:
    """OOD from OOD_d and OOD_t of every row, beside the OOD of the row."""
    columns = (scores.column(f"{name}-robustness") for name in ("ood-d", "ood-t", "ood"))
    return [
        Cell(model, "ood", 100 * ood(*(Score(value, 0, 1, 0) for value in (dataset, threat))).value, 100 * both, slack)
        for model, dataset, threat, both in zip(scores.models, *(column.tolist() for column in columns), strict=True)
    ]


def ood_section(folder: Path) -> list[str]:
    boards = read_results("oodrobustbench", folder / "oodrobustbench").scores
    groups = [
        *((f"public leaderboard {board.benchmark}", ood_cells(board.table, 0.005)) for board in boards),
        *((f"{where}, {name}", ood_cells(published(name).table, slack)) for name, (where, slack) in OOD_TABLES.items()),
    ]
    rows = sum(len(board.table.models) for board in boards)
    parts = [
        "",
        "## OODRobustBench: OOD = (OOD_d + OOD_t) / 2",
        "",
        *_paragraph(
            f"In the {rows} rows of the public leaderboards and in the tables of arXiv:2310.12793, from OOD_d and "
            "OOD_t as printed."
        ),
        "",
        "| rows of | rows | as printed | largest difference |",
        "|---|---|---|---|",
    ]
    for title, cells in groups:
        apart = max(abs(cell.ours - cell.printed) for cell in cells)
        parts.append(f"| {title} | {len(cells)} | {sum(cell.is_exact for cell in cells)} | {apart:.3f} |")
    for title, cells in groups[len(boards) :]:
        parts += _fold(
            f"{title}: every row", ["model", "ours", "printed", "difference"], ([c.row, *c.texts] for c in cells)
        )
    return parts


def limits_section() -> list[str]:
    """The lines behind OODRobustBench's effective robustness, and what they promise at most."""
    trained = published("oodrobustbench-training").table
    cells = {(model, setting): value / 100 for model, setting, value in printed("oodrobustbench-training")}
    parts = [
        "",
        "## OODRobustBench: the lines behind effective robustness",
        "",
        *_paragraph(
            "arXiv:2310.12793 prints scores and effective robustness (Tables 6 to 10) but not its lines. Score minus "
            "effective robustness gives them back; `apart` is how far the printed values are from one straight line at "
            "most, in points. The upper limit is the line at 100 %."
        ),
        "",
        "| trained on | robustness under | models | slope | intercept | limit, ours | printed | difference | apart |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for (dataset, shift), limit in LIMITS.items():
        y, beyond = f"{shift}-robustness", f"{shift}-effective-robustness"
        scores = table({key: value for key, value in cells.items() if trained.fact(key[0], "trained_on") == dataset})
        line = printed_line(scores, y=y, x="id-robustness", beyond=beyond)
        ours, apart = 100 * upper_limit(line), effective_robustness(line, scores) - scores.column(beyond)
        parts.append(
            f"| {dataset} | {shift} | {line.n} | {line.slope:.4f} | {100 * line.intercept:.2f} | {ours:.1f} | {limit} "
            f"| {ours - limit:+.1f} | {100 * np.abs(apart).max():.3f} |"
        )
    return parts


# CIFAR-10.1


def read_answers(folder: Path) -> Table:
    """Accuracies from the published predictions, by model and set."""
    rows = read_results("cifar10-1-predictions", folder / "cifar10.1-predictions").rows
    right = {(each.footer.model, each.footer.scenario): each.correct for each in rows}
    return table(
        {key: float(answers.mean()) for key, answers in right.items()},
        counts={key: len(answers) for key, answers in right.items()},
    )


def cifar_section(folder: Path) -> list[str]:
    results = read_answers(folder)
    lines = [fit(results, "cifar10.1", "cifar10", space=space) for space in ("linear", "logit", "probit")]
    drops = 100 * (results.column("cifar10") - results.column("cifar10.1"))
    parts = [
        "",
        "## CIFAR-10.1",
        "",
        *_paragraph(
            f"The predictions of {len(results.models)} models that come with CIFAR-10.1 (arXiv:1806.00451), sample by "
            f"sample. Accuracy on v6 is {drops.min():.1f} to {drops.max():.1f} points lower; arXiv:1902.10811 prints 3 "
            "to 15 for its models. Neither paper's table is at hand, so there is no difference to show. The line of v6 "
            "on CIFAR-10:"
        ),
        "",
        "| space | models | slope | intercept | R² | mean absolute error, points | Kendall's τ |",
        "|---|---|---|---|---|---|---|",
        *(_line_row(line) for line in lines),
    ]
    return parts + _fold("Every model, percent", ["model", *CIFAR.values()], _accuracies(results))


def _line_row(line: Fit) -> str:
    numbers = f"{line.slope:.4f} | {line.intercept:+.4f} | {line.r2:.4f} | {100 * line.mae:.2f} | {line.kendall:.3f}"
    return f"| {line.space.name} | {line.n} | {numbers} |"


def _accuracies(results: Table) -> Iterator[list[str]]:
    columns = [results.column(name) for name in CIFAR]
    for i, model in enumerate(results.models):
        yield [model, *(f"{100 * column[i]:.2f}" for column in columns)]


# tables


def _summary(title: str, cells: Iterable[Cell]) -> str:
    found = list(cells)
    apart = [abs(cell.ours - cell.printed) for cell in found if np.isfinite(cell.ours)]
    exact, missing = sum(cell.is_exact for cell in found), sum(not np.isfinite(cell.ours) for cell in found)
    return f"| {title} | {len(found)} | {exact} | {missing} | {max(apart):.3f} |"


def _folded(title: str, first: str, cells: list[Cell], columns: Mapping[str, str]) -> list[str]:
    """One folded table per column: ours, printed, difference."""
    parts: list[str] = []
    for name, what in columns.items():
        head = [first, "ours", "printed", "difference"]
        parts += _fold(f"{title}: {what}", head, ([cell.row, *cell.texts] for cell in cells if cell.column == name))
    return parts


def _paragraph(text: str) -> list[str]:
    return textwrap.wrap(text, 120, break_long_words=False, break_on_hyphens=False)


def _fold(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
    return ["", "<details>", f"<summary>{title}</summary>", "", *lines, "", "</details>"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the public results")
    PAGE.write_text(page(parser.parse_args().folder), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
