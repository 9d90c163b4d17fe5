"""Training all recipes of a file within a given time: several processes side by side, each one model after the other.

    python -m holdfast.training.family_training cifar10-zoo --out zoo --budget-seconds 600 --processes 4

A model that is there already is left as it is; one that the time ends on keeps its checkpoint, and the same command
continues it. Finished models are checked on the test set, and the result is written on their cards.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from holdfast.attacks.attack import Attack
from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.intervals import wilson
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch, Score
from holdfast.datasets import load as load_dataset
from holdfast.models import load, read_card
from holdfast.models.file import annotate_model
from holdfast.training.output_file import InUse
from holdfast.training.recipes import Recipe, family
from holdfast.training.recording import StepSpeed
from holdfast.training.train import EVERY, EpochReport, OutOfTimeError, train
from holdfast.training.training_data import unit_floats
from holdfast.training.validation import WIDTH, logits_of

CLEAN, ATTACKED = 10_000, 1000  # most test images that a finished model is checked on
CHECKS = ("mm5-linf:radius=8/255", "mm5-l2:radius=0.5")
MODULE = "holdfast.training.family_training"


def train_family(
    name: str,
    *,
    out: Path,
    budget: float | None,
    processes: int,
    device: str,
    speed: StepSpeed,
    every: float = EVERY,
    only: Sequence[str] = (),
    checked: bool = True,
) -> list[Path]:
    """Trains all recipes of a file, those first that come first, and returns the models that are there at the end."""
    recipes = chosen_recipes(name, only)
    out.mkdir(parents=True, exist_ok=True)
    for claim in out.glob("*.claim"):
        claim.unlink()
    deadline = time.time() + (budget if budget is not None else 1e9)
    command = [sys.executable, "-m", MODULE, name, "--out", str(out), "--deadline", str(deadline)]
    command += ["--checkpoint-every", str(every)]
    command += ["--device", device, "--speed", speed, "--worker", *(f"--only={each}" for each in only)]
    command += [] if checked else ["--unchecked"]
    imports = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    threads = max(1, (os.cpu_count() or 1) // processes)
    env = {"OMP_NUM_THREADS": str(threads), "TORCHINDUCTOR_COMPILE_THREADS": str(threads)} | os.environ
    env |= {"PYTHONPATH": imports}  # in sessions of their own, Ctrl-C reaches this process alone, which ends them
    workers = [subprocess.Popen(command, env=env, start_new_session=True) for _ in range(processes)]
    try:
        codes = [worker.wait() for worker in workers]
    except BaseException:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.wait()
        raise
    if any(codes):
        raise HoldfastError(f"{sum(map(bool, codes))} of {processes} workers failed", hint="their messages are above")
    return [path for recipe in recipes if (path := out / f"{recipe.name}.safetensors").exists()]


def chosen_recipes(name: str, only: Sequence[str]) -> list[Recipe]:
    """The recipes of a file, or those of them that are named."""
    recipes = family(name)
    unknown_names = set(only) - {recipe.name for recipe in recipes}
    if unknown_names:
        raise Misuse(f"`{name}` has no recipe `{sorted(unknown_names)[0]}`", hint="holdfast list recipes")
    return [recipe for recipe in recipes if not only or recipe.name in only]


def work(
    recipes: Sequence[Recipe],
    out: Path,
    device: torch.device,
    *,
    deadline: float,
    speed: StepSpeed,
    checked: bool,
    every: float = EVERY,
) -> None:
    """Trains one recipe after the other that nobody else has begun, until the time is over."""
    failed = 0
    for recipe in recipes:
        path = out / f"{recipe.name}.safetensors"
        if path.exists() or time.time() > deadline:
            continue
        with _claimed(out / f"{recipe.name}.claim") as is_ours:
            if not is_ours or path.exists():
                continue
            try:
                _train_one(recipe, path, device, deadline, speed, checked, every)
            except OutOfTimeError:
                _log(f"{recipe.name}  the time is over; its checkpoint is kept")
                return
            except InUse:
                _log(f"{recipe.name}  is left to another training that writes it")
            except HoldfastError as error:
                failed += 1
                _log(f"{recipe.name}  failed: {error}")
    if failed:
        raise HoldfastError(f"{failed} of {len(recipes)} recipes failed")


def _train_one(
    recipe: Recipe, path: Path, device: torch.device, deadline: float, speed: StepSpeed, checked: bool, every: float
) -> None:
    begun, reports = time.perf_counter(), list[EpochReport]()

    def is_over() -> bool:
        return time.time() > deadline

    with contextlib.ExitStack() as stack:
        part = path.with_name(f".{path.name}")  # its own name once it is checked
        train(recipe, out=part, device=device, on_epoch=reports.append, every=every, speed=speed, is_over=is_over)
        stack.callback(part.unlink, missing_ok=True)
        trained = time.perf_counter() - begun
        checks = dict[str, Score]()
        try:
            checks = check_model_file(part, recipe, device) if checked else {}
        except HoldfastError as error:  # the model is whole all the same
            _log(f"{recipe.name}  is trained, and cannot be checked: {error}")
        saved = read_card(part)
        assert saved is not None, "a trained model has a card"
        words = "; ".join(f"{what} {score.percent()} of {score.n:,}" for what, score in checks.items())
        annotate_model(part, "; ".join(filter(None, (saved.card.notes, words))))
        part.replace(path)
    last = reports[-1] if reports else None
    pace = "" if last is None else f"loss {last.loss:.3f}  {last.images_per_second:,.0f} images/s  {last.words}"
    _log(f"{recipe.name}  {trained:.1f} s + {time.perf_counter() - begun - trained:.1f} s  {pace}  {words}")


def check_model_file(path: Path, recipe: Recipe, device: torch.device) -> dict[str, Score]:
    """Accuracy on the test images of the recipe's dataset, as they are and under minimum-margin attacks, in float32."""
    text = recipe.texts_of_data[0].replace("split=train", "split=test")
    data, model = load_dataset(text), load(f"file:{path}", device=device)
    kept = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        images = unit_floats(data.images(range(min(CLEAN, len(data.ids)))).pixels.to(device))
        labels = torch.tensor(data.labels[: len(images)].tolist(), device=device)
        right = logits_of(model, images).argmax(1) == labels
        scores = {f"{text} right": wilson(int(right.sum()), len(right))}
        some = slice(0, min(ATTACKED, len(images)))
        batch = Batch(images[some], labels[some], tuple(data.ids[some]))
        for check in CHECKS:
            attack = registry.build(registry.bind("attack", check))
            assert isinstance(attack, Attack), f"`{check}` is an attack"
            changed = attack(model, batch, Noise.of(0, batch.ids, device), width=WIDTH).images
            stands = (logits_of(model, changed).argmax(1) == batch.labels) & right[some]
            scores[f"under {check}"] = wilson(int(stands.sum()), len(stands))
    finally:
        torch.backends.cudnn.allow_tf32 = kept
    return scores


