"""`holdfast train` from the outside: killed and resumed, several processes, whole files of recipes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from holdfast.models import load

SMALL = "dataset=(subsample:fashion-mnist-2k,count=600),architecture=(small-cnn:width=4),batch=50"
LONG = f"fashion-at-linf:epochs=6,{SMALL}"


def start(folder: Path, *words: str, module: str = "holdfast", launcher: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    command = [sys.executable, *(launcher or ("-m",)), *((module,) if not launcher else ("-m", module)), *words]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command,
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell in the background ignores it
    )


def finished(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out + err


@pytest.mark.slow
def test_a_killed_training_continues_to_the_same_weights(tmp_path: Path) -> None:
    finished(start(tmp_path, "train", LONG, "--out", "whole.safetensors", "--device", "cpu"))
    words = ("train", LONG, "--out", "killed.safetensors", "--device", "cpu", "--checkpoint-every", "0.2")
    checkpoint = tmp_path / "killed.safetensors.checkpoint"
    for _ in range(3):  # killed three times, each a little further on
        process = start(tmp_path, *words)
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        while process.poll() is None and not (checkpoint.exists() and checkpoint.stat().st_mtime_ns > before):
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert checkpoint.exists()
    finished(start(tmp_path, *words))
    one, other = (load(f"file:{tmp_path / name}.safetensors").card.weights for name in ("whole", "killed"))
    assert one == other
    assert not checkpoint.exists()


@pytest.mark.slow
def test_two_processes_train_what_one_trains(tmp_path: Path) -> None:
    recipe = f"fashion-standard:epochs=1,optimiser=sgd,rate=0.02,{SMALL}"
    finished(start(tmp_path, "train", recipe, "--out", "one.safetensors", "--device", "cpu"))
    launcher = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")
    finished(start(tmp_path, "train", recipe, "--out", "two.safetensors", "--device", "cpu", launcher=launcher))
    one, two = (load(f"file:{tmp_path / name}.safetensors") for name in ("one", "two"))
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)  # sums of halves round otherwise, over twelve steps


@pytest.mark.slow
def test_two_processes_stop_after_the_same_epoch_and_speak_once(tmp_path: Path) -> None:
    recipe = (  # statistics of norms differ between the processes, and with this seed what each holds for the best
        "fashion-standard:dataset=(subsample:fashion-mnist-2k,count=600),architecture=(resnet20-cifar:width=4),batch=20,"
        "epochs=12,optimiser=sgd,rate=0.1,validation=200,keep=accuracy,patience=1,average=0,seed=1"
    )
    launcher = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")
    text = finished(start(tmp_path, "train", recipe, "--out", "m.safetensors", "--device", "cpu", launcher=launcher))
    assert text.count("epoch 1/12") == text.count("m.safetensors\n") == 1


@pytest.mark.slow
def test_a_file_of_recipes_is_trained_and_continued(tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text(
        'dataset = "subsample:fashion-mnist-2k,count=200"\narchitecture = "small-cnn:width=2"\nepochs = 1\nbatch = 50\n'
        'rate = 0.01\nhalf = true\n[[variant]]\nname = "a"\n[[variant]]\nname = "b"\nseed = 1\n'
    )
    words = ("train", "--all", "two.toml", "--out", "zoo", "--device", "cpu", "--processes", "2")
    text = finished(start(tmp_path, *words))
    assert {path.name for path in (tmp_path / "zoo").iterdir()} == {"a.safetensors", "b.safetensors"}
    assert "under mm5-linf" in load(f"file:{tmp_path / 'zoo' / 'a.safetensors'}").card.notes
    assert text.count("images/s") == 2
    times = [path.stat().st_mtime_ns for path in sorted((tmp_path / "zoo").iterdir())]
    finished(start(tmp_path, *words))
    assert [path.stat().st_mtime_ns for path in sorted((tmp_path / "zoo").iterdir())] == times


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("everything", [False, True], ids=["one", "all"])
def test_a_training_that_is_stopped_says_so(tmp_path: Path, sign: signal.Signals, everything: bool) -> None:
    (tmp_path / "mine.toml").write_text(
        'dataset = "fashion-mnist-2k"\narchitecture = "small-cnn:width=4"\nepochs = 900\nbatch = 50\nrate = 0.01\n'
    )
    words = ("--all", "mine.toml", "--out", ".") if everything else ("mine.toml",)
    process = start(tmp_path, "train", *words, "--device", "cpu", "--checkpoint-every", "0.2")
    while process.poll() is None and not list(tmp_path.glob("*mine.safetensors.checkpoint")):
        time.sleep(0.02)
    process.send_signal(sign)
    _, err = process.communicate(timeout=100)
    assert process.returncode == 128 + sign
    assert "stopped; " in err
    assert "the same command continues" in err
    assert "Traceback" not in err
    left = {path.name.removeprefix(".") for path in tmp_path.iterdir()}
    assert left == {"mine.toml", "mine.safetensors.checkpoint"}


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "name one recipe, or a file of recipes with --all"),
        (("fashion-standard", "--budget-seconds", "5"), "--budget-seconds and --processes are for a file of recipes"),
        (("fashion-standard", "--processes", "2"), "--budget-seconds and --processes are for a file of recipes"),
        (("fashion-standard", "--checkpoint-every", "nan"), "are more than zero"),
    ],
)
def test_a_command_that_names_nothing_or_too_much_is_refused(
    tmp_path: Path, words: tuple[str, ...], problem: str
) -> None:
    process = start(tmp_path, "train", *words)
    _, err = process.communicate(timeout=100)
    assert process.returncode == 2
    assert problem in err
