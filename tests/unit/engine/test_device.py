"""The device, and the memory of a CPU."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest
import torch

from holdfast.core.errors import Misuse
from holdfast.engine.device import full_precision, pick_device

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
