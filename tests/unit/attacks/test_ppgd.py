"""The LPIPS ball as geometry, and perceptual PGD inside it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from fashion import attacked, batch, model
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from holdfast.attacks.perceptual import lpips_ball
from holdfast.attacks.perceptual.lpips import distance, features, network_for
from holdfast.attacks.perceptual.lpips_attack import ppgd
from holdfast.attacks.perceptual.lpips_ball import RIDGE, LpipsBall
from holdfast.attacks.success import is_within, is_wrong
from holdfast.attacks.threat import Scene, scene_of
from holdfast.core.errors import Misuse
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch

RADIUS = 0.4


def ball_for(images: Tensor) -> LpipsBall:
    return LpipsBall(network_for("self", model(), images))


def scene_for(radius: float, n: int = 6) -> tuple[LpipsBall, Scene, Noise, Tensor]:
    images, noise = batch().images[:n], Noise.of(0, batch().ids[:n])
    ball, draw = ball_for(images), torch.zeros(n, dtype=torch.int64)
    return ball, scene_of(ball, images, torch.full((n,), radius), noise, draw), noise, draw


# the ball


@settings(max_examples=12)
@given(radius=st.sampled_from([0.0, 0.01, 0.1, 0.5]), spread=st.floats(0.001, 1.0), seed=st.integers(0, 1000))
def test_a_projection_ends_inside_and_repeats(radius: float, spread: float, seed: int) -> None:
    ball, scene, _, _ = scene_for(radius, n=3)
    wild = spread * Noise.of(seed, ("a", "b", "c")).normal("wild", scene.images.shape[1:])
    once = ball.project(scene, wild)
    changed = scene.images + once
    assert bool(is_within(distance(ball.network, scene.images, changed), scene.radius).all())
    assert float(changed.min()) >= 0
    assert float(changed.max()) <= 1 + 1e-6
    assert torch.equal(ball.project(scene, once), once)


def test_what_is_inside_stays_where_it_is() -> None:
    ball, scene, _, _ = scene_for(1.0)
    small = 0.02 * torch.sin(torch.arange(scene.images.numel()).view_as(scene.images)).clamp(
        -scene.images, 1 - scene.images
    )
    small = small.clamp(-scene.images, 1 - scene.images)
    assert bool((ball.size(scene, small) < 0.9).all())
    assert torch.equal(ball.project(scene, small), small)


def test_a_projection_goes_no_farther_in_than_it_must() -> None:
    ball, scene, noise, draw = scene_for(0.1)
    size = ball.size(scene, ball.start(scene, noise, draw, border=True))
    assert bool((size > 0.9 * 0.1).all())


def test_size_is_measured_on_the_result_and_zero_for_nothing() -> None:
    ball, scene, noise, draw = scene_for(RADIUS)
    start = ball.start(scene, noise, draw)
    torch.testing.assert_close(ball.size(scene, start), distance(ball.network, scene.images, scene.images + start))
    assert ball.size(scene, ball.identity(scene)).tolist() == [0.0] * len(scene)
    beyond = torch.full_like(scene.images, 5.0)
    torch.testing.assert_close(
        ball.size(scene, beyond), distance(ball.network, scene.images, torch.ones_like(scene.images))
    )


def test_a_remembered_look_is_never_that_of_other_images() -> None:
    ball, scene, noise, draw = scene_for(RADIUS)
    variable = ball.start(scene, noise, draw)
    first = ball.size(scene, variable)
    variable.mul_(0.5)
    halved = ball.size(scene, variable)
    assert bool((halved < first).all()), "written to since"
    turned = Scene(scene.images.flip(0), scene.radius, {name: prop.flip(0) for name, prop in scene.props.items()})
    assert not torch.allclose(ball.size(turned, variable), halved), "of another scene"


def test_a_sample_does_not_depend_on_its_neighbours_or_the_width() -> None:
    ball, scene, noise, draw = scene_for(0.1)
    whole = ball.project(scene, ball.start(scene, noise, draw, border=True) * 3)
    gradient = torch.sin(whole * 50) + 0.1
    some = torch.tensor([4, 1])
    part = scene.take(some)
    start = ball.start(part, noise.take(some), draw[some], border=True) * 3
    torch.testing.assert_close(ball.project(part, start), whole[some], rtol=1e-4, atol=1e-5)
    ways = ball.ascent(part, whole[some], gradient[some]), ball.ascent(scene, whole, gradient)[some]
    torch.testing.assert_close(*ways, rtol=1e-3, atol=1e-4)
    narrow = LpipsBall(ball.network, width=2)
    torch.testing.assert_close(narrow.size(scene, whole), ball.size(scene, whole), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(
        narrow.project(scene, ball.start(scene, noise, draw, border=True) * 3), whole, rtol=1e-4, atol=1e-5
    )


def test_the_ascent_solves_for_the_steepest_direction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the dense solution on a small smooth network, whose derivative can be written down as a matrix."""
    monkeypatch.setattr(lpips_ball, "NUDGE", 1e-6)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.Softplus(), nn.Conv2d(8, 8, 3), nn.Softplus()).double()
    net.requires_grad_(False)

    def look(images: Tensor) -> list[Tensor]:
        return [net[:2](images), net(images)]

    images = 0.1 + 0.8 * torch.rand(2, 1, 6, 6, dtype=torch.float64)
    gradient = torch.randn(2, 1, 6, 6, dtype=torch.float64)
    ball = LpipsBall(look, conjugate=60)
    scene = scene_of(ball, images, torch.full((2,), 0.1).double(), Noise.of(0, ("a", "b")), torch.zeros(2).long())
    variable = 0.01 * torch.randn(2, 1, 6, 6, dtype=torch.float64)
    found = ball.ascent(scene, variable, gradient)
    for image, change, slope, way in zip(images, variable, gradient, found, strict=True):
        at = (image + change)[None]
        derivative = torch.autograd.functional.jacobian(lambda x: features(look, x)[0], at).flatten(1)
        g = slope.flatten()
        ridge = RIDGE * (derivative @ g).square().sum() / g.square().sum()
        exact = torch.linalg.solve(derivative.T @ derivative + ridge * torch.eye(36, dtype=torch.float64), g)
        cosine = torch.cosine_similarity(exact, way.flatten(), dim=0)
        assert float(cosine) > 0.9999
        assert float((derivative @ way.flatten()).norm()) == pytest.approx(1.0, rel=1e-3)
        plain = g / (derivative @ g).norm()
        assert float(g @ way.flatten()) > 1.1 * float(g @ plain), "steeper than the gradient at the same distance"


