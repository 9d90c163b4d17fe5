"""The scores of OODRobustBench (arXiv:2310.12793): robustness under dataset shift and threat shift, and both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from holdfast.core.types import Score
from holdfast.metrics.averages import degradation, mean_of


class OodScores(NamedTuple):
    """R_c, R_n, OOD_d, OOD_t and OOD of the paper, with what is lost against the unshifted score.

    `corruption` is the mean over corruptions x severities, `natural` over natural sets, `dataset` the mean of these
    two, `threat` the mean over unforeseen attacks, `overall` the mean of dataset and threat.
    """

    corruption: Score
    natural: Score
    dataset: Score
    threat: Score
    overall: Score
    dataset_loss: Score
    threat_loss: Score
    loss: Score


def ood_scores(
    reference: Score,
    *,
    corruptions: Mapping[str, Score | None],
    natural: Mapping[str, Score | None],
    attacks: Mapping[str, Score | None],
) -> OodScores:
    """From one score per corruption and severity, natural set, and unforeseen attack; a missing one is refused."""
    return overall(
        reference,
        corruption=mean_of(corruptions, what="corruptions"),
        natural=mean_of(natural, what="natural sets"),
        threat=mean_of(attacks, what="unforeseen attacks"),
    )


def overall(reference: Score, *, corruption: Score, natural: Score, threat: Score) -> OodScores:
    """From means already taken. Natural and corrupted sets weigh the same, however many there are of each."""
    dataset = mean_of((corruption, natural))
    both = ood(dataset, threat)
    return OodScores(
        corruption,
        natural,
        dataset,
        threat,
        both,
        degradation(reference, dataset),
        degradation(reference, threat),
        degradation(reference, both),
    )


def ood(dataset: Score, threat: Score) -> Score:
    """(OOD_d + OOD_t) / 2."""
    return mean_of((dataset, threat))
