"""The page of findings decides by the rule it prints, and says when it cannot tell."""

from __future__ import annotations

import importlib
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from holdfast.core.intervals import wilson
from holdfast.engine.evaluate import evaluate
from holdfast.store import Store

SCRIPTS = Path(__file__).parents[2] / "scripts"
HOMES = ("claims", "rules", "measured", "oodrobustbench", "testbed", "agreement", "multi")


class Findings:
    """Whatever the scripts of the page define, from the first that has it."""

    def __init__(self) -> None:
        self.modules = {name: importlib.import_module(f"findings_{name}") for name in HOMES}

    def __getattr__(self, name: str) -> Any:
        return next(getattr(module, name) for module in self.modules.values() if hasattr(module, name))


@pytest.fixture(scope="module")
def findings() -> Any:
    if str(SCRIPTS) not in sys.path:
        sys.path.append(str(SCRIPTS))  # where a script finds its neighbours
    return Findings()


def line(scenario: str, right: int, *, threats: tuple[str, ...], trained_on: str) -> Any:
    changes = []
    for text in scenario.split("+")[1:]:
        name = text.partition(":")[0]
        kind = "attack" if name.startswith(("mm5", "stadv")) else "corruption"
        changes.append(SimpleNamespace(kind=kind, name=name, text=text, args={}))
    card = SimpleNamespace(threats=threats, trained_on=trained_on)
    footer = SimpleNamespace(changes=tuple(changes), dataset="d", card=card, key="k")
    return SimpleNamespace(footer=footer, accuracy=wilson(right, 1000))


def data(findings: Any, count: int, cells: dict[str, Any], trained_on: str = "d", threat: bool = False) -> Any:
    """Models whose accuracy under each scenario is a function of their number."""
    made = findings.Measured(None)
    threats = ("mm5-linf:radius=8/255",) if threat else ()
    for number in range(count):
        made.lines[f"m{number}"] = {
            text: line(text, round(right(number)), threats=threats, trained_on=trained_on)
            for text, right in cells.items()
        }
    return made


def test_lines_hold_where_most_corruptions_follow_the_clean_accuracy(findings: Any) -> None:
    cells = {
        "d": lambda i: 600 + 30 * i,
        "d+fog:severity=1": lambda i: 500 + 30 * i,
        "d+contrast:severity=1": lambda i: 400 + 30 * i,
        "d+jpeg:severity=1": lambda i: 500 + 40 * (-1) ** i,
    }
    found = findings.accuracy_lines(data(findings, 10, cells, threat=True))
    assert found.verdict == "holds"
    assert found.ours.startswith("2 of 3 shifts")
    assert findings.accuracy_lines(data(findings, 7, cells, threat=True)).verdict == "cannot be told here"
    flat = cells | {"d+fog:severity=1": lambda i: 500 + 40 * (-1) ** i}
    assert findings.accuracy_lines(data(findings, 10, flat, threat=True)).verdict == "does not hold"


def test_lines_of_means_are_judged_by_their_own_r2_and_stand_beside_the_printed_ones(findings: Any) -> None:
    attack = "mm5-linf:radius=8/255"
    cells = {
        "d": lambda i: 600 + 30 * i,
        "d+fog:severity=1": lambda i: 500 + 30 * i,
        f"d+{attack}": lambda i: 200 + 30 * i,
        f"d+fog:severity=1+{attack}": lambda i: 300 + 100 * (-1) ** i,
        f"d+contrast:severity=1+{attack}": lambda i: 300 + 100 * (-1) ** i,
    }
    made = data(findings, 10, cells, threat=True)
    accuracy, robustness = findings.mean_accuracy_line(made), findings.mean_robustness_line(made)
    assert accuracy.verdict == "holds"
    assert accuracy.ours.endswith("10 models, 1 corruptions")
    assert accuracy.theirs.startswith("R² 0.99 [0.98, 1.00], slope 0.53")
    assert "the 20 models of its Table 1" in accuracy.theirs
    assert robustness.verdict == "does not hold"
    assert robustness.ours.endswith("10 models, 2 corruptions")
    del made.lines["m0"][f"d+contrast:severity=1+{attack}"]
    assert findings.mean_robustness_line(made).ours.endswith("9 models, 2 corruptions"), (
        "a mean of one is no mean of two"
    )
    assert findings.mean_robustness_line(data(findings, 10, cells)).verdict == "cannot be told here"


