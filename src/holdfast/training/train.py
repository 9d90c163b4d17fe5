"""Training a model from a recipe: one loop for every loss, threat and method."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.noise import Noise
from holdfast.core.refs import digest, parse_ref
from holdfast.core.registry import registry
from holdfast.core.types import ModelCard
from holdfast.models import save_model
from holdfast.models.classifier import normalised
from holdfast.models.weights import architecture as built_architecture
from holdfast.training.checkpoints import Checkpoint, checkpoint_path, read_checkpoint, write_checkpoint
from holdfast.training.learning_model import LearningModel
from holdfast.training.optimisers import AveragedWeights, optimiser_of, rate_at, share_at
from holdfast.training.output_file import reserved
from holdfast.training.processes import Processes, is_first_process
from holdfast.training.recipes import Recipe, check_names, check_numbers
from holdfast.training.recording import StepRunner, StepSpeed
from holdfast.training.training_data import TrainingData, training_data
from holdfast.training.training_step import TrainingStep
from holdfast.training.validation import Validated, validate

EVERY = 30.0  # seconds between checkpoints
OFTEN = 20  # steps between two looks at the time
VERSION = 2  # of training: models of other versions were trained by other code


@dataclass(frozen=True, slots=True)
class EpochReport:
    """What is known at the end of an epoch. `right`: share of the images right as they were learned from."""

    epoch: int
    epochs: int
    loss: float
    right: float
    validated: Validated | None
    images_per_second: float
    seconds_left: float
    words: str


class OutOfTimeError(HoldfastError):
    """The time that was given is over; a checkpoint is written."""


OnEpoch = Callable[[EpochReport], None]


def train(
    recipe: Recipe,
    *,
    out: Path,
    device: torch.device,
    on_epoch: OnEpoch = lambda _: None,
    every: float = EVERY,
    speed: StepSpeed = "auto",
    is_over: Callable[[], bool] = lambda: False,
) -> Path:
    """Trains and writes a model file; continues where a checkpoint lies beside it.

    The same recipe on the same device gives the same weights, up to rounding on a GPU. Where `is_over` says so, a
    checkpoint is written and training ends with `OutOfTimeError`.
    """
    check_numbers(recipe)
    check_names(recipe)
    with reserved(out) if is_first_process() else contextlib.nullcontext():
        return Training(recipe, out, device, on_epoch, every, speed, is_over).run()


class Training:
    """One model on its way. `data`: the recipe's own, unless others are given."""

    def __init__(
        self,
        recipe: Recipe,
        out: Path,
        device: torch.device,
        on_epoch: OnEpoch,
        every: float,
        speed: StepSpeed,
        is_over: Callable[[], bool],
        data: TrainingData | None = None,
    ) -> None:
        torch.manual_seed(recipe.seed)
        self.is_over = is_over
        self.recipe, self.out, self.device, self.on_epoch, self.every = recipe, out, device, on_epoch, every
        self.begun = self.saved = time.perf_counter()
        self.processes = Processes(device)
        self.data = data or training_data(recipe, device)
        mixed = recipe.mixed and device.type == "cuda"
        if device.type == "cuda":
            torch.backends.cudnn.benchmark = True
        self.architecture = architecture_text(recipe, self.data)
        self.bare = built_architecture(self.architecture).net.to(device)
        if mixed:
            self.bare.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.bare.requires_grad_(True).train()
        self.card = _card(recipe, self.data)
        whole = normalised(self.bare, recipe.mean or None, recipe.std or None).to(device)
        _must_fit(whole.eval(), self.architecture, self.data)
        self.model = LearningModel(whole.train(), self.card, mixed=mixed)
        averages = recipe.average > 0 or recipe.swa_from is not None
        self.averaged = AveragedWeights(self.bare) if averages else None
        optimiser = optimiser_of(recipe, self.model.weights)
        follows = self.averaged if recipe.average > 0 else None
        batch = self.processes.part_of(recipe.batch)
        self.step = TrainingStep(
            recipe, self.model, self.data, optimiser, follows, batch=batch, reduce=self.processes.reduce
        )
        self.runner = StepRunner(self.step, speed="graph" if speed == "auto" else speed)
        self.per_epoch = self.data.steps(recipe.batch)
        self.total = recipe.epochs * self.per_epoch
        self.progress = Checkpoint(_digest(recipe), 0, [])  # its tensors and seconds are filled in when it is written

    def run(self) -> Path:
        path = checkpoint_path(self.out)
        self._restore(read_checkpoint(path, self.progress.recipe))
        while self.progress.step < self.total and not self._is_out_of_patience():
            self._epoch(path)
        self._finish()
        if self.processes.is_first:
            self._save(self.out)
            path.unlink(missing_ok=True)
        self.processes.end()
        return self.out

    def _epoch(self, path: Path) -> None:
        epoch, step = divmod(self.progress.step, self.per_epoch)
        order = self.data.order(self.recipe, epoch)
        self.step.epoch.fill_(epoch)
        begun, first = time.perf_counter(), step
        while step < self.per_epoch:
            self.one_step(order[step * self.recipe.batch : (step + 1) * self.recipe.batch])
            step += 1
            if step < self.per_epoch and (self._is_due() or self._may_be_over()):
                self._must_be_finite()
                self._checkpoint_or_end(path)
        self._must_be_finite()
        loss, right = (float(each) / self.per_epoch for each in (self.step.losses, self.step.right))
        pace = (step - first) * self.recipe.batch / (time.perf_counter() - begun)
        if self.recipe.swa_from is not None and epoch + 1 > self.recipe.swa_from * self.recipe.epochs:
            self._average_epoch()
        validated = self._validated(epoch)
        for each in (self.step.losses, self.step.right):
            each.zero_()
        left = (self.total - self.progress.step) * self.recipe.batch / pace
        report = EpochReport(epoch + 1, self.recipe.epochs, loss, right, validated, pace, left, self.runner.words)
        if self.processes.is_first:
            self.on_epoch(report)
        if self.progress.step < self.total and not self._is_out_of_patience() and (self._is_due() or self.is_over()):
            self._checkpoint_or_end(path)

    def _is_due(self) -> bool:
        return time.perf_counter() - self.saved > self.every

    def _checkpoint_or_end(self, path: Path) -> None:
        """Writes a checkpoint, the last one where the time is over."""
        self._checkpoint(path)
        if self.is_over():
            raise OutOfTimeError(f"the time for `{self.recipe.name}` is over", hint="the same command continues")

    def _may_be_over(self) -> bool:
        """Asked every few steps; on a GPU the steps issued so far have to be through first."""
        if self.progress.step % OFTEN or not self.is_over():
            return False
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return True

    def one_step(self, index: torch.Tensor) -> None:
        self.step.index.copy_(self.processes.own(index))
        self.step.optimiser.rate.fill_(rate_at(self.recipe, self.progress.step, self.total))
        if self.step.averaged is not None:
            self.step.averaged.share.fill_(share_at(self.recipe, self.progress.step))
        kind = 0
        if self.step.kinds > 1:
            key = Noise(torch.tensor([self.progress.step + (self.recipe.seed << 32)]))
            kind = int(key.integers("kind", (), low=0, high=self.step.kinds))
        self.runner(kind)
        self.progress.step += 1

    def _must_be_finite(self) -> None:
        if not bool(torch.isfinite(self.step.losses)):
            kept = checkpoint_path(self.out)
            raise HoldfastError(
                f"training diverged in epoch {-(-self.progress.step // self.per_epoch)}: the loss is not a number",
                hint="lower the recipe's rate" + (f"; {kept} holds the state before" if kept.exists() else ""),
            )

    def _average_epoch(self) -> None:
        assert self.averaged is not None, "stochastic weight averaging has an average"
        self.averaged.share.fill_(self.progress.swa / (self.progress.swa + 1))
        self.averaged.follow()
        self.progress.swa += 1

    def _validated(self, epoch: int) -> Validated | None:
        recipe = self.recipe
        if not (recipe.validation or recipe.paired or recipe.every_epoch):
            return None
        checks = recipe.validation or recipe.paired
        validated = validate(recipe, self._result(), self.card, self.data) if checks else None
        if recipe.every_epoch and self.processes.is_first:
            stem = self.out.stem.removeprefix(".")  # only a file that is not checked yet is hidden
            self._save(self.out.with_name(f"{stem}-epoch{epoch + 1:03d}.safetensors"))
        if validated is None or recipe.keep == "last":
            return validated
        value = self.processes.of_first(validated.value(recipe.keep))
        if self.progress.best_value is None or value > self.progress.best_value:
            self.progress.best_value, self.progress.best_epoch = value, epoch
            self.progress.best = {name: tensor.clone() for name, tensor in self._result().state_dict().items()}
        return validated

    def _is_out_of_patience(self) -> bool:
        patience, ended = self.recipe.patience, self.progress.step // self.per_epoch
        return patience is not None and ended - 1 - self.progress.best_epoch >= patience > 0

    def _result(self) -> nn.Module:
        """The bare network as it would be written now, in evaluation mode: averaged where the recipe averages."""
        net = built_architecture(self.architecture).net.to(self.device)
        net.load_state_dict(self.bare.state_dict())
        if self.averaged is not None and (self.recipe.average > 0 or self.progress.swa):
            self.averaged.write_to(net)
        return net.eval()

    def _finish(self) -> None:
        self.final = self._result()
        if self.progress.best:
            self.final.load_state_dict(self.progress.best)
        if not all(bool(tensor.isfinite().all()) for tensor in self.final.state_dict().values()):
            raise HoldfastError("training diverged: weights are not finite", hint="lower the recipe's rate")

    def _save(self, out: Path) -> None:
        recipe, progress, net = self.recipe, self.progress, self._result() if out != self.out else self.final
        chosen = f", epoch {progress.best_epoch + 1} of {recipe.epochs} by {recipe.keep}" if progress.best else ""
        notes = f"trained by `holdfast train {recipe.name}`, training version {VERSION}, seed {recipe.seed}{chosen}"
        notes += f"; {self._seconds():.0f} s"
        if self.device.type == "cuda":
            notes += f" on {torch.cuda.get_device_name(self.device)}"
        card = replace(self.card, name=out.stem if out != self.out else recipe.name, notes=notes)
        mean, std = recipe.mean or None, recipe.std or None
        try:
            save_model(out, net.cpu(), card, architecture=self.architecture, mean=mean, std=std, half=recipe.half)
        except OSError as error:
            raise HoldfastError(
                f"{out} cannot be written: {error.strerror or error}",
                hint="make room: the same command continues from the last checkpoint",
            ) from error

    def _checkpoint(self, path: Path) -> None:
        if self.processes.is_first:
            draws = torch.get_rng_state()
            seconds = self._seconds()
            self.progress.data = self.progress.data or self.data.digest()
            write_checkpoint(path, replace(self.progress, tensors=self._tensors(), seconds=seconds, draws=draws))
        self.saved = time.perf_counter()

    def _seconds(self) -> float:
        """Spent so far, before an interruption too."""
        return self.progress.seconds + time.perf_counter() - self.begun

    def _tensors(self) -> list[torch.Tensor]:
        averaged = [] if self.averaged is None or self.step.averaged is not None else self.averaged.tensors
        return [*self.step.state(), *averaged]

    @torch.no_grad()
    def _restore(self, checkpoint: Checkpoint | None) -> None:
        if checkpoint is None:
            return
        if checkpoint.data not in ("", self.data.digest()):
            raise HoldfastError(
                f"the checkpoint {checkpoint_path(self.out)} was made from other images or labels",
                hint="bring the data back as they were, or delete it to start over",
            )
        tensors = self._tensors()
        if [each.shape for each in tensors] != [each.shape for each in checkpoint.tensors]:
            raise HoldfastError(
                f"the checkpoint {checkpoint_path(self.out)} is not of the network `{self.architecture}`",
                hint="delete it to start over, or write elsewhere with --out",
            )
        for tensor, kept in zip(tensors, checkpoint.tensors, strict=True):
            tensor.copy_(kept)
        if checkpoint.draws is not None:
            torch.set_rng_state(checkpoint.draws)
        best = {name: tensor.to(self.device) for name, tensor in checkpoint.best.items()}
        self.progress = replace(checkpoint, tensors=[], best=best, draws=None)


