"""pm-k, unpaired comparisons, CR-in and CR-out, and matrices of R², each against plain loops on 1,000 random cases."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hard_cases import CASES, footer
from scipy import optimize, stats
from scipy.special import logit

from holdfast.core.errors import HoldfastError
from holdfast.core.table import Table
from holdfast.metrics.attack_ratios import RatioInside, RatioOutside
from holdfast.metrics.compare import unpaired
from holdfast.metrics.difference_tests import unpaired_difference
from holdfast.metrics.frames import pm_k
from holdfast.metrics.multi_attack import CLEAN, Battery, Strength, inside_outside
from holdfast.store import Predictions, Rows
from holdfast.store.rows import to_rows
from holdfast.store.scores import Scores
from holdfast.trends.matrices import KINDS, Shift, matrix, r2_matrix, shifts_of


def rows_of_frames(names: list[str], predicted: np.ndarray, labels: np.ndarray) -> Rows:
    n = len(names)
    nothing = np.full(n, np.nan, np.float32)
    made = Predictions(
        ids=names,
        labels=labels,
        logits=np.eye(4, dtype=np.float32)[predicted],
        sizes=nothing,
        radii=nothing,
        forwards=np.ones(n, np.int64),
        backwards=np.zeros(n, np.int64),
        reasons=[None] * n,
    )
    return to_rows(made, footer(4, n)).sealed(footer(4, n))


def test_pm_k_is_that_of_a_loop_over_videos() -> None:
    """Videos of different lengths, anchors at any frame, alternative classes, images that are no frames."""
    for seed in range(CASES):
        random = np.random.default_rng(seed)
        videos = [
            (f"video{v}/{anchor:06}", anchor, range(max(0, anchor - before), anchor + after + 1))
            for v, (anchor, before, after) in enumerate(random.integers(0, 6, (int(random.integers(1, 4)), 3)))
        ]
        names, also, where = [], [], []
        for video, (title, _, frames) in enumerate(videos):
            for frame in frames:
                more = random.choice(4, int(random.integers(0, 3)), replace=False).tolist()
                names.append(f"{title}/{frame:06}" + "".join(f"|{label}" for label in more))
                also.append(more)
                where.append((video, frame))
        for alone in range(int(random.integers(0, 3))):
            names.append(f"image-{alone}")
            also.append([])
            where.append((-1 - alone, 0))
        labels, predicted = random.integers(0, 4, (2, len(names)))
        predicted = np.where(random.random(len(names)) < 0.8, labels, predicted)
        rows, k = rows_of_frames(names, predicted, labels), int(random.integers(0, 7))
        held = {}
        for (video, frame), label, guess, more in zip(where, labels, predicted, also, strict=True):
            anchor = videos[video][1] if video >= 0 else 0
            if -k <= frame - anchor <= k:
                held[video] = held.get(video, True) and (guess == label or guess in more)
        made = pm_k(rows, k)
        assert made.n == len(held) == len(videos) + sum(video < 0 for video, _ in where)
        assert made.value == pytest.approx(sum(held.values()) / len(held))


def likely(k: int, n: int, j: int, m: int, at: float) -> tuple[float, float]:
    """The most likely two shares whose difference is `at`, by a bounded search."""

    def cost(second: float) -> float:
        parts = ((k, second + at), (n - k, 1 - second - at), (j, second), (m - j, 1 - second))
        return -sum(count * math.log(max(share, 1e-300)) for count, share in parts if count)

    low, high = max(0.0, -at), min(1.0, 1.0 - at)
    found = optimize.minimize_scalar(cost, bounds=(low, high), method="bounded", options={"xatol": 1e-10})
    second = min((float(found.x), low, high), key=cost)
    return second + at, second


def test_an_unpaired_comparison_is_the_score_test_of_the_counts() -> None:
    """Value and p against the closed form at a difference of 0; every tenth interval against a search."""
    for seed in range(CASES):
        random = np.random.default_rng(seed)
        n, m = (int(size) for size in random.choice([1, 2, 5, 40, 300], 2))
        k, j = int(random.integers(0, n + 1)), int(random.integers(0, m + 1))
        table = Table(("a", "b"), ("s",), np.array([[k / n], [j / m]]), np.array([[n], [m]]))
        (made,) = unpaired(Scores("bench", table, {"s": "percent"}), "a", "b")
        assert made.difference.value == pytest.approx(k / n - j / m, abs=1e-12)
        assert made.difference.n == min(n, m)
        pooled = (k + j) / (n + m)
        variance = pooled * (1 - pooled) * (1 / n + 1 / m) * (n + m) / (n + m - 1)
        p = math.erfc(abs(k / n - j / m) / math.sqrt(2 * variance)) if variance else 1.0
        assert made.p == pytest.approx(p, abs=1e-7)
        assert made.verdict == ("no difference shown" if p >= 0.05 else "higher" if k / n > j / m else "lower")
        assert made.difference.low <= made.difference.value <= made.difference.high
        if abs(p - 0.05) > 1e-6:
            assert (made.difference.low <= 0 <= made.difference.high) == (p >= 0.05)
        if seed % 10 == 0:
            for bound, sign in ((made.difference.low, 1), (made.difference.high, -1)):
                if -1 < bound < 1:
                    first, second = likely(k, n, j, m, bound)
                    scale = (first * (1 - first) / n + second * (1 - second) / m) * (n + m) / (n + m - 1)
                    assert k / n - j / m - bound == pytest.approx(sign * 1.959964 * math.sqrt(scale), abs=2e-4)


def test_numbers_without_counts_are_compared_without_a_test() -> None:
    values = np.array([[0.5, 0.2, math.nan], [0.4, 0.3, 0.1]])
    counts = np.array([[0, 100, 100], [100, 100, 100]])
    scores = Scores("bench", Table(("a", "b"), ("x", "y", "z"), values, counts), {"y": "fraction"})
    made = {each.setting: each for each in unpaired(scores, "a", "b")}
    assert set(made) == {"x", "y"}  # a missing number is compared with nothing
    assert made["x"].verdict == "counts unknown"
    assert made["x"].texts() == ("50.00", "40.00", "+10.00", "")
    record = made["x"].record()
    assert [record[name] for name in ("setting", "unit", "one", "other")] == ["x", "percent", 0.5, 0.4]
    assert record["difference"] == pytest.approx(0.1)
    assert [record[name] for name in ("difference_low", "difference_high", "n", "p")] == [None] * 4
    tested = unpaired_difference(20, 100, 30, 100)
    assert made["y"].p == tested.p
    assert made["y"].texts()[:2] == ("0.20", "0.30")
    assert made["y"].record()["n"] == 100
    assert [each.setting for each in unpaired(scores, "a", "b", settings=["y"])] == ["y"]
    with pytest.raises(HoldfastError, match="share no setting"):
        unpaired(scores, "a", "b", settings=["z"])


def test_ratios_inside_and_outside_of_training_are_those_of_loops() -> None:
    for seed in range(CASES):
        random = np.random.default_rng(seed)
        attacks = "abc"[: 1 + seed % 3]
        entries = [CLEAN, *(Strength(name, float(k)) for name in attacks for k in range(1, 2 + seed % 4))]
        best = np.maximum(random.integers(0, 21, len(entries)) / 20, 0.05)
        cells = Battery(tuple(entries), random.integers(0, 21, len(entries)) / 20, best, n=50, best_n=20_000)
        trained = {name: float(random.integers(0, 5)) for name in attacks if random.random() < 0.6}
        inside, outside = [], []
        for i, entry in enumerate(entries):
            seen = not entry.attack or (entry.attack in trained and entry.strength <= trained[entry.attack])
            (inside if seen else outside).append(i)
        made = inside_outside(cells, trained, resamples=2)
        for part, where in ((made.inside, inside), (made.outside, outside)):
            if not where:
                assert part is None
                continue
            own, top = [cells.accuracies[i] for i in where], [best[i] for i in where]
            ratios = [a / b for a, b in zip(own, top, strict=True)]
            assert part is not None
            assert part.average.value == pytest.approx(sum(ratios) / len(ratios))
            assert part.individual_worst.value == pytest.approx(min(ratios))
            assert part.expected.value == pytest.approx(sum(own) / sum(top))
            assert part.maximum.value == pytest.approx(min(own) / min(top))
            assert part.worst == entries[where[ratios.index(min(ratios))]]
            assert (part.measured, part.entries) == (len(where), len(where))
        if seed % 50 == 0:
            assert RatioInside().of_battery(cells, trained).value == pytest.approx(made.inside.average.value)
            if made.outside:
                assert RatioOutside(ratio="maximum").of_battery(cells, trained).value == made.outside.maximum.value
            else:
                with pytest.raises(HoldfastError, match="no attack of the battery is unforeseen"):
                    RatioOutside().of_battery(cells, trained)


def random_table(random: np.random.Generator, settings: tuple[str, ...], *, low: float) -> Table:
    n = int(random.choice([2, 3, 5, 20]))
    values = random.uniform(low, 1 - low, (n, len(settings)))
    values[random.random(values.shape) < 0.1] = np.nan
    return Table(tuple(f"m{i}" for i in range(n)), settings, values, np.zeros(values.shape, np.int64))


def naive(x: np.ndarray, y: np.ndarray) -> tuple[float, int]:
    pairs = [(a, b) for a, b in zip(x, y, strict=True) if not (math.isnan(a) or math.isnan(b))]
    if len(pairs) < 3:
        return math.nan, len(pairs)
    return float(stats.linregress(*zip(*pairs, strict=True)).rvalue), len(pairs)


def check_cell(value: float, low: float, high: float, r: float, n: int) -> None:
    """R² and Fisher's interval for r, squared; one that spans 0 begins at 0."""
    assert value == pytest.approx(r**2, abs=1e-9, nan_ok=True)
    if n < 4 or math.isnan(r):
        assert math.isnan(low)
        return
    if r**2 < 1 - 1e-9:
        reach = 1.959964 / math.sqrt(n - 3)
        ends = [math.tanh(math.atanh(r) + side * reach) for side in (-1, 1)]
        least = 0.0 if ends[0] <= 0 <= ends[1] else min(end**2 for end in ends)
        assert (low, high) == pytest.approx((least, max(end**2 for end in ends)), abs=1e-6)


