"""What the five papers claim: a function for every claim, in a file for each paper.

Each takes the accuracies of a store and says what they show; where models or scenarios are missing it cannot be told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from findings_agreement import agreement_discriminates, agreement_over_ratios, chosen_epochs
from findings_measured import Measured
from findings_multi import amount_of_data, average_and_worst, planes, seen_attacks_help
from findings_oodrobustbench import (
    accuracy_lines,
    agreement_lines,
    architectures,
    augmentation,
    mean_accuracy_line,
    mean_robustness_line,
    noise_catastrophe,
    other_norms,
    robustness_degrades,
    robustness_lines,
    unseen_threats,
    upper_limits,
)
from findings_rules import Finding
from findings_testbed import corruption_training, low_frequencies, norms_under_corruptions

OF_EPOCHS: Sequence[Callable[[Measured], Finding]] = [partial(chosen_epochs, name) for name in ("erm", "irm", "lisa")]
OF_TABLES = (planes, agreement_over_ratios, *OF_EPOCHS)  # these rest on tables beside the page, not on the store

CLAIMS: Sequence[Callable[[Measured], Finding]] = (
    *(accuracy_lines, robustness_lines, mean_accuracy_line, mean_robustness_line, robustness_degrades),
    *(noise_catastrophe, unseen_threats, other_norms),
    *(upper_limits, augmentation, architectures, amount_of_data, agreement_lines),
    *(average_and_worst, seen_attacks_help, planes, agreement_discriminates, agreement_over_ratios, *OF_EPOCHS),
    *(low_frequencies, corruption_training, norms_under_corruptions),
)