def architecture_text(recipe: Recipe, data: TrainingData) -> str:
    """The architecture's ref with the channels, classes and size of the data, where it takes them."""
    text = recipe.architecture
    parsed = parse_ref(text)
    known = {parameter.name for parameter in registry.entry("architecture", parsed.name).parameters}
    facts = {"channels": data.channels, "classes": data.classes, "size": int(data.pixels.shape[-1])}
    for name, value in facts.items():
        if name in known and name not in parsed.keywords:
            text = f"{text}{',' if ':' in text else ':'}{name}={value}"
    return text


@torch.no_grad()
def _must_fit(net: nn.Module, architecture: str, data: TrainingData) -> None:
    """Refuses a network that does not take the images, or has fewer classes than they."""
    images = data.images(data.used[:1])
    shown = " × ".join(map(str, images.shape[1:]))
    hint = "its channels, classes and size are those of the data where the recipe leaves them out"
    try:
        logits = net(images)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, ValueError) as error:
        why = (str(error).splitlines() or [""])[0]
        raise Misuse(f"`{architecture}` does not take images of {shown}: {why}", hint=hint) from error
    if logits.shape[0] != 1 or logits.dim() != 2 or logits.shape[1] < data.classes:
        gives = " × ".join(map(str, logits.shape[1:]))
        raise Misuse(f"`{architecture}` gives {gives} logits, and the images have {data.classes} classes", hint=hint)


