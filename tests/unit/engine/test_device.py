"""The device, and the memory of a CPU."""

from __future__ import annotations

import contextlib
import operator
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

import holdfast
import holdfast.engine.evaluate as evaluate_module
from holdfast.core.errors import Misuse
from holdfast.datasets import load as load_dataset
from holdfast.engine import device
from holdfast.engine.device import full_precision, pick_device
from holdfast.engine.trials import flags_on, trials_on
from holdfast.models import wrap

FAULTS = """
import resource, torch, sys
from holdfast.engine.device import pick_device
torch.set_num_threads(1)
if sys.argv[1] == "kept":
    pick_device("cpu")
def touched():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        torch.ones(1 << 24)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
touched()
print(touched())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has its memory kept")
@pytest.mark.slow
def test_a_picked_cpu_keeps_its_memory() -> None:
    """Tensors of 64 MiB, made and dropped: with memory kept, their pages are not asked for again."""

    def faults(how: str) -> int:
        done = subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True)
        return int(done.stdout)

    assert faults("kept") < 0.1 * faults("given back")


def test_a_device_that_is_not_there_is_a_clear_error() -> None:
    assert pick_device("auto").type in ("cpu", "cuda")
    with pytest.raises(Misuse, match="no device `warp` here"):
        pick_device("warp")
    if not torch.cuda.is_available():
        with pytest.raises(Misuse, match="no device `cuda` here"):
            pick_device("cuda")


def test_full_precision_sets_what_it_changes_back() -> None:
    def state() -> tuple[object, ...]:
        cuda = torch.backends.cuda
        return torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision(), cuda.cudnn_sdp_enabled()

    before = state()
    with full_precision():
        assert state() == (False, "highest", False)
    assert state() == before


@pytest.mark.skipif(not hasattr(torch.backends, "fp32_precision"), reason="settings since torch 2.9")
@pytest.mark.parametrize("path", ["", "cudnn", "cudnn.conv", "cuda.matmul"])
def test_full_precision_holds_against_the_newer_settings(path: str) -> None:
    """After one of them torch refuses to read the older ones, and one above the others holds for all below."""
    settings = [setting for setting in device._precision_settings() if hasattr(setting, "fp32_precision")]

    def values() -> list[str]:
        return [setting.fp32_precision for setting in settings]

    kept, changed = values(), operator.attrgetter(path)(torch.backends) if path else torch.backends
    try:
        changed.fp32_precision = "tf32" if changed.fp32_precision != "tf32" else "ieee"
        before = values()
        with full_precision():
            assert not {"tf32", "bf16"} & set(values())
            assert not torch.backends.cudnn.allow_tf32
            assert torch.get_float32_matmul_precision() == "highest"
            inside = values()
            for _ in range(2):  # as scoring in two steps does for every batch
                with device.tf32():
                    assert torch.backends.cudnn.allow_tf32
                    assert torch.get_float32_matmul_precision() == "high"
                assert values() == inside
        assert values() == before
    finally:
        for setting, value in zip(settings, kept, strict=True):
            setting.fp32_precision = value


def test_the_device_of_a_job_is_the_current_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams and recordings are of the current device: elsewhere a recording would be empty."""
    current: list[str] = []

    @contextlib.contextmanager
    def entered(device: torch.device) -> Iterator[None]:
        current.append(str(device))
        yield
        current.clear()

    monkeypatch.setattr(torch.cuda, "device", entered)
    with device.made_current(torch.device("cuda:1")):
        assert current == ["cuda:1"]
    with device.made_current(torch.device("cpu")):
        assert not current
    seen: list[bool] = []
    monkeypatch.setattr(evaluate_module, "made_current", lambda _: entered(torch.device("cuda:2")))

    class Asking(nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            seen.append(bool(current))
            return images.flatten(1)[:, :10]

    model = wrap(Asking(), name="asking", classes=10, channels=1)
    evaluate_module.evaluate(model, "fashion-mnist-2k", samples=4, store=str(tmp_path), device="cpu", pictures=0)
    assert seen
    assert all(seen[-1:])


class SeesPrecision(nn.Module):
    """A network that notes whether products may be rounded to TF32 when it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(784, 10)
        self.seen: set[tuple[bool, str]] = set()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.seen.add((torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()))
        logits: torch.Tensor = self.layer(images.flatten(1))
        return logits


def test_every_way_in_asks_the_model_in_full_precision(tmp_path: Path) -> None:
    """Evaluating, attacking arrays and checking: TF32 would move logits by a thousandth and attacks with them."""
    torch.manual_seed(0)
    net = SeesPrecision()
    model = wrap(net, name="sees", classes=10, channels=1)
    data = load_dataset("fashion-mnist-2k")
    images, labels = data.images(range(8)).pixels, torch.from_numpy(data.labels[:8])
    net.seen.clear()
    before = torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()
    torch.backends.cudnn.allow_tf32 = True
    torch.set_float32_matmul_precision("high")
    try:
        for way in (
            lambda: holdfast.evaluate(model, "fashion-mnist-2k", samples=8, store=str(tmp_path), pictures=0),
            lambda: holdfast.attack(model, images, labels, "pgd-linf:radius=1/255,steps=2"),
            lambda: flags_on(model, data, torch.device("cpu")),
            lambda: trials_on(model, data, torch.device("cpu"), lambda _: None),
        ):
            way()
            assert net.seen == {(False, "highest")}
            net.seen.clear()
    finally:
        torch.backends.cudnn.allow_tf32 = before[0]
        torch.set_float32_matmul_precision(before[1])
