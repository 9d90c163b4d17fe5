"""What the gradient loop is joined from, by hand: starts of restarts, padded batches, second looks, merged results."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from holdfast.attacks.active_set import ActiveSet
from holdfast.attacks.aimed import ranked_targets, targeted_dlr
from holdfast.attacks.asked_model import AskedModel, ExactModel
from holdfast.attacks.attack import LoopResult
from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.minimal import SmallestPoints
from holdfast.attacks.objectives import Objective, dlr, margin
from holdfast.attacks.replay import steps_per_round
from holdfast.attacks.shapes import length
from holdfast.attacks.steps import Steepest
from holdfast.attacks.threat import Scene
from holdfast.attacks.threats.balls import L2, Linf
from holdfast.core.errors import Misuse
from holdfast.core.noise import Noise
from holdfast.core.types import Batch, FastVersion
from holdfast.models import TorchClassifier, wrap

# leads of 0.3, 0.3 and 0.7; the logits are the pixels, ten times over
IMAGES = torch.tensor([[0.8, 0.3, 0.5, 0.1], [0.2, 0.4, 0.6, 0.9], [0.9, 0.2, 0.2, 0.1]]).view(3, 1, 2, 2)
BATCH = Batch(IMAGES, torch.tensor([0, 3, 0]), ("a", "b", "c"))


class Pixels(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(10.0))

    def forward(self, images: Tensor) -> Tensor:
        return self.scale * images.flatten(1)


def pixels() -> TorchClassifier:
    return wrap(Pixels(), name="pixels", classes=4, channels=1)


def fixed(radius: float = 0.2, **more: object) -> GradientAttack:
    """Nine steps of 0.06 in linf: a lead of 0.3 is gone at the fourth look."""
    return GradientAttack(Linf(), margin, Steepest(0.3), 9, start="identity", radius=radius, **more)  # type: ignore[arg-type]


def test_restarts_begin_half_as_far_out_as_the_least_of_success_radius_and_outset() -> None:
    middle = Batch(torch.full((5, 1, 4, 4), 0.5), torch.zeros(5, dtype=torch.int64), tuple("abcde"))
    attack = GradientAttack(
        L2(), margin, Steepest(0.3), 1, 3, start="around", keep="smallest", outset=1.0, radius=float("inf")
    )
    radius = torch.tensor([torch.inf, torch.inf, 0.4, torch.inf, torch.inf])
    active = ActiveSet(AskedModel(pixels(), attack), middle, Noise.of(0, middle.ids), radius, 5, None, 1)
    active.result.best_value[:] = torch.tensor([-0.6, -torch.inf, -0.9, -3.0, -0.6])  # minus the smallest success
    index, run = torch.arange(5), torch.tensor([1, 2, 1, 4, 3])
    scene = active.scene(index, run)
    still = torch.full_like(scene.images, 0.01)
    begun = SmallestPoints(attack, active).around(still, scene, active.noise.take(index), index, run)
    assert length(begun[:4]).tolist() == pytest.approx([0.3, 0.5, 0.2, 0.5], abs=1e-5)
    assert torch.equal(begun[4], still[4])  # run 3 is the first of another target


class Fours:
    """A model that is best asked with multiples of four images."""

    def fit(self, count: int, passes: int = 1) -> int:
        return 4 * -(-count // 4) if passes else count


class InFours:
    lengths = Fours()

    def __init__(self, model: TorchClassifier) -> None:
        self.model, self.asked = model, []

    def __call__(self, images: Tensor) -> Tensor:
        self.asked.append(len(images))
        return self.model(images)


def test_rows_that_pad_a_batch_are_copies_that_count_nowhere() -> None:
    in_fours = pixels()
    in_fours.exact = padding = InFours(pixels())
    made = fixed()(in_fours, BATCH, Noise.of(0, BATCH.ids), width=4)
    plain = fixed()(pixels(), BATCH, Noise.of(0, BATCH.ids), width=4)
    assert set(padding.asked) == {4}
    assert torch.equal(made.images, plain.images)
    assert made.forwards.tolist() == plain.forwards.tolist() == [4, 4, 10]
    assert made.tallies == plain.tallies

    model = AskedModel(ExactModel(in_fours), fixed())
    active = ActiveSet(model, BATCH, Noise.of(0, BATCH.ids), torch.full((3,), 0.2), 4, None, 1)
    index = torch.arange(3)
    scene = active.scene(index, torch.zeros_like(index))
    padded = model.padded(active.new_samples(index, torch.zeros_like(index), scene, torch.zeros_like(IMAGES)), 1)
    assert padded.free.tolist() == padded.done.tolist() == [False, False, False, True]
    assert padded.index.tolist() == [0, 1, 2, 2]
    assert model.padded(padded, 1) is padded
    assert (model.length(0, 1), model.length(5, 1)) == (0, 8)


class Blunt(FastVersion):
    """Right logits without a gradient: attacks on it go nowhere."""

    def __init__(self, error: float) -> None:
        self.error = error

    def __call__(self, images: Tensor) -> Tensor:
        return 10 * images.flatten(1).detach() + 0 * images.flatten(1)

    def improve(self, count: int, *, gradients: bool) -> None:
        assert count > 0
        assert gradients


@pytest.mark.parametrize("restarts", [1, 2])
@pytest.mark.parametrize("width", [1, 2, 8])
def test_samples_that_end_close_to_the_boundary_are_attacked_by_the_model_itself(restarts: int, width: int) -> None:
    """Leads of 3 are within three errors of 1.1, one of 7 is not; every run of the close ones begins at once."""
    model = pixels()
    model.fast = Blunt(error=1.1)
    made = fixed(restarts=restarts)(model, BATCH, Noise.of(0, BATCH.ids), width=width)
    assert made.broken.tolist() == [True, True, False]
    # ten looks of each run on the fast version, one at the end, and four of each run on the model
    assert made.forwards.tolist() == [14 * restarts + 1, 14 * restarts + 1, 10 * restarts + 1]
    assert made.tallies["climbs"] == 5 * restarts
    assert made.size.tolist()[:2] == pytest.approx([0.18, 0.18], abs=1e-6)
    model.fast = Blunt(error=0.9)
    far = fixed(restarts=restarts)(model, BATCH, Noise.of(0, BATCH.ids), width=width)
    assert far.broken.tolist() == [False] * 3
    assert far.forwards.tolist() == [10 * restarts + 1] * 3


def test_results_are_merged_where_the_other_is_better_and_passes_add_up() -> None:
    def result(variable: list[float], value: list[float], broken: list[bool], passes: list[int]) -> LoopResult:
        counts = [torch.tensor(passes) * k for k in (1, 10, 100, 1000, 10000)]
        props = {"kernel": torch.tensor(variable) + 0.5}
        return LoopResult(torch.tensor(variable), props, torch.tensor(value), torch.tensor(broken), *counts)

    whole = result([1.0, 2.0, 3.0], [0.1, 0.2, 0.3], [False, True, False], [1, 1, 1])
    part = result([7.0, 8.0], [0.7, 0.8], [True, False], [2, 3])
    whole.take_over(torch.tensor([2, 0]), part, better=torch.tensor([True, False]))
    assert whole.variable.tolist() == [1.0, 2.0, 7.0]
    assert whole.props["kernel"].tolist() == [1.5, 2.5, 7.5]
    assert whole.best_value.tolist() == pytest.approx([0.1, 0.2, 0.7])
    assert whole.broken.tolist() == [False, True, True]
    assert whole.forwards.tolist() == [4, 1, 3]
    assert [whole.backwards[0], whole.zero_gradients[0], whole.runs[0], whole.flat[0]] == [40, 400, 4000, 40000]


def test_an_empty_result_has_broken_nothing_at_the_least_value() -> None:
    empty = LoopResult.empty(Scene(IMAGES, torch.ones(3), {"kernel": torch.ones(3)}), torch.zeros_like(IMAGES))
    assert len(empty) == 3
    assert empty.best_value.tolist() == [-torch.inf] * 3
    assert not bool(empty.broken.any())
    assert all(int(getattr(empty, name).abs().sum()) == 0 for name in ("forwards", "backwards", "runs", "flat"))


def test_targets_are_ranked_without_the_label() -> None:
    logits = torch.tensor([[1.0, 3.0, 2.0], [5.0, 5.0, 1.0]])
    assert ranked_targets(logits, torch.tensor([1, 2])).tolist() == [[2, 0], [0, 1]]


@pytest.mark.parametrize(
    ("more", "scores"),
    [
        ({}, True),
        ({"start": "identity"}, False),
        ({"start": "border"}, True),
        ({"stop_when_broken": False}, False),
        ({"start": "identity", "targets": 2}, True),
        ({"start": "identity", "keep": "smallest"}, True),
        ({"stop_when_broken": False, "targets": 1}, True),
    ],
)
def test_clean_images_are_scored_to_pass_over_the_wrong_or_to_rank(more: dict[str, object], scores: bool) -> None:
    """A start at the image itself scores it anyway; a loop without stops passes over nobody."""
    attack = GradientAttack(Linf(), margin, Steepest(0.3), 2, radius=0.1, **more)  # type: ignore[arg-type]
    assert attack.scores_clean is scores
    stretches = 9 if more.get("keep") == "smallest" else 0
    assert attack.cost.forwards == 3 * attack.runs + scores + stretches
    made = attack(pixels(), BATCH, Noise.of(0, BATCH.ids), width=4)
    assert int(made.forwards.max()) <= attack.cost.forwards


@pytest.mark.parametrize(("evaluations", "steps"), [(21, 7), (11, 6), (8, 4), (3, 3), (101, 6)])
def test_rounds_on_a_gpu_have_the_fewest_steps_and_checks(evaluations: int, steps: int) -> None:
    """A check counts as 0.6 steps: 21 looks cost 3 x 7.6 = 22.8 by sevens, and 7 x 3.6 = 25.2 by threes."""
    assert steps_per_round(evaluations, torch.device("cuda")) == steps
    assert steps_per_round(evaluations, torch.device("cpu")) == 1


@pytest.mark.parametrize(("steps", "restarts"), [(0, 1), (1, 0)])
def test_an_attack_takes_a_step_and_a_start(steps: int, restarts: int) -> None:
    with pytest.raises(Misuse, match=f"1 or more, got {steps} and {restarts}"):
        GradientAttack(Linf(), margin, Steepest(0.3), steps, restarts, radius=0.1)


@pytest.mark.parametrize(
    ("objective", "classes", "replaced"), [(dlr, 3, False), (dlr, 2, True), (targeted_dlr, 3, True)]
)
def test_a_result_says_where_too_few_classes_replaced_the_objective(
    objective: Objective, classes: int, replaced: bool
) -> None:
    model = wrap(Pixels(), name="pixels", classes=classes, channels=1)
    images = torch.tensor([0.8, 0.3, 0.1])[:classes].view(1, 1, 1, classes)
    attack = GradientAttack(Linf(), objective, Steepest(0.3), 1, start="identity", radius=0.01)
    made = attack(model, Batch(images, torch.tensor([0]), ("a",)), Noise.of(0, ("a",)), width=1)
    assert ("objective" in made.facts) is replaced