def test_no_gradient_gives_no_direction() -> None:
    ball, scene, _, _ = scene_for(RADIUS)
    way = ball.ascent(scene, ball.identity(scene), torch.zeros_like(scene.images))
    assert torch.equal(way, torch.zeros_like(way))


# the attack


def as_noise(radius: float, *, n: int = 16) -> Tensor:
    """Gaussian noise of exactly that LPIPS size, as near as halving finds it."""
    images = batch(n).images
    ball, spread = ball_for(images), Noise.of(3, batch(n).ids).normal("noise", images.shape[1:])
    low, high = torch.zeros(n), torch.ones(n)
    for _ in range(12):
        middle = (low + high) / 2
        with torch.no_grad():
            far = distance(ball.network, images, (images + middle[:, None, None, None] * spread).clamp(0, 1))
        low, high = torch.where(far < radius, middle, low), torch.where(far < radius, high, middle)
    return (images + low[:, None, None, None] * spread).clamp(0, 1)


def test_it_breaks_what_noise_of_the_same_size_does_not() -> None:
    changed, broken = attacked(ppgd(radius=RADIUS, steps=6))
    with torch.no_grad():
        by_noise = is_wrong(model()(as_noise(RADIUS)), batch().labels)
    assert int(by_noise.sum()) == 0
    assert float(broken.float().mean()) > 0.3
    assert not changed.reasons
    far = distance(network_for("self", model(), batch().images), batch().images, changed.images)
    assert bool(is_within(far, torch.full_like(far, RADIUS)).all())
    torch.testing.assert_close(far, changed.size, rtol=1e-4, atol=1e-6)


def test_more_room_breaks_more() -> None:
    shares = [float(attacked(ppgd(radius=radius, steps=3))[1].float().mean()) for radius in (0.0, 0.2, 0.8)]
    assert shares[0] == 0
    assert shares[1] < shares[2]
    assert shares[2] > 0.8


