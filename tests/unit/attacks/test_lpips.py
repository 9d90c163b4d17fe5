"""LPIPS: the distance, the networks that can measure it, and the files their weights come in."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor, nn

from holdfast.attacks.perceptual.lpips import LAYOUTS, AlexNet, distance, features, network_for
from holdfast.attacks.perceptual.lpips_stages import own_stages
from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.registry import registry
from holdfast.models import TorchClassifier, wrap

IMAGENET, CIFAR = LAYOUTS


def pictures(n: int, *, channels: int = 3, size: int = 16, seed: int = 0) -> Tensor:
    return torch.rand(n, channels, size, size, generator=torch.Generator().manual_seed(seed))


def alexnet(layout=CIFAR, seed: int = 0) -> AlexNet:
    torch.manual_seed(seed)
    return AlexNet(layout).eval().requires_grad_(False)


def architecture(text: str) -> nn.Module:
    torch.manual_seed(0)
    return registry.build(registry.bind("architecture", text))


def names(net: nn.Module, images: Tensor) -> list[str]:
    model = wrap(net, name="net", classes=10, channels=images.shape[1])
    return [call.name for call in own_stages(model, images).calls]


# the distance


JUDGE = alexnet()


@given(seed=st.integers(0, 10_000))
def test_it_is_a_distance(seed: int) -> None:
    network, images = JUDGE, pictures(3, size=8, seed=seed)
    one, two, three = images.split(1)
    assert float(distance(network, one, one)) == 0
    there, back = distance(network, one, two), distance(network, two, one)
    assert torch.equal(there, back)
    assert float(there) > 0
    assert float(distance(network, one, three)) <= float(there + distance(network, two, three)) + 1e-6


def test_it_has_the_value_of_the_definition() -> None:
    """One layer, two places, two channels: (3, 4) becomes (.6, .8) and is compared with (0, 1), places are averaged."""
    one = torch.tensor([[[[3.0, 1.0]], [[4.0, 0.0]]]])
    other = torch.tensor([[[[0.0, 7.0]], [[9.0, 0.0]]]])
    expected = math.sqrt(((0.6 - 0) ** 2 + (0.8 - 1) ** 2) / 2)
    assert float(distance(lambda images: [images], one, other)) == pytest.approx(expected, rel=1e-6)
    twice = distance(lambda images: [images, 5 * images], one, other)
    assert float(twice) == pytest.approx(expected * math.sqrt(2), rel=1e-6), "squares add up, scales do not matter"


def test_its_gradient_matches_finite_differences() -> None:
    network, images = alexnet().double(), pictures(4, size=8).double()
    one, other = images[:2], images[2:].requires_grad_()
    (gradient,) = torch.autograd.grad(distance(network, one, other).sum(), other)
    way = pictures(2, size=8, seed=5).double() - 0.5
    ahead, behind = (distance(network, one, other.detach() + sign * 1e-7 * way) for sign in (1, -1))
    measured = (ahead - behind) / 2e-7
    torch.testing.assert_close((gradient * way).flatten(1).sum(1), measured, rtol=1e-4, atol=1e-9)


def test_dead_activations_have_a_finite_gradient() -> None:
    images = torch.zeros(1, 3, 4, 4, requires_grad=True)
    far = distance(lambda x: [torch.relu(x - 0.5)], images, pictures(1, size=4))
    (gradient,) = torch.autograd.grad(far.sum(), images)
    assert bool(gradient.isfinite().all())


# weights files


def published(layout, prefix: str = "") -> tuple[nn.Sequential, dict[str, Tensor]]:
    """AlexNet's `features` written out as in the files' own code, with random weights; and its state dict."""
    torch.manual_seed(3)
    first = nn.Conv2d(3, 64, 11, 4, 2) if layout is IMAGENET else nn.Conv2d(3, 64, 3, 2, 1)
    second = nn.Conv2d(64, 192, 5, padding=2) if layout is IMAGENET else nn.Conv2d(64, 192, 3, padding=1)
    pools = [nn.MaxPool2d(3, 2) if layout is IMAGENET else nn.MaxPool2d(2) for _ in range(3)]
    deep = [nn.Conv2d(192, 384, 3, 1, 1), nn.Conv2d(384, 256, 3, 1, 1), nn.Conv2d(256, 256, 3, 1, 1)]
    members = [first, nn.ReLU(), pools[0], second, nn.ReLU(), pools[1]]
    net = nn.Sequential(*members, *(each for conv in deep for each in (conv, nn.ReLU())), pools[2]).requires_grad_(
        False
    )
    state = {f"{prefix}features.{name}": tensor for name, tensor in net.state_dict().items()}
    return net, state | {f"{prefix}classifier.1.weight": torch.zeros(2, 2)}


def write_torchvision(folder: Path) -> tuple[Path, nn.Sequential]:
    net, state = published(IMAGENET)
    torch.save(state, folder / "alexnet.pth")
    return folder / "alexnet.pth", net


def write_perceptual_advex(folder: Path) -> tuple[Path, nn.Sequential]:
    net, state = published(CIFAR, "model.")
    copies = {f"layer1.0.{name}": state[f"model.features.{name}"] for name in ("0.weight", "0.bias")}
    torch.save({"model": state | copies, "epoch": 200}, folder / "alexnet_cifar.pt")
    return folder / "alexnet_cifar.pt", net


def write_safetensors(folder: Path) -> tuple[Path, nn.Sequential]:
    net, state = published(CIFAR)
    save_file(state, folder / "any.safetensors")
    return folder / "any.safetensors", net


@pytest.mark.parametrize("write", [write_torchvision, write_perceptual_advex, write_safetensors])
def test_public_layouts_load_and_see_what_their_own_code_sees(
    write: Callable[[Path], tuple[Path, nn.Sequential]], tmp_path: Path
) -> None:
    path, reference = write(tmp_path)
    images = pictures(2, size=32)
    at = (images - torch.tensor([0.485, 0.456, 0.406])[:, None, None]) / torch.tensor([0.229, 0.224, 0.225])[
        :, None, None
    ]
    expected = []
    for part in reference[:-1]:
        at = part(at)
        if isinstance(part, nn.ReLU):
            expected.append(at)
    seen = network_for(str(path), None, images)(images)
    assert len(seen) == 5
    for one, other in zip(seen, expected, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(("name", "write"), [("alexnet", write_torchvision), ("alexnet-cifar", write_perceptual_advex)])
def test_named_networks_are_found_in_the_data_folder(
    name: str,
    write: Callable[[Path], tuple[Path, nn.Sequential]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path))
    images = pictures(1, size=32)
    with pytest.raises(HoldfastError) as missing:
        network_for(name, None, images)
    (tmp_path / "lpips").mkdir()
    path, _ = write(tmp_path / "lpips")
    for word in (str(path), "network=self", "https://", "HOLDFAST_DATA"):
        assert word in str(missing.value)
    assert path.name in network_for(name, None, images).label


def test_wrong_files_are_refused_with_the_reason(tmp_path: Path) -> None:
    images = pictures(1, size=32)
    _, state = published(CIFAR)
    torch.save({"layer1.weight": torch.zeros(3)}, tmp_path / "other.pt")
    torch.save(state | {"features.0.weight": torch.zeros(64, 3, 7, 7)}, tmp_path / "kernels.pt")
    torch.save(state | {"features.6.weight": torch.zeros(1, 2, 3, 3)}, tmp_path / "shape.pt")
    torch.save({"model": state, "code": print}, tmp_path / "code.pt")
    (tmp_path / "torn.pt").write_bytes(b"PK nothing")
    (tmp_path / "torn.safetensors").write_bytes(b"nothing")
    told = {
        "other.pt": "features.N.weight",
        "kernels.pt": r"first kernels are \(64, 3, 7, 7\)",
        "shape.pt": "another shape of convolutions.2.weight",
        "code.pt": "never runs here",
        "torn.pt": "damaged",
        "torn.safetensors": "damaged",
    }
    for file, why in told.items():
        with pytest.raises(HoldfastError, match=why):
            network_for(str(tmp_path / file), None, images)
    with pytest.raises(Misuse, match="no network and no weights file `alexnte`"):
        network_for("alexnte", None, images)


def test_grey_images_are_seen_in_three_channels_and_small_ones_refused() -> None:
    grey = pictures(2, channels=1)
    torch.testing.assert_close(features(alexnet(), grey), features(alexnet(), grey.expand(-1, 3, -1, -1)))
    with pytest.raises(HoldfastError, match="4 channels"):
        alexnet()(pictures(1, channels=4))
    for layout in LAYOUTS:
        alexnet(layout)(pictures(1, size=layout.smallest))
        with pytest.raises(HoldfastError, match=f"{layout.smallest} pixels and more"):
            alexnet(layout)(pictures(1, size=layout.smallest - 1))


# a model's own stages


def test_the_stages_of_a_resnet_are_the_outputs_of_its_four_layers() -> None:
    net, images = architecture("resnet18-cifar:width=4").eval(), pictures(2, size=32)
    model = wrap(net, name="r", classes=10, channels=3, mean=[0.4] * 3, std=[0.2] * 3)
    at = torch.relu(net.bn1(net.conv1((images - 0.4) / 0.2)))
    with torch.no_grad():
        seen = network_for("self", model, images)(images)
        for own, layer in zip(seen, (net.layer1, net.layer2, net.layer3, net.layer4), strict=True):
            at = layer(at)
            torch.testing.assert_close(own, at)


def bottleneck(inside: int, width: int, stride: int) -> nn.Module:
    class Block(nn.Module):
        """As in the ImageNet ResNets, whose first convolution still works at the resolution before."""

        def __init__(self) -> None:
            super().__init__()
            self.reduce, self.relu = nn.Conv2d(inside, width, 1), nn.ReLU(inplace=True)
            self.main, self.expand = nn.Conv2d(width, width, 3, stride, 1), nn.Conv2d(width, 4 * width, 1)
            self.shortcut = nn.Conv2d(inside, 4 * width, 1, stride)

        def forward(self, at: Tensor) -> Tensor:
            branch = self.relu(self.main(self.relu(self.reduce(at))))
            return self.relu(self.expand(branch) + self.shortcut(at))

    return Block()


def test_stages_are_the_last_outputs_before_the_resolution_falls() -> None:
    stem = [nn.Conv2d(3, 4, 3, 2, 1), nn.ReLU(), nn.MaxPool2d(2)]
    resnet = nn.Sequential(*stem, bottleneck(4, 4, 1), bottleneck(16, 8, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    assert names(resnet, pictures(1, size=32)) == ["1", "3", "4"]
    blocks = [[nn.Conv2d(i, o, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2)] for i, o in ((3, 4), (4, 8), (8, 8), (8, 8))]
    vgg = nn.Sequential(nn.Sequential(*(part for block in blocks for part in block)), nn.Flatten(), nn.Linear(32, 10))
    assert names(vgg, pictures(1, size=32)) == ["0.1", "0.4", "0.7", "0.10"]
    assert names(architecture("small-cnn"), pictures(1, channels=1, size=28)) == ["stages.0", "stages.2", "stages.4"]


def test_the_deepest_five_stages_count() -> None:
    deep = nn.Sequential(*(nn.Conv2d(3, 3, 3, 2, 1) for _ in range(6)))
    assert names(deep, pictures(1, size=128)) == ["1", "2", "3", "4", "5"]


def test_tokens_are_places() -> None:
    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches, self.block, self.head = nn.Conv2d(3, 6, 4, 4), nn.Linear(6, 6), nn.Linear(6, 10)

        def forward(self, images: Tensor) -> Tensor:
            return self.head(self.block(self.patches(images).flatten(2).transpose(1, 2)).mean(1))

    images = pictures(2)
    model = wrap(Tokens(), name="t", classes=10, channels=3)
    seen = network_for("self", model, images)(images)
    assert [tuple(each.shape) for each in seen] == [(2, 6, 4, 4), (2, 6, 16, 1)]


def test_a_network_without_places_is_measured_by_its_vectors(linear: Callable[..., TorchClassifier]) -> None:
    perceptron = nn.Sequential(nn.Flatten(), nn.Linear(768, 20), nn.ReLU(), nn.Linear(20, 10))
    assert names(perceptron, pictures(1)) == ["2", "3"]
    model, images = linear(classes=3), pictures(2, channels=1, size=6)
    (seen,) = network_for("self", model, images)(images)
    assert torch.equal(seen.flatten(1), model(images))


def test_looking_leaves_no_hook_behind() -> None:
    net, images = architecture("small-cnn"), pictures(1, channels=1, size=28)
    network_for("self", wrap(net, name="n", classes=10, channels=1), images)(images)
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in net.modules())


def test_what_is_no_torch_module_cannot_look_at_itself(linear: Callable[..., TorchClassifier]) -> None:
    class Bare:
        card = linear().card

        def __call__(self, images: Tensor) -> Tensor:
            return images.flatten(1)[:, :2]

    with pytest.raises(HoldfastError, match="no torch module") as refused:
        network_for("self", Bare(), pictures(1))
    assert "network=alexnet-cifar" in str(refused.value)


def test_a_network_that_shows_nothing_is_refused(linear: Callable[..., TorchClassifier]) -> None:
    class Closed(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return images.mean((1, 2, 3))[:, None, None, None, None]

    with pytest.raises(HoldfastError, match="shows no activations"):
        network_for("self", TorchClassifier(Closed(), linear().card), pictures(1))
