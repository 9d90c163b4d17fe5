"""A second look at survivors: it finds models that hide their gradients, is counted, and changes no row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from holdfast.core.registry import registry
from holdfast.engine import survivor_probe
from holdfast.engine.evaluate import evaluate
from holdfast.engine.survivor_probe import Reach, reach_of
from holdfast.models import TorchClassifier, load, wrap
from holdfast.models.gradient_probes import rises_as_gradients_say
from holdfast.store import Rows

SCENARIO = "fashion-mnist-2k+pgd-linf:radius=16/255,steps=10"


class Hides(nn.Module):
    """An undefended network that hides its gradient in one of several ways."""

    def __init__(self, net: nn.Module, how: str) -> None:
        super().__init__()
        self.net, self.how = net, how
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        if self.how == "rounded":
            images = (images * 12).round() / 12
        elif self.how == "with gradients on" and torch.is_grad_enabled():
            images = images.flip(2)
        elif self.how == "reversed":
            images = images.detach() * 2 - images
        elif self.how == "reversed near the boundary":
            top = self.net(images).detach().topk(2, dim=1).values
            near = (top[:, 0] - top[:, 1] < 1.5)[:, None, None, None]
            images = torch.where(near, images.detach() * 2 - images, images)
        return self.net(images)  # type: ignore[no-any-return]


def model(how: str) -> TorchClassifier:
    return wrap(Hides(load("fashion-standard", device="cpu").net, how), name=how, classes=10, channels=1)


def run(net: TorchClassifier, store: Path, *, scenario: str = SCENARIO, samples: int = 60, **more: Any) -> Rows:
    (outcome,) = evaluate(net, scenario, store=str(store), samples=samples, device="cpu", pictures=0, **more)
    assert outcome.rows is not None, outcome.error
    return outcome.rows


@pytest.mark.parametrize("how", ["rounded", "with gradients on", "reversed"])
def test_a_run_of_a_model_that_hides_its_gradients_is_flagged_without_its_check(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen: 97.5 % and no flag, where the truth is 0."""
    monkeypatch.setattr("holdfast.engine.trials.check", lambda *_, **__: ())
    rows = run(model(how), tmp_path)
    assert rows.correct.mean() > 0.3, "it looks robust"
    names = {flag.name for flag in rows.footer.flags}
    assert names & {"black-box-beats-white-box", "unbounded-attack-fails"}
    assert rows.footer.tallies["probe: passes"] > 0


def test_gradients_that_are_false_near_the_boundary_alone_are_flagged(tmp_path: Path) -> None:
    """Seen: 37 % and no flag, where the truth is 0: no image that is checked lies near the boundary."""
    rows = run(model("reversed near the boundary"), tmp_path, scenario="fashion-mnist-2k+pgd-linf:radius=16/255")
    assert rows.correct.mean() > 0.3, "it looks robust"
    assert [flag.name for flag in rows.footer.flags] == ["gradient-false-near-boundary"]
    tallies = rows.footer.tallies
    assert tallies["probe: gradients compared"] >= tallies["probe: gradients false"] >= 12


def test_gradients_are_compared_with_the_rise_of_the_margin_for_each_image() -> None:
    """On a linear model by hand: true, ten times too long, reversed, absent, not a number."""
    weights = torch.tensor([[1.0, -2.0, 0.5], [0.0, 1.0, -1.0]])
    factors = torch.tensor([1.0, 0.1, -1.0, 0.0, torch.nan])

    def answers(images: Tensor) -> Tensor:
        flat = images.flatten(1)
        own = factors[torch.arange(len(flat)) % 5][:, None]
        return (
            (flat.detach() + own * (flat - flat.detach())).nan_to_num() @ weights.T
            if flat.requires_grad
            else flat @ weights.T
        )

    images = torch.full((5, 1, 1, 3), 0.5)
    labels = torch.tensor([0, 1, 0, 1, 0])
    assert rises_as_gradients_say(answers, images, labels).tolist() == [True, False, False, False, False]