def test_severities_of_a_corruption_are_averaged(findings: Any) -> None:
    made = data(findings, 1, {"d+fog:severity=1": lambda _: 800, "d+fog:severity=5": lambda _: 400})
    assert made.under("m0", "fog") == pytest.approx(0.6)
    assert made.under("m0", "fog", "mm5-linf") is None


def test_unseen_threats_are_judged_on_adversarial_models_alone(findings: Any) -> None:
    cells = {"d+mm5-linf:radius=8/255": lambda i: 300 + 20 * i, "d+stadv:radius=0.05": lambda i: 200 + 30 * (-1) ** i}
    assert findings.unseen_threats(data(findings, 10, cells)).verdict == "cannot be told here"
    found = findings.unseen_threats(data(findings, 10, cells, threat=True))
    assert found.verdict == "holds"
    cells["d+stadv:radius=0.05"] = lambda i: 200 + 20 * i
    assert findings.unseen_threats(data(findings, 10, cells, threat=True)).verdict == "does not hold"


def test_a_drop_is_counted_from_the_attack_without_the_shift(findings: Any) -> None:
    attack = "mm5-linf:radius=8/255"
    cells = {f"d+{attack}": lambda _: 500, f"d+fog:severity=3+{attack}": lambda i: 300 + i}
    found = findings.robustness_degrades(data(findings, 4, cells, threat=True))
    assert found.verdict == "holds"
    assert found.ours.startswith("by 19.9 points") or found.ours.startswith("by 19.8 points")


def test_one_model_far_below_the_others_is_a_catastrophe(findings: Any) -> None:
    cells = {"d": lambda _: 800, "d+shot-noise:severity=1": lambda i: 750 if i else 300}
    assert findings.noise_catastrophe(data(findings, 12, cells)).verdict == "holds"
    cells["d+shot-noise:severity=1"] = lambda _: 400
    assert findings.noise_catastrophe(data(findings, 12, cells)).verdict == "does not hold"


def test_the_upper_limit_is_where_the_line_meets_full_robustness(findings: Any) -> None:
    """Half of what is gained under the seen attack is gained under unseen ones: 0.1 + 0.5 of it, 60 % at most."""
    cells = {"d+mm5-linf:radius=8/255": lambda i: 200 + 20 * i, "d+stadv:radius=0.05": lambda i: 200 + 10 * i}
    found = findings.upper_limits(data(findings, 10, cells, threat=True))
    assert found.ours.startswith("60.0 %")
    assert found.verdict == "holds"
    assert findings.upper_limits(data(findings, 7, cells, threat=True)).verdict == "cannot be told here"


def test_a_model_off_the_line_of_the_others_is_told_by_how_far(findings: Any) -> None:
    cells = {"d": lambda i: 600 + 30 * i, "d+fog:severity=1": lambda i: 600 + 30 * i - (100 if i == 4 else 0)}
    made = data(findings, 10, cells)
    above = findings.off_the_line(made, ["m4", "absent"])
    assert above == {"m4": pytest.approx(-0.1, abs=1e-6)}


def test_agreement_counts_samples_of_both_runs(findings: Any) -> None:
    one = SimpleNamespace(ids=("a", "b", "c"), predictions=np.array([1, 2, 3]))
    other = SimpleNamespace(ids=("c", "b", "x"), predictions=np.array([3, 0, 9]))
    assert findings.agreement(one, other) == 0.5


def test_a_group_is_the_norm_of_a_single_ball_threat(findings: Any) -> None:
    made = findings.Measured(None)
    for name, threats, trained_on in (
        ("linf", ("pgd-linf:radius=8/255",), "d"),
        ("l1", ("apgd-ce-l1:radius=12",), "d"),
        ("jpeg", ("jpeg-linf:radius=0.05",), "d"),
        ("union", ("pgd-linf:radius=8/255", "pgd-l2:radius=0.5"), "d"),
        ("noisy", (), "d, half under gaussian-noise of random severity"),
        ("foggy", (), "d under fog:severity=3"),
        ("plain", (), "d"),
    ):
        made.lines[name] = {"d": line("d", 900, threats=threats, trained_on=trained_on)}
    groups = [made.group(name) for name in made.models]
    assert groups[:3] == ["linf", "l1", "other threats"]
    assert groups[3:] == ["several threats", *["corruptions in training"] * 2, "standard training"]