@contextlib.contextmanager
def _claimed(path: Path) -> Iterator[bool]:
    """Whether this process may make a model; the file says so to the others, and goes when it is made or given up."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        yield False
        return
    try:
        yield True
    finally:
        path.unlink(missing_ok=True)


def _log(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - one line per model, for whoever started the workers


def work_or_start_workers() -> None:
    parser = argparse.ArgumentParser(description="Trains all recipes of a file.")
    parser.add_argument("name")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--budget-seconds", type=float, default=None)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--speed", default="graph", choices=["eager", "graph", "compile"])
    parser.add_argument("--checkpoint-every", type=float, default=EVERY)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--unchecked", action="store_true")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--deadline", type=float, default=0.0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    device, speed, checked = given.device, given.speed, not given.unchecked
    try:
        recipes = chosen_recipes(given.name, given.only)
        if given.worker:
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # closes what is open
            work(
                recipes,
                given.out,
                torch.device(device),
                deadline=given.deadline,
                speed=speed,
                checked=checked,
                every=given.checkpoint_every,
            )
            return
        made = train_family(
            given.name,
            out=given.out,
            budget=given.budget_seconds,
            processes=given.processes,
            device=device,
            speed=speed,
            every=given.checkpoint_every,
            only=given.only,
            checked=checked,
        )
        _log(f"{len(made)} of {len(recipes)} models are in {given.out}")
    except HoldfastError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(error.exit_code)
    except OSError as error:
        sys.stderr.write(f"error: {error.filename}: {error.strerror or error}\n")
        sys.exit(1)


if __name__ == "__main__":
    work_or_start_workers()
