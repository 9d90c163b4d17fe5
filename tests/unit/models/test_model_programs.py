"""Exported programs and TorchScript archives answer as the network they were made from; pickled code never runs."""

from __future__ import annotations

import io
import pickle
import warnings
import zipfile
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.models import load

IMAGES = torch.rand(5, 3, 8, 8, generator=torch.Generator().manual_seed(0))


class Net(nn.Module):
    def __init__(self, *, is_tuple: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.fc, self.is_tuple = nn.Conv2d(3, 4, 3), nn.Linear(4, 6), is_tuple

    def forward(self, images: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        features = torch.relu(self.conv(images)).mean((2, 3))
        return (self.fc(features), features) if self.is_tuple else self.fc(features)


def exported(path: Path, net: nn.Module, batch: int, *, any_batch: bool) -> Path:
    shapes = ({0: torch.export.Dim("batch")},) if any_batch else None
    torch.export.save(torch.export.export(net.eval(), (IMAGES[:batch],), dynamic_shapes=shapes), path)
    return path


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported(tmp_path_factory.mktemp("pt2") / "net.pt2", Net(), 2, any_batch=True)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.trace(Net().eval(), IMAGES).save(tmp_path / "net.pt")  # type: ignore[no-untyped-call]
    return tmp_path / "net.pt"


def test_an_exported_program_gives_logits_and_gradients_of_its_network(program: Path) -> None:
    model, net = load(f"pt2:{program},mean=[0.5],std=[0.25]"), Net()
    images, same = IMAGES.clone().requires_grad_(), IMAGES.clone().requires_grad_()
    torch.testing.assert_close(model(images), net((same - 0.5) / 0.25))
    model(images).square().sum().backward()
    net((same - 0.5) / 0.25).square().sum().backward()
    torch.testing.assert_close(images.grad, same.grad)
    assert (model.card.classes, model.card.channels, model.card.size) == (6, 3, 8)
    assert model(torch.rand(1, 3, 20, 20)).shape == (1, 6)
    assert not model.was_training


def test_a_fixed_batch_size_is_cut_and_filled_up_to(tmp_path: Path) -> None:
    path = exported(tmp_path / "two.pt2", Net(is_tuple=True), 2, any_batch=False)
    expected = Net()(IMAGES)
    assert isinstance(expected, Tensor)
    torch.testing.assert_close(load(f"pt2:{path}")(IMAGES), expected.detach())


def test_a_torchscript_archive_answers_as_its_network(script: Path) -> None:
    model = load(f"torchscript:{script},size=8")
    expected = Net()(IMAGES)
    assert isinstance(expected, Tensor)
    torch.testing.assert_close(model(IMAGES), expected.detach())
    images = IMAGES.clone().requires_grad_()
    model(images).sum().backward()
    assert images.grad is not None
    assert float(images.grad.abs().sum()) > 0


def test_another_program_with_the_same_weights_has_another_digest(program: Path, tmp_path: Path) -> None:
    twice = nn.Sequential(Net(), nn.Tanh())
    other = exported(tmp_path / "other.pt2", twice, 2, any_batch=True)
    assert load(f"pt2:{program}").card.weights != load(f"pt2:{other}").card.weights


class Armed:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str, ...]]:
        return Path.touch, (self.path,)  # type: ignore[return-value]


def repacked(source: Path, target: Path, replaced: dict[str, bytes]) -> Path:
    """The archive with some members replaced or added."""
    with zipfile.ZipFile(source) as before, zipfile.ZipFile(target, "w") as after:
        root = before.namelist()[0].partition("/")[0]
        for name in before.namelist():
            after.writestr(name, replaced.pop(name.partition("/")[2], None) or before.read(name))
        for name, content in replaced.items():
            after.writestr(f"{root}/{name}", content)
    return target


def test_pickled_code_in_an_exported_program_never_runs(program: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    buffer = io.BytesIO()
    torch.save(Armed(mark), buffer)
    path = repacked(program, tmp_path / "bad.pt2", {"data/sample_inputs/model.pt": buffer.getvalue()})
    with pytest.raises(HoldfastError):
        load(f"pt2:{path}")
    assert not mark.exists()


@pytest.mark.parametrize("name", ["data/constants/opaque_obj_0", "data/constants/custom_obj_0"])
def test_pickled_objects_in_an_exported_program_are_refused(program: Path, tmp_path: Path, name: str) -> None:
    path = repacked(program, tmp_path / "bad.pt2", {name: pickle.dumps(Armed(tmp_path / "ran"))})
    with pytest.raises(HoldfastError, match="pickled objects"):
        load(f"pt2:{path}")


def test_a_compiled_library_is_refused(program: Path, tmp_path: Path) -> None:
    path = repacked(program, tmp_path / "bad.pt2", {"data/aotinductor/model/model.so": b"\x7fELF"})
    with pytest.raises(HoldfastError, match="compiled library"):
        load(f"pt2:{path}")


def test_file_says_which_source_reads_a_program(program: Path, script: Path) -> None:
    with pytest.raises(Misuse, match="exported program") as raised:
        load(f"file:{program}")
    assert f"pt2:{program}" in str(raised.value.hint)
    with pytest.raises(HoldfastError, match="TorchScript archive") as raised:
        load(f"file:{script},architecture=small-cnn")
    assert f"torchscript:{script}" in str(raised.value.hint)


def test_what_is_no_program_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "text.pt2").write_text("not a zip")
    torch.save(Net().state_dict(), tmp_path / "weights.pt")
    with pytest.raises(HoldfastError, match="damaged"):
        load(f"pt2:{tmp_path}/text.pt2")
    with pytest.raises(HoldfastError, match="is no exported program"):
        load(f"pt2:{tmp_path}/weights.pt")
    with pytest.raises(HoldfastError, match="no TorchScript archive"):
        load(f"torchscript:{tmp_path}/weights.pt")
    with pytest.raises(Misuse, match="there is no exported program"):
        load(f"pt2:{tmp_path}/absent.pt2")


def test_a_program_that_takes_no_images_is_refused(tmp_path: Path) -> None:
    torch.export.save(torch.export.export(nn.Linear(4, 2), (torch.rand(3, 4),)), tmp_path / "linear.pt2")
    with pytest.raises(HoldfastError, match="not images"):
        load(f"pt2:{tmp_path}/linear.pt2")


@pytest.mark.parametrize("kind", ["pt2", "torchscript"])
def test_an_archive_with_a_damaged_directory_is_named(kind: str, program: Path, script: Path, tmp_path: Path) -> None:
    data = bytearray((program if kind == "pt2" else script).read_bytes())
    at = data.rindex(b"PK\x01\x02")
    data[at : at + 4] = b"XX\x01\x02"
    (tmp_path / "broken.pt2").write_bytes(data)
    with pytest.raises(HoldfastError, match="damaged"):
        load(f"{kind}:{tmp_path / 'broken.pt2'}")