def test_means_over_corruptions_and_attacks_need_all_of_them(findings: Any) -> None:
    cells = {"d+fog:severity=1": lambda _: 600, "d+fog:severity=2": lambda _: 400, "d+snow:severity=1": lambda _: 900}
    made = data(findings, 2, cells | {"d+stadv:radius=0.05": lambda _: 300})
    assert made.corrupted("m0") == pytest.approx(0.7)  # each corruption counts once: (0.5 + 0.9) / 2
    assert made.unseen("m0") == pytest.approx(0.3)
    del made.lines["m1"]["d+snow:severity=1"], made.lines["m1"]["d+stadv:radius=0.05"]
    assert made.corrupted("m1") is None
    assert made.unseen("m1") is None


def test_effective_robustness_of_norms_is_their_distance_from_the_standard_line(findings: Any) -> None:
    cells = {"d": lambda i: 600 + 30 * i, "d+fog:severity=1": lambda i: 600 + 30 * i}
    made = data(findings, 10, cells)
    for name, norm, fog in (("a", "linf", 640), ("b", "linf", 660), ("c", "l2", 720), ("e", "l2", 720)):
        threats = (f"pgd-{norm}:radius=1",)
        made.lines[name] = {
            text: line(text, right, threats=threats, trained_on="d")
            for text, right in (("d", 600), ("d+fog:severity=1", fog))
        }
    found = findings.norms_under_corruptions(made)
    assert found.ours == "linf +5.0 points (2 models); l2 +12.0 points (2 models)"
    assert found.verdict == "holds"


def epoch(epochs: Any, by: str, accuracy: float, *, seed: int, first: int = 5, method: str = "irm") -> Any:
    return epochs.ChosenEpoch(method, "1-cgo", seed, first, by, 7, accuracy)


def test_a_difference_between_chosen_epochs_pairs_those_of_one_training(findings: Any) -> None:
    from importlib import import_module

    epochs = import_module("findings_epochs")
    every = [
        epoch(epochs, by, value, seed=seed)
        for seed, by, value in (
            (0, "agreement", 0.6),
            (0, "accuracy", 0.5),
            (1, "agreement", 0.7),
            (1, "accuracy", 0.4),
            (2, "agreement", 0.9),
        )
    ]
    every += [epoch(epochs, "agreement", 0.1, seed=0, first=1), epoch(epochs, "agreement", 0.1, seed=0, method="erm")]
    found = epochs.differences(every, "irm", 5)
    assert found == pytest.approx([0.1, 0.3])
    score = epochs.mean_difference(found)
    reach = 12.7062 * 0.1  # Student's t for two values, times their standard error: half their distance
    assert (score.value, score.low, score.high) == pytest.approx((0.2, 0.2 - reach, 0.2 + reach), abs=1e-4)


@pytest.mark.parametrize(
    ("gains", "verdict"),
    [
        ((0.02, 0.03, 0.04), "holds"),
        ((-0.04, -0.03, -0.02), "does not hold"),
        ((-0.1, 0.0, 0.1), "cannot be told here"),
    ],
)
def test_chosen_epochs_are_judged_by_their_interval(
    findings: Any, monkeypatch: pytest.MonkeyPatch, gains: tuple[float, ...], verdict: str
) -> None:
    from importlib import import_module

    epochs = import_module("findings_epochs")
    made = [
        epoch(epochs, by, 0.5 + (gain if by == "agreement" else 0), seed=seed, first=first)
        for seed, gain in enumerate(gains)
        for by in ("agreement", "accuracy")
        for first in (5, 1)
    ]
    monkeypatch.setattr(findings.modules["agreement"], "read_epochs", lambda: made)
    found = findings.chosen_epochs("irm", findings.Measured(None))
    assert found.verdict == verdict
    assert "over 3 trainings" in found.ours
    assert found.theirs == "by +4.1 points on average, +7.6 at most"  # its Table 1, IRM under 1-CGO
    monkeypatch.setattr(findings.modules["agreement"], "read_epochs", lambda: made[:4])
    assert findings.chosen_epochs("irm", findings.Measured(None)).verdict == "cannot be told here"


def test_the_page_has_the_rows_of_its_tables(findings: Any) -> None:
    from importlib import import_module

    page = (SCRIPTS.parent / "docs" / "findings.md").read_text(encoding="utf-8")
    assert import_module("make_findings").with_tables(page) == page