@pytest.mark.parametrize("name", ["fashion-at-linf", "fashion-noise"])
def test_an_honest_model_is_looked_at_and_not_flagged(name: str, tmp_path: Path) -> None:
    rows = run(load(name, device="cpu"), tmp_path)
    assert rows.footer.flags == ()
    tallies = rows.footer.tallies
    assert tallies["probe: survivors asked"] == min(survivor_probe.MOST, int(rows.correct.sum()))
    assert tallies["probe: broken by queries alone"] == 0
    assert tallies["probe: gradients false"] == 0 < tallies["probe: gradients compared"]
    assert "probe: failed" not in tallies


def test_rows_and_their_passes_are_those_of_a_run_without_the_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = load("fashion-at-l2", device="cpu")
    looked = run(net, tmp_path / "one")
    monkeypatch.setattr("holdfast.engine.evaluate.probed", lambda *_, **__: {})
    plain = run(net, tmp_path / "other")
    assert looked.footer.digest == plain.footer.digest
    assert looked.footer.key == plain.footer.key
    assert (looked.footer.forwards, looked.footer.backwards) == (plain.footer.forwards, plain.footer.backwards)
    assert {name for name in looked.footer.tallies if not name.startswith("probe")} == set(plain.footer.tallies)


def test_a_resumed_run_looks_at_the_same_survivors(tmp_path: Path) -> None:
    whole = run(load("fashion-noise", device="cpu"), tmp_path / "one", samples=140)

    class Stops(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.left = load("fashion-noise", device="cpu"), [90]
            self.eval()

        def forward(self, images: Tensor) -> Tensor:
            self.left[0] -= 1
            if self.left[0] == 0:
                raise KeyboardInterrupt
            return self.net(images)  # type: ignore[no-any-return]

    stops = TorchClassifier(Stops(), load("fashion-noise", device="cpu").card).eval()
    with pytest.raises(KeyboardInterrupt):
        run(stops, tmp_path / "two", samples=140, batch_size=16)
    resumed = run(stops, tmp_path / "two", samples=140, batch_size=16)
    probe = {name: count for name, count in whole.footer.tallies.items() if name.startswith("probe: surv")}
    assert probe == {name: count for name, count in resumed.footer.tallies.items() if name.startswith("probe: surv")}
    assert whole.footer.flags == ()
    assert {flag.name for flag in resumed.footer.flags} <= {"keeps-state"}, "it counts its calls"


def test_a_look_that_fails_leaves_the_run_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> dict[str, int]:
        raise ValueError("out of cheese")

    monkeypatch.setattr("holdfast.engine.survivor_probe._Look.unbounded", fails)
    rows = run(load("fashion-at-linf", device="cpu"), tmp_path)
    assert rows.footer.tallies["probe: failed"] == 1
    assert len(rows) == 60


@pytest.mark.parametrize(
    ("text", "reach"),
    [
        ("pgd-l2:radius=0.5", Reach("l2", 0.5)),
        ("fgsm:radius=0.1", Reach("linf", 0.1)),
        ("fab-l2", None),
        ("square-linf", None),
        ("elastic", None),
        ("autoattack-linf", None),
        ("worst-of:attacks=[(fgsm:radius=0.1),(pgd-l2:radius=1.0)]", Reach("linf", 0.1)),
        ("worst-of:attacks=[(fgsm),(pgd-linf)],radius=0.2", Reach("linf", 0.2)),
        ("sweep:attack=(fgsm),radii=[0.1]", None),
    ],
)
def test_queries_stay_inside_what_the_attack_was_bounded_by(text: str, reach: Reach | None) -> None:
    assert reach_of(registry.build(registry.bind("attack", text))) == reach


def test_clean_and_corrupted_runs_are_not_looked_at(tmp_path: Path) -> None:
    for scenario in ("fashion-mnist-2k", "fashion-mnist-2k+gaussian-noise:severity=1"):
        rows = run(load("fashion-noise", device="cpu"), tmp_path, scenario=scenario, samples=20)
        assert rows.footer.tallies == {}


def test_what_was_attacked_after_a_corruption_is_looked_at_after_it(tmp_path: Path) -> None:
    scenario = "fashion-mnist-2k+gaussian-noise:severity=1+pgd-linf:radius=4/255,steps=5"
    rows = run(load("fashion-at-linf", device="cpu"), tmp_path, scenario=scenario)
    assert rows.footer.flags == ()
    assert rows.footer.tallies["probe: clean images now wrong"] == 0
