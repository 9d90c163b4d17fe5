"""How often every interval that the program prints holds the truth, by simulation; writes docs/coverage.md.

    OMP_NUM_THREADS=1 python benchmarks/coverage.py --keep measured.jsonl

What was measured is kept in that file, so that a command that was stopped goes on where it was. After a change of an
interval start with a new file, or take its lines out. `--only places predicted` measures some cases without the page.

`LISTED` names every function of the package that makes an interval, with the row of the page that measures it or why
there is none; a test fails where one is missing.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

from coverage_cases import LINES, MEANS, PAIRS, PREDICTED, RATIOS, SHARES, Case, cases, name_of
from coverage_listed import LISTED
from coverage_measuring import LEAST, MOST, SEED, Measured, at_once, within
from least_coverage import LEAST_BY_ROW
from score_coverage import SIZES, Coverage, of_case
from score_coverage import cases as score_cases

TRIALS = 4000
SCORE_TRIALS, MOST_SCORE_TRIALS = 200, 800  # 800 of 800 lie above 99.5 % by two standard errors
SCORE_RESAMPLES = 200
PAGE = Path(__file__).parents[1] / "docs" / "coverage.md"
CONFIDENCES = "Calibration, likelihood and posterior agreement"
ONE_BY_ONE = "The least and the most over simulated models; `benchmarks/score_coverage.py` has them one by one."


@dataclass
class Kept:
    """What was measured so far, one line of JSON each: its name, the seconds it took, and the counts."""

    path: Path | None
    lines: dict[str, tuple[float, list[list[object]]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.path and self.path.exists():
            for line in self.path.read_text().splitlines():
                name, seconds, counts = json.loads(line)
                self.lines[name] = (seconds, counts)

    def of(self, name: str, measure: Callable[[], Iterable[tuple[object, ...]]]) -> list[list[object]]:
        if name not in self.lines:
            begun = time.process_time()
            made = [list(each) for each in measure()]
            self.lines[name] = (time.process_time() - begun, made)
            if self.path:
                with self.path.open("a") as file:
                    file.write(json.dumps([name, *self.lines[name]]) + "\n")
        return self.lines[name][1]

    @property
    def minutes(self) -> float:
        return sum(seconds for seconds, _ in self.lines.values()) / 60


def found_in(case: Case, trials: int, kept: Kept) -> Iterator[Measured]:
    for n in case.sizes:
        for share in case.shares:
            name = f"{name_of(case)}, n {n}, {share:g}, {trials} trials"
            cells = kept.of(name, partial(at_once, case, n, share, trials, SEED, is_forced))
            yield from (Measured(*cell) for cell in cells)  # type: ignore[arg-type]


def scores_of(kept: Kept) -> Iterator[Coverage]:
    """ECE, Brier score, NLL, posterior agreement and β of every simulated model."""
    for name, measure in score_cases():
        for n in SIZES:
            once = partial(
                of_case,
                name,
                measure,
                trials=SCORE_TRIALS,
                most=MOST_SCORE_TRIALS,
                sizes=(n,),
                resamples=SCORE_RESAMPLES,
            )
            for cell in kept.of(f"{name}, n {n}", once):
                yield Coverage(*cell)  # type: ignore[arg-type]


def of_scores(found: Iterable[Coverage]) -> Iterator[str]:
    """Rows of ECE, Brier score, NLL, posterior agreement and β: the least and the most over their cases."""
    by_score: dict[str, dict[int, list[Coverage]]] = defaultdict(lambda: defaultdict(list))
    for made in found:
        by_score[made.score][made.n].append(made)
    for score, by_size in by_score.items():
        shown = " | ".join(_range(some) for some in by_size.values())
        yield f"| {score}, {len(next(iter(by_size.values())))} cases | {shown} |"


def _range(some: list[Coverage]) -> str:
    shares = [made.share for made in some]
    above = sum(made.share > MOST for made in some)
    return f"{100 * min(shares):.1f} to {100 * max(shares):.1f}" + (f" ({above} above 99.5)" if above else "")


def cell(made: Measured) -> str:
    if made.is_empty:
        return "–"
    low, high = within(made.held, made.given)
    mark = "†" if low > MOST else "**!**" if high < LEAST else ""
    if is_forced(made):
        mark = "‡"
    elif low < LEAST < high or low < MOST < high:
        mark = "~"
    part = "" if made.given == made.trials else f" ({100 * made.given / made.trials:.0f} %)"
    return f"{100 * made.coverage:.1f}{mark}{part}"


def is_forced(made: Measured) -> bool:
    """Whether more than 99.5 % is the least that is possible."""
    return made.coverage > MOST and least_of(made.row, made.n, made.share) > MOST


@cache
def least_of(row: str, n: int, share: float) -> float:
    """The least coverage that any interval can have there; 0 where that is not known."""
    known = LEAST_BY_ROW.get(row)
    return known(n, share) if known else 0.0


def forced(found: Iterable[Measured]) -> Iterator[str]:
    """The cells above 99.5 % beside the least that is possible there."""
    high = [made for made in found if cell(made)[-1:] != "–" and made.coverage > MOST]
    yield "| row | n | true share | measured | no less is possible than |"
    yield "|---|---|---|---|---|"
    for made in high:
        least = least_of(made.row, made.n, made.share)
        shown = f"{100 * least:.2f}" if least else "not known"
        yield f"| {made.row} | {made.n:,} | {made.share:g} | {100 * made.coverage:.2f} | {shown} |"


def table(some: Iterable[Measured]) -> Iterator[str]:
    """The rows of one group, by size and true share."""
    rows: dict[str, list[Measured]] = defaultdict(list)
    for made in some:
        rows[made.row].append(made)
    by_heads: dict[tuple[tuple[int, float], ...], list[str]] = defaultdict(list)
    for row, found in rows.items():
        by_heads[tuple((made.n, made.share) for made in found)].append(row)
    for heads, names in by_heads.items():
        several = len({share for _, share in heads}) > 1
        titles = [f"{n:,}: {share:g}" if several else f"{n:,}" for n, share in heads]
        yield f"| {'n: true share' if several else 'n'} | {' | '.join(titles)} |"
        yield "|---" * (len(titles) + 1) + "|"
        yield from (f"| {name} | {' | '.join(map(cell, rows[name]))} |" for name in names)
        yield ""


HEAD = """# Coverage