def digits(shifted: Any) -> Any:
    """Models of two sources and of mixtures, whose logit on a shifted set is a function of those on the sources."""
    from importlib import import_module

    draws = np.random.default_rng(0)
    inputs = {"mnist": draws.normal(1.5, 0.3, 9), "uci": draws.normal(0, 0.3, 9), "mixed": draws.normal(0.8, 0.4, 9)}
    cells, groups = {}, []
    for group, start in inputs.items():
        for i, one in enumerate(start):
            other = 2 - one + draws.normal(0, 0.3)
            logits = {"mnist": one, "uci": other, "mnist fog": shifted(one, other, draws)}
            cells |= {(f"{group}-{i}", name): 1 / (1 + np.exp(-value)) for name, value in logits.items()}
            groups.append(group)
    planes = import_module("findings_planes")
    counts = dict.fromkeys(cells, 1000)
    return planes.DigitModels(planes.table(cells, counts=counts), tuple(groups))


def test_models_lie_on_one_plane_where_both_sources_explain_them(
    findings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        findings.modules["multi"], "read_planes", lambda: digits(lambda one, other, _: 0.7 * one + 0.4 * other - 0.5)
    )
    found = findings.planes(findings.Measured(None))
    assert found.verdict == "holds"
    assert found.ours.startswith("1 of 1 shifted sets; errors 0.0 points on the plane")
    assert "median R² 1.00" in found.ours
    noise = digits(lambda one, _, draws: one + draws.normal(0, 0.05))
    monkeypatch.setattr(findings.modules["multi"], "read_planes", lambda: noise)
    assert findings.planes(findings.Measured(None)).verdict == "does not hold", "one source explains it alone"
    monkeypatch.setattr(findings.modules["multi"], "read_planes", lambda: None)
    assert findings.planes(findings.Measured(None)).verdict == "cannot be told here"


def test_a_group_left_out_is_predicted_by_the_others(findings: Any) -> None:
    """Of two groups of two models each the line through one misses the other by a logit."""
    from importlib import import_module

    planes = import_module("findings_planes")
    logits = {"a1": (-1.0, -1.0), "a2": (0.0, 0.0), "b1": (0.0, 1.0), "b2": (1.0, 2.0)}
    cells = {
        (model, name): 1 / (1 + np.exp(-value))
        for model, values in logits.items()
        for name, value in zip("xy", values, strict=True)
    }
    found = planes.explained(
        planes.DigitModels(planes.table(cells, counts=dict.fromkeys(cells, 99)), (*"aabb",)), "y", "x"
    )

    def accuracy(logit: float) -> float:
        return float(1 / (1 + np.exp(-logit)))

    missed = [accuracy(one + 1) - accuracy(one) for one in (-1.0, 0.0, 0.0, 1.0)]
    assert found.error == pytest.approx(np.mean(missed))
    assert found.r2 < 0.95, "one line through all"


@pytest.mark.parametrize(
    ("agreement", "afr", "verdict"),
    [
        ({"undefended": 0.5, "masking": 0.4, "defended": 1.0}, {"undefended": 0.9, "masking": 0.2}, "holds"),
        ({"undefended": 1.5, "masking": 0.4, "defended": 1.0}, {"undefended": 0.9, "masking": 0.2}, "does not hold"),
        ({"undefended": 0.5, "masking": 0.4, "defended": 1.0}, {"undefended": 0.1, "masking": 0.2}, "does not hold"),
    ],
)
def test_agreement_over_ratios_counts_where_a_weak_model_is_put_above_the_defended(
    findings: Any,
    monkeypatch: pytest.MonkeyPatch,
    agreement: dict[str, float],
    afr: dict[str, float],
    verdict: str,
) -> None:
    from importlib import import_module

    point = import_module("findings_curves").CurvePoint
    made = [
        point(role, radius, ratio, value, 1.0, afr.get(role, 0.6))
        for role, value in agreement.items()
        for radius in (2, 8)
        for ratio in (0.5, 1.0)
    ]
    monkeypatch.setattr(findings.modules["agreement"], "read_curves", lambda: made)
    found = findings.agreement_over_ratios(findings.Measured(None))
    assert found.verdict == verdict
    assert "up to 8/255 undefended not below the defended by PA at" in found.ours
    assert "of 4 points;" in found.ours
    monkeypatch.setattr(findings.modules["agreement"], "read_curves", lambda: made[:4])
    assert findings.agreement_over_ratios(findings.Measured(None)).verdict == "cannot be told here"