def test_the_width_does_not_matter() -> None:
    attack = ppgd(radius=0.2, steps=2)
    (one, broken), (other, again) = attacked(attack, width=16), attacked(attack, width=5)
    assert torch.equal(broken, again)
    torch.testing.assert_close(one.images, other.images, rtol=0, atol=1e-3)


def test_every_pass_through_the_model_is_counted() -> None:
    some, passed = batch(), 0

    def count(module: nn.Module, args: tuple[Tensor, ...]) -> None:
        nonlocal passed
        passed += len(args[0])

    attack = ppgd(radius=0.2, steps=2, restarts=2)
    hook = model().register_forward_pre_hook(count)
    try:
        changed = attack(model(), some, Noise.of(0, some.ids), width=7)
    finally:
        hook.remove()
    assert int(changed.forwards.sum()) == passed - 1, "all but the grey image that shows the stages"
    assert int(changed.forwards.max()) <= attack.cost.forwards
    assert int(changed.backwards.max()) <= attack.cost.backwards
    assert "lpips passes" not in changed.tallies
    assert changed.facts["lpips network"] == "the model's own stages.0, stages.2, stages.4"


def test_passes_of_another_network_are_told_apart(tmp_path) -> None:
    from holdfast.attacks.perceptual.lpips import CONVOLUTIONS, LAYOUTS, AlexNet

    torch.manual_seed(0)
    judge = AlexNet(LAYOUTS[1])
    state = {
        f"features.{layer}.{kind}": judge.state_dict()[f"convolutions.{number}.{kind}"]
        for number, layer in enumerate(CONVOLUTIONS)
        for kind in ("weight", "bias")
    }
    torch.save(state, tmp_path / "judge.pt")
    attack = ppgd(radius=0.3, steps=2, network=str(tmp_path / "judge.pt"))
    some = Batch(batch().images[:4], batch().labels[:4], batch().ids[:4])
    changed = attack(model(), some, Noise.of(0, some.ids), width=4)
    assert attack.cost.forwards == 1 + 3
    assert int(changed.forwards.max()) <= attack.cost.forwards
    assert changed.tallies["lpips passes"] > 4 * 2 * 5
    assert changed.facts["lpips network"].startswith("judge.pt, sha256 ")
    far = distance(network_for(str(tmp_path / "judge.pt"), model(), some.images), some.images, changed.images)
    torch.testing.assert_close(far, changed.size, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("change", ["ppgd:network={}", "worst-of:attacks=[(fgsm),(ppgd:network={})]"])
def test_the_file_of_a_network_is_part_of_the_run(change: str, tmp_path: Path) -> None:
    file = tmp_path / "judge.pt"
    file.write_bytes(b"weights")
    first, again = (registry.build(registry.bind_change(change.format(file))).source_in_key for _ in range(2))
    assert first == again != ""
    file.write_bytes(b"others!")
    assert registry.build(registry.bind_change(change.format(file))).source_in_key != first
    assert registry.build(registry.bind_change("ppgd")).source_in_key == ""


def test_numbers_that_mean_nothing_are_refused() -> None:
    for wrong in ({"radius": -0.1}, {"steps": 0}, {"restarts": 0}):
        with pytest.raises(Misuse):
            ppgd(**wrong)


def test_a_sample_that_is_there_twice_has_the_passes_of_both() -> None:
    noise = Noise.of(0, ("a", "b")).take(torch.tensor([1, 0, 1, 1]))
    counts = lpips_ball.PassCounts(noise)
    images = batch().images[:4]
    ball = LpipsBall(network_for("self", model(), images), counts=counts)
    scene = scene_of(ball, images, torch.full((4,), 0.1), noise, torch.zeros(4, dtype=torch.int64))  # one pass each
    ball.note(scene.take(torch.tensor([0, 1, 3])).props, forwards=2, backwards=1)
    b = noise.keys == noise.keys[0]
    assert int(counts.forwards[b].sum()) == 3 + 2 * 2
    assert int(counts.backwards[b].sum()) == 2
    assert int(counts.forwards[~b].sum()) == 1 + 2
