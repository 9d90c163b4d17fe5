"""How often every interval that the program prints holds the truth, by simulation; writes docs/coverage.md.

    OMP_NUM_THREADS=1 python benchmarks/coverage.py

`LISTED` names every function of the package that makes an interval, with the row of the page that measures it or why
there is none; a test fails where one is missing.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from coverage_cases import LINES, MEANS, PAIRS, PREDICTED, RATIOS, SHARES, Case, cases
from coverage_listed import LISTED
from coverage_measuring import LEAST, MOST, SEED, Measured, measured
from score_coverage import coverages

TRIALS = 4000
PAGE = Path(__file__).parents[1] / "docs" / "coverage.md"
CONFIDENCES = "Calibration, likelihood and posterior agreement"
ONE_BY_ONE = "The least and the most over simulated models; `benchmarks/score_coverage.py` has them one by one."


def of_scores(trials: int) -> Iterator[str]:
    """Rows of ECE, Brier score, NLL, posterior agreement and β: the least and the most over their cases."""
    found: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for made in coverages(trials=trials, resamples=300):
        found[made.score][made.n].append(made.share)
    for score, by_size in found.items():
        shown = " | ".join(f"{100 * min(some):.1f} to {100 * max(some):.1f}" for some in by_size.values())
        yield f"| {score}, {len(next(iter(by_size.values())))} cases | {shown} |"


def cell(made: Measured) -> str:
    if made.given < 0.02 * made.trials or made.given < 20:
        return "–"
    mark = "†" if made.coverage > MOST else "**!**" if made.coverage < LEAST else ""
    part = "" if made.given == made.trials else f" ({100 * made.given / made.trials:.0f} %)"
    return f"{100 * made.coverage:.1f}{mark}{part}"


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
known. Written by `python benchmarks/coverage.py` ({trials:,} trials of the fast cases, a twentieth to a half of that of
the slow ones; seed {seed}; {minutes:.0f} minutes on one core). A coverage of 95 % has a standard error of {error:.1f}
points over {trials:,} trials, of {slow:.1f} over a tenth of them.

- **93 to 99.5 is what is promised**; below stands **!**, and a test fails. A cell below it is measured again, over ten
  times the trials with another seed, and that is what stands here: one of hundreds may fall short by chance.
- **†** more than 99.5. So it is where nearly all draws look the same: an interval that left out more of them would hold
  less than 93 % at another share. Of two models with a true accuracy of 1 % one is ahead by 2 of 20 samples in 2.6 % of
  draws, but of two with 5 % in 19 %, so a difference of 2 must not leave out 0. A smallest value, and a place in a
  ranking, must hold whatever near ties there are.
- **(60 %)** in so many draws there was an interval; else the number is printed without one, and says why. **–** there
  was none, or in fewer than 2 % of draws.
"""

FOOT = """## Numbers without an interval

They are printed without one, and say why: beside the number, or below the table; `note` or `without an interval` in
JSON.

"""


def confirmed(case: Case, trials: int) -> Iterator[Measured]:
    """A case; a cell that falls short, as one of hundreds may by chance, is measured over ten times the trials."""
    for made in measured(case, trials):
        if not made.coverage < LEAST:
            yield made
            continue
        once = case._replace(sizes=(made.n,), shares=(made.share,))
        yield from (again for again in measured(once, 10 * trials, seed=SEED + 1) if again.row == made.row)


def page(trials: int) -> str:
    begun = time.perf_counter()
    found = [made for case in cases() for made in confirmed(case, trials)]
    scores = list(of_scores(max(40, trials // 40)))
    minutes = (time.perf_counter() - begun) / 60
    errors = [100 * (0.95 * 0.05 / count) ** 0.5 for count in (trials, trials / 10)]
    lines = [HEAD.format(trials=trials, seed=SEED, minutes=minutes, error=errors[0], slow=errors[1])]
    for group in (SHARES, PAIRS, MEANS, RATIOS, LINES, PREDICTED):
        lines += [f"## {group}", "", *table(made for made in found if made.group == group)]
    lines += [
        f"## {CONFIDENCES}",
        "",
        "The least and the most over simulated models; `benchmarks/score_coverage.py` has them one by one.",
        "",
    ]
    lines += ["| n | 20 | 100 | 1,000 |", "|---|---|---|---|", *scores, ""]
    none = {name: why for name, why in LISTED.items() if why.startswith("none")}
    lines += [FOOT + "\n".join(f"- `{name}`: {why.removeprefix('none: ')}" for name, why in sorted(none.items())), ""]
    lines += ["## Which function is measured by which row", "", "| function | row |", "|---|---|"]
    lines += [f"| `{name}` | {row} |" for name, row in sorted(LISTED.items()) if name not in none]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--out", type=Path, default=PAGE)
    given = parser.parse_args()
    given.out.write_text(page(given.trials))


if __name__ == "__main__":
    main()