How often the intervals of 95 % that holdfast prints hold the truth, in percent, on simulated data of which the truth is
known. Written by `python benchmarks/coverage.py --keep FILE` (seed {seed}; {minutes:.0f} minutes of one core). Every
cell begins with {trials:,} trials, slow ones with a twentieth to a quarter of that. Trials go on, up to 4 to 24 times
as many, until two standard errors to either side of the coverage lie within 93 to 99.5.

- **93 to 99.5 is what is promised**; below stands **!**, and a test fails. **~** after all trials two standard errors
  still reach across one of these limits.
- **‡** more than 99.5, and no interval that holds the truth in 93 % of cases elsewhere can hold it less often here:
  nearly all draws look the same. "Above 99.5 %" below has the least that is possible, computed for each such cell.
- **†** more than 99.5, and less would be possible.
- **(60 %)** in so many draws there was an interval; else the number is printed without one, and says why. **–** there
  was none, or in fewer than 2 % of draws.
"""

ABOVE = """## Above 99.5 %

Where few samples are right, wrong or answered differently, most draws give the same counts.
`benchmarks/least_coverage.py` computes how low coverage can be there for any interval that depends on the counts alone,
misses the truth on either side in 3.5 % of cases at most whatever else is true, and leaves out a value for every
outcome more extreme than one for which it does. Such an interval must hold a value for an outcome wherever some truth
makes the outcomes at least as extreme more likely than 3.5 %. Example: two models with an accuracy of 1 % differ on 3
of 20 samples, all to one side, in 0.1 % of draws. Of two equal models that differ on 18 % of samples, one is so far
ahead or further in 4.8 % of draws, so 3 against 0 must not leave out a difference of 0, and fewer even less.

Pairs of models on the same samples are called different in 3.5 % of cases at most to either side also of those in which
a given number of samples differ: 4 against 0 is 1 of 16 such cases, too many; 5 against 0 is 1 of 32. McNemar's test
without the exact distribution rejects at 4 against 0. It calls 12.5 % of equal models different that differ on four
samples, and 7.0 to 7.8 % of those that differ on 8, 16, 21, 26 or 31; the mid-p version, which `compare` uses, 7.0 and
7.7 % of those that differ on 8 or 16, and 6.6 % at most else. Over all draws of n samples that is 5.4 % at most, for n
up to 1,000, where models differ on 90 % of samples or fewer.

To print no interval there would not be better. Intervals given only where six samples or more differ hold the true
difference of two models with 1 and 5 % of 100 samples right in 88 % of the draws that have one, as they are given where
chance has made the difference large; given always, in 93 %.

A place is a whole number. An interval made of comparisons of pairs misses the sixth place of ten only where it names
six models as ahead or five as behind, so at least one that truly lies on the other side. Each step has a level that
holds where all models not yet passed are equal; where they are apart, as here, such an error is far rarer than 3.5 %.
The bound asks only for the last of the steps. For ratios and places the least is simulated too (4,000 draws), so the
measured value may lie below it by chance.
"""

FOOT = """## Numbers without an interval

They are printed without one, and say why: beside the number, or below the table; `note` or `without an interval` in
JSON.

"""


def page(trials: int, kept: Kept) -> str:
    found = [made for case in cases() for made in found_in(case, trials, kept)]
    scores = list(scores_of(kept))
    lines = [HEAD.format(trials=trials, seed=SEED, minutes=kept.minutes)]
    for group in (SHARES, PAIRS, MEANS, RATIOS, LINES, PREDICTED):
        lines += [f"## {group}", "", *table(made for made in found if made.group == group)]
    lines += [
        f"## {CONFIDENCES}",
        "",
        ONE_BY_ONE,
        "",
    ]
    lines += ["| n | 20 | 100 | 1,000 |", "|---|---|---|---|", *of_scores(scores), ""]
    lines += [ABOVE, *forced(found), ""]
    none = {name: why for name, why in LISTED.items() if why.startswith("none")}
    lines += [FOOT + "\n".join(f"- `{name}`: {why.removeprefix('none: ')}" for name, why in sorted(none.items())), ""]
    lines += ["## Which function is measured by which row", "", "| function | row |", "|---|---|"]
    lines += [f"| `{name}` | {row} |" for name, row in sorted(LISTED.items()) if name not in none]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--out", type=Path, default=PAGE)
    parser.add_argument("--keep", type=Path, help="a file for what was measured")
    parser.add_argument("--only", nargs="+", help="functions of coverage_cases.py or `scores`, to keep; no page")
    given = parser.parse_args()
    kept = Kept(given.keep)
    for name in given.only or ():
        if name == "scores":
            list(scores_of(kept))
        for case in cases():
            if name_of(case).split(" ")[0] == name:
                list(found_in(case, given.trials, kept))
    if not given.only:
        given.out.write_text(page(given.trials, kept))


if __name__ == "__main__":
    main()