def test_printed_differences_are_those_of_table_1(findings: Any) -> None:
    printed = importlib.import_module("findings_epochs").printed_differences("erm", ["1-cgo", "3-cgo"])
    assert [round(100 * value, 1) for value in printed] == [9.5, 10.2, 0.3, 2.2, 0.5, 16.6, 3.6, 9.7, 6.4, 6.7]


@pytest.mark.usefixtures("findings")
def test_models_are_dealt_once_each_to_processes_of_like_work() -> None:
    rows = importlib.import_module("findings_rows")
    hard, easy = [f"hard{i}" for i in range(7)], [f"easy{i}" for i in range(6)]
    dealt = rows.groups(hard, easy, 4)
    assert sorted(name for group in dealt for name in group) == sorted(hard + easy)
    assert [sum(name in hard for name in group) for group in dealt] == [2, 2, 2, 1]
    assert {len(group) for group in dealt} <= {3, 4}
    assert rows.groups(hard[:2], [], 5) == [["hard0"], ["hard1"]]
    found = rows.models()
    assert found[0]
    assert not set(found[0]) & set(found[1])


def test_a_terminated_script_leaves_no_process_behind(tmp_path: Path) -> None:
    command = [sys.executable, SCRIPTS / "findings_rows.py", "--store", tmp_path / "store", "--processes", "1"]
    running = subprocess.Popen([*command, "--device", "cpu"], stdout=subprocess.DEVNULL)
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
    if not children.exists():
        pytest.skip("this system does not list the children of a process")
    deadline = time.monotonic() + 60
    while not (begun := children.read_text().split()) and time.monotonic() < deadline:
        time.sleep(0.05)
    running.terminate()
    assert running.wait(60) == 128 + signal.SIGTERM
    assert begun
    while any(Path("/proc", child).exists() for child in begun) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(Path("/proc", child).exists() for child in begun)


@pytest.mark.usefixtures("findings")
def test_shipped_scores_stand_in_for_runs_that_the_store_lacks(findings: Any, tmp_path: Path) -> None:
    store = Store(tmp_path)
    evaluate("fashion-standard", ["fashion-mnist-2k", "fashion-mnist-2k+fgsm"], store=store, samples=10, pictures=0)
    evaluate("fashion-noise", ["fashion-mnist-2k"], store=store, samples=10, pictures=0)
    measured = importlib.import_module("findings_measured")
    data = measured.measured(store, "fashion-mnist-2k")
    (fgsm,) = data.of_kinds("attack")
    own = data.lines["fashion-standard"][fgsm]
    scores = [
        {"model": model, "setting": setting, "value": "45.1", "n": n, "source": source}
        for model, setting, n, source in (
            ("fashion-standard", "attacked", "1000", "own rows, run 0a1b"),  # there are rows of it
            ("fashion-noise", "attacked", "1000", "own rows, run 0a1c"),
            ("fashion-noise", "corrupted", "", "own rows, mean of 75 runs of 1,000 samples"),
            ("fashion-noise", "elsewhere", "1000", "own rows, run 0a1d"),  # no model has rows under it
            ("fashion-at-l2", "attacked", "1000", "own rows, run 0a1e"),  # nothing is known of the model
        )
    ]
    measured.add_shipped(data, scores, {"attacked": fgsm, "corrupted": fgsm, "elsewhere": "fashion-mnist-2k+stadv"})
    assert data.lines["fashion-standard"][fgsm] is own
    added = data.lines["fashion-noise"][fgsm]
    assert added.accuracy == wilson(451, 1000)
    assert (added.footer.key, added.footer.model, added.footer.scenario) == ("0a1c", "fashion-noise", fgsm)
    assert added.footer.card == data.lines["fashion-noise"]["fashion-mnist-2k"].footer.card
    assert added.footer.changes == own.footer.changes
    assert data.shipped == {"0a1c"}
    assert data.rows("fashion-noise", fgsm) is None, "of which only the score is at hand"
    assert data.rows("fashion-standard", fgsm) is not None
    assert sorted(data.models) == ["fashion-noise", "fashion-standard"]