def _card(recipe: Recipe, data: TrainingData) -> ModelCard:
    """What the file will say of the model; its parameters and digest are completed on saving."""
    refs = [(text, registry.bind_change(text)) for text in recipe.threats]
    corruptions = [text for text, ref in refs if ref.kind == "corruption"]
    always = [text for text in corruptions if "severity" in parse_ref(text).keywords]
    half = [text for text in corruptions if text not in always]
    words = " + ".join(str(registry.bind("dataset", text)) for text in recipe.texts_of_data)
    if recipe.share < 1:
        words = f"{recipe.share:g} of {words}"
    if recipe.labels:
        words += f", labels {', '.join(map(str, recipe.labels))}"
    if recipe.extra is not None:
        words += f" + {registry.bind('dataset', recipe.extra)}"
    if always:
        words += f" under {', '.join(always)}"
    if half:
        words += f" half under {', '.join(half)} of random severity"
    return ModelCard(
        name=recipe.name,
        source="",
        classes=data.classes,
        channels=data.channels,
        trained_on=words,
        threats=tuple(str(ref) for _, ref in refs if ref.kind == "attack"),
        licence="Apache-2.0",
    )


def _digest(recipe: Recipe) -> str:
    return digest([VERSION, repr(replace(recipe, title="", source=""))])
