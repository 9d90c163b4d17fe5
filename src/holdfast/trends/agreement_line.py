"""Accuracy under a shift without its labels, from how often models agree there (arXiv:2206.13089).

Where the agreement of pairs of models under a shift lies on a line over their agreement without it, the accuracies lie
on the same line. Labels are needed only without the shift. Answers to attacked images predict robust accuracy in the
same way. Quantiles of the normal distribution throughout (probit space).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.intervals import CONFIDENCE
from holdfast.core.rounding import percent
from holdfast.core.types import Score, without_interval
from holdfast.metrics.bootstrap_draws import draw_counts, percentiles
from holdfast.trends.bootstrap import fit_lines
from holdfast.trends.dependence import Dependence, accuracies_if_kept, dependence, pairs_of
from holdfast.trends.spaces import PROBIT, Floats, inside

Method = Literal["aline-d", "aline-s"]
ON_THE_LINE = 0.95  # arXiv:2206.13089 predicts where agreement has an R² above this
FEWEST = 5  # models, for an interval: ten pairs
SHARED = 0.85  # share of errors in common beyond which agreement does not tell right from wrong
DRAWS = 500


@dataclass(frozen=True, slots=True, eq=False)
class AgreementLine:
    """The line of agreement under the shift on agreement without it, in probit space, over all pairs of models.

    `spread` is the residual standard deviation. `at_edge` counts pairs that agree always or never, moved half a sample
    inwards.
    """

    slope: float
    intercept: float
    r2: float
    spread: float
    pairs: int
    at_edge: int

    @property
    def holds(self) -> bool:
        """Whether agreement is on the line, so that a prediction has a basis."""
        return self.r2 > ON_THE_LINE


class Predicted(NamedTuple):
    """The accuracy expected of a model under the shift; `reference` is its accuracy without it."""

    model: str
    reference: float
    accuracy: Score


class Prediction(NamedTuple):
    """What agreement says of every model, the line it says it by, and how errors go together where labels exist.

    `refused` says why no prediction has an interval; empty where they have.
    """

    method: str
    line: AgreementLine
    models: tuple[Predicted, ...]
    dependence: Dependence
    refused: str


def agreement_rates(predictions: Floats) -> Floats:
    """How often each pair of models gives the same answer, (models, models); no answer agrees with nothing."""
    n = predictions.shape[1]
    return np.asarray(_gram(predictions, np.ones((1, n), dtype=np.float32))[0] / n, dtype=np.float64)


def predict_accuracy(
    models: Sequence[str],
    reference: Floats,
    labels: NDArray[np.int64],
    shifted: Floats,
    *,
    method: Method = "aline-d",
    same_samples: bool = False,
    draws: int = DRAWS,
    seed: int = 0,
    confidence: float = CONFIDENCE,
) -> Prediction:
    """Accuracy of every model under a shift, from answers with labels without it and answers alone under it.

    `reference` and `shifted` are (models, samples), NaN for no answer; `labels` belong to `reference`. `aline-s` moves
    each accuracy along the line of agreement; `aline-d` solves for the accuracies that the agreement of every pair asks
    for, closer where models lie off the line. `same_samples`: the shifted images are the reference images, in order.

    The interval holds what the line says and what follows where errors go together under the shift as they do without
    it, by the measures of `dependence.joints`, half the range of these; chance is what samples drawn again move and the
    scatter of pairs about the line. Both together reach as the root of their squares, about the middle. Refused where
    agreement is not on a line, for fewer than five models, and for models that share nearly all errors. A shift that
    makes errors depend on each other in a new way is not seen by it.
    """
    reference, shifted = np.asarray(reference, dtype=np.float64), np.asarray(shifted, dtype=np.float64)
    _check(models, reference, labels, shifted, method, same_samples=same_samples)
    right = (reference == labels).astype(np.float64)
    n, m = reference.shape[1], shifted.shape[1]
    before, after = (inside(agreement_rates(a), a.shape[1]) for a in (reference, shifted))
    line = _line(before, after, n, m)
    accuracy = inside(right.mean(axis=1), n)
    solve = _direct if method == "aline-d" else _simple
    value = PROBIT.inverse(solve(before[None], after[None], accuracy[None])[0])
    pairs = pairs_of(reference, labels)
    depends = dependence(pairs)
    refused = _refused(line, len(models), depends)

    def prediction(scores: list[Score]) -> Prediction:
        made = zip(models, right.mean(axis=1).tolist(), scores, strict=True)
        return Prediction(method, line, tuple(Predicted(*each) for each in made), depends, refused)

    if refused:
        return prediction([without_interval(float(is_), m, refused) for is_ in value])
    weights = draw_counts(n, draws, seed=seed)
    weights_after = weights if same_samples else draw_counts(m, draws, seed=seed + 1)
    redrawn = solve(
        inside(_gram(reference, weights.astype(np.float32)) / n, n),
        inside(_gram(shifted, weights_after.astype(np.float32)) / m, m),
        inside(weights @ right.T / n, n),
    )
    scatter = np.random.default_rng(seed + 2).normal(size=redrawn.shape) * line.spread
    # about the prediction: drawing samples twice makes agreement of small sets a little more extreme on average
    below, above = percentiles(redrawn - np.median(redrawn, axis=0) + scatter, confidence=confidence)
    every = np.vstack([value[None], accuracies_if_kept(pairs, after[pairs.one, pairs.other], value)])
    positions = PROBIT.forward(inside(every, m))
    middle, half = (positions.max(axis=0) + positions.min(axis=0)) / 2, np.ptp(positions, axis=0) / 2
    low, high = PROBIT.inverse(middle - np.hypot(half, below)), PROBIT.inverse(middle + np.hypot(half, above))
    return prediction(
        [
            Score(float(is_), min(float(a), float(is_)), max(float(b), float(is_)), m)
            for is_, a, b in zip(value, low, high, strict=True)
        ]
    )


def _refused(line: AgreementLine, models: int, depends: Dependence) -> str:
    """Why no interval would cover as often as it says; empty where one does."""
    if not line.holds:
        return f"agreement is not on a line (R² {line.r2:.2f}, at most {ON_THE_LINE:g})"
    if models < FEWEST:
        return f"{models} models have too few pairs, an interval takes {FEWEST} models"
    if depends.shared > SHARED:
        return (
            f"{percent(depends.shared, 0)} % of the errors are shared, with the same wrong answer: "
            "agreement does not tell right from wrong"
        )
    return ""


def _check(
    models: Sequence[str],
    reference: Floats,
    labels: NDArray[np.int64],
    shifted: Floats,
    method: str,
    *,
    same_samples: bool,
) -> None:
    if method not in ("aline-d", "aline-s"):
        raise Misuse(f"no method named `{method}`", hint="there are: aline-d, aline-s")
    if len(models) < 3:
        raise HoldfastError(
            f"{len(models)} models have {len(models) * (len(models) - 1) // 2} pairs, a line of agreement needs three",
            hint="evaluate more models under both scenarios; ten or more make the line worth reading",
        )
    shapes = f"{reference.shape} and {shifted.shape} for {len(models)} models"
    assert reference.shape[0] == shifted.shape[0] == len(models), f"answers are (models, samples): {shapes}"
    assert labels.shape == reference.shape[1:], f"labels of shape {labels.shape} for answers of {reference.shape}"
    if same_samples and reference.shape != shifted.shape:
        raise Misuse(f"the samples are not the same: {reference.shape[1]} and {shifted.shape[1]}")


def _gram(predictions: Floats, weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """Weighted agreements of all pairs, (draws, models, models); a model agrees with itself on all samples."""
    models = len(predictions)
    made = np.empty((len(weights), models, models), dtype=np.float32)
    turned = np.ascontiguousarray(weights.T)
    for i in range(models):
        same = (predictions[i:] == predictions[i]).astype(np.float32)
        made[:, i, i:] = made[:, i:, i] = (same @ turned).T
        made[:, i, i] = weights.sum(axis=1)
    return made


def _pairs(values: Floats) -> Floats:
    """The pairs of the upper triangle, (…, pairs)."""
    i, j = np.triu_indices(values.shape[-1], k=1)
    return values[..., i, j]


def _line(before: Floats, after: Floats, n: int, m: int) -> AgreementLine:
    one, other = _pairs(before), _pairs(after)
    x, y = PROBIT.forward(one), PROBIT.forward(other)
    fitted = fit_lines(x, y)
    slope, intercept = float(fitted.slope[0, 0]), float(fitted.intercept[0, 0])
    if np.isnan(slope):
        raise HoldfastError(
            "every pair of models agrees equally often, so there is no line of agreement",
            hint="use models of different quality",
        )
    residual = y - (slope * x + intercept)
    total = ((y - y.mean()) ** 2).sum()
    edge = (one <= 0.5 / n) | (one >= 1 - 0.5 / n) | (other <= 0.5 / m) | (other >= 1 - 0.5 / m)
    freedom = max(len(x) - 2, 1)
    r2 = float(1 - (residual**2).sum() / total) if total > 0 else float("nan")
    return AgreementLine(slope, intercept, r2, float(np.sqrt((residual**2).sum() / freedom)), len(x), int(edge.sum()))


def _slopes(before: Floats, after: Floats) -> tuple[Floats, Floats]:
    """Slope and intercept of the agreement line of every draw."""
    x, y = PROBIT.forward(_pairs(before)), PROBIT.forward(_pairs(after))
    fitted = fit_lines(x.T, y.T)  # every draw is a column
    return fitted.slope[0], fitted.intercept[0]


def _simple(before: Floats, after: Floats, accuracy: Floats) -> Floats:
    """ALine-S: the line of agreement applied to accuracy; probit values, (draws, models)."""
    slope, intercept = _slopes(before, after)
    return PROBIT.forward(accuracy) * slope[:, None] + intercept[:, None]


def _direct(before: Floats, after: Floats, accuracy: Floats) -> Floats:
    """ALine-D: least squares over pairs; probit values, (draws, models).

    Notation of arXiv:2206.13089: for each pair (w_i + w_j) / 2 = Φ⁻¹(agreement under the shift) +
    a·((v_i + v_j) / 2 - Φ⁻¹(agreement without it)). Over all pairs the normal matrix is ((n - 2)·I + 1)/4, so the
    solution is closed.
    """
    models = accuracy.shape[-1]
    slope, _ = _slopes(before, after)
    known = PROBIT.forward(accuracy)
    middle = (known[:, :, None] + known[:, None, :]) / 2
    asked = PROBIT.forward(after) + slope[:, None, None] * (middle - PROBIT.forward(before))
    asked[:, np.arange(models), np.arange(models)] = 0
    sums = asked.sum(axis=-1)
    return np.asarray(2 / (models - 2) * (sums - sums.sum(axis=-1, keepdims=True) / (2 * (models - 1))))
