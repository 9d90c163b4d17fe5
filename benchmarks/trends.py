"""Speed and memory of trends: 1,000 refits of every setting of a large testbed, and every line over 10,000 models.

Simulated accuracies with the shape of the published testbed. One thread: run with OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable

import numpy as np

from holdfast.core.table import Table
from holdfast.trends.agreement_line import predict_accuracy
from holdfast.trends.bands import band
from holdfast.trends.column_fits import column_bands, fit_columns
from holdfast.trends.fits import fit
from holdfast.trends.placing import placements
from holdfast.trends.ranks import rank_intervals, rank_intervals_of_scores
from holdfast.trends.robustness import effective_robustness


def simulated(models: int, settings: int, *, missing: float = 0.03) -> Table:
    """Accuracies about lines in logit space, some missing, each on 50,000 or 5,000 images."""
    random = np.random.default_rng(0)
    skill = random.normal(1, 0.6, models)
    logits = skill[:, None] * random.uniform(0.5, 1.2, settings) + random.uniform(-2, 0, settings)
    values = 1 / (1 + np.exp(-(logits + random.normal(0, 0.1, (models, settings)))))
    values[:, 1:][random.random((models, settings - 1)) < missing] = np.nan
    counts = np.where(np.arange(settings) % 4, 50_000, 5000) * np.ones((models, 1), dtype=np.int64)
    return Table(tuple(f"m{i}" for i in range(models)), tuple(f"s{j}" for j in range(settings)), values, counts)


def timed(what: str, job: Callable[[], object], *, within: float | None = None) -> None:
    before = time.perf_counter()
    job()
    seconds = time.perf_counter() - before
    print(f"{what:<78} {seconds:7.2f} s" + (f"  (at most {within:g} s)" if within else ""))


def every_fit(table: Table) -> None:
    """All statistics of every setting's line, one by one, with effective robustness and placements of all models."""
    for name in table.settings[1:]:
        line = fit(table, name, "s0")
        effective_robustness(line, table)
    placements(line, table)


def main() -> None:
    testbed, large = simulated(204, 213), simulated(10_000, 213)
    timed("1,000 refits over models for 213 settings x 204 models", lambda: column_bands(testbed, "s0"), within=3)
    timed(
        "one band over models and samples, 204 models",
        lambda: band(fit(testbed, "s1", "s0"), np.array([0.5]), over="both"),
    )
    timed("213 settings x 10,000 models: every line at once", lambda: fit_columns(large, "s0"))
    timed("213 settings x 10,000 models: every line alone, with τ, MAE and ER", lambda: every_fit(large), within=10)
    timed("1,000 refits over models for 213 settings x 10,000 models", lambda: column_bands(large, "s0"), within=10)
    timed("ranks of 10,000 models from counts", lambda: rank_intervals_of_scores(large, "s0"))
    random = np.random.default_rng(0)
    answers = random.random((204, 10_000)) < np.linspace(0.5, 0.9, 204)[:, None]
    timed("ranks of 204 models from 10,000 answers each", lambda: rank_intervals(testbed.models, answers))
    labels = random.integers(0, 10, 10_000)
    predicted = np.where(answers[::4], labels, random.integers(0, 10, (51, 10_000))).astype(float)
    names = [f"m{i}" for i in range(51)]
    timed(
        "prediction by agreement, 51 models x 10,000 samples, 500 draws",
        lambda: predict_accuracy(names, predicted, labels, predicted),
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{'most memory held':<78} {peak:7.2f} GiB  (at most 2 GiB)")


if __name__ == "__main__":
    main()