def test_a_matrix_of_r2_is_that_of_scipy_cell_by_cell() -> None:
    for seed in range(CASES):
        random = np.random.default_rng(seed)
        settings = ("a", "b", "c")
        space, low = (("linear", 0.0), ("logit", 0.01))[seed % 2]
        table = random_table(random, settings, low=low)
        made = matrix(table, ("a", "b"), ("b", "c"), space=space)
        correlated = matrix(table, ("a", "b"), ("b", "c"), space=space, measure="pearson")
        for i, x in enumerate(("a", "b")):
            for j, y in enumerate(("b", "c")):
                columns = [table.values[:, settings.index(name)] for name in (x, y)]
                r, n = naive(*(columns if space == "linear" else map(logit, columns)))
                assert made.n[i, j] == n
                assert correlated.values[i, j] == pytest.approx(r, abs=1e-9, nan_ok=True)
                check_cell(made.values[i, j], made.low[i, j], made.high[i, j], r, n)


def test_the_four_kinds_of_r2_are_those_of_scipy_above_a_threshold() -> None:
    settings = ("acc", "rob", "fog-accuracy", "fog-robustness", "snow-accuracy")
    shifts = shifts_of(settings[2:])
    assert shifts == [Shift("fog", "fog-accuracy", "fog-robustness"), Shift("snow", "snow-accuracy", None)]
    for seed in range(CASES // 4):
        random = np.random.default_rng(seed)
        table = random_table(random, settings, low=0.0)
        least = (None, 0.8, 1.1)[seed % 3]
        sums = table.values[:, 0] + table.values[:, 1]
        kept = table.values[sums >= least] if least is not None else table.values
        if not len(kept):
            continue
        made = r2_matrix(table, shifts, accuracy="acc", robustness="rob", least=least)
        assert (made.kinds, made.shifts) == (("Acc-Acc", "Rob-Rob", "Acc-Rob", "Rob-Acc"), ("fog", "snow"))
        inputs, outputs = (0, 1, 0, 1), ((2, 4), (3, None), (3, None), (2, 4))
        for i in range(len(KINDS)):
            for j in range(2):
                y = outputs[i][j]
                r, n = (math.nan, 0) if y is None else naive(kept[:, inputs[i]], kept[:, y])
                assert made.n[i, j] == n
                check_cell(made.values[i, j], made.low[i, j], made.high[i, j], r, n)
