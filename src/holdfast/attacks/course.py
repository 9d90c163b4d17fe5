"""What the gradient loop and the random-search loop share: an active set.

At most `width` samples are in flight; one that is broken or out of steps leaves and the next takes its place, so the
model always sees full batches. All state is per sample: samples of different age, target, restart and radius share a
batch, and no sample's result depends on its neighbours.

A model may offer `rough`, a quicker version of itself in lower precision. Then a loop may ask that instead, and a
success counts once the model itself confirms it.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import torch
from torch import Tensor

from holdfast.attacks.flight import Flight, Found
from holdfast.attacks.objectives import Objective
from holdfast.attacks.replay import replays_of
from holdfast.attacks.saved_loops import Tensors, begun_loop
from holdfast.attacks.shapes import wide
from holdfast.attacks.success import is_near, is_wrong, may_be_wrong
from holdfast.attacks.threat import Scene, Threat, scene_of
from holdfast.core.noise import Noise
from holdfast.core.types import Batch, Classifier

Keep = Literal["strongest", "smallest"]
CLOSE = 3.0  # errors of a fast version, each twice the largest seen: on the way to the border they add up


class Terms(Hashable, Protocol):
    """What a course needs to know of an attack: where it may go, for how long, how often, and what it is after."""

    @property
    def threat(self) -> Threat: ...

    @property
    def steps(self) -> int: ...

    @property
    def runs(self) -> int: ...

    @property
    def keep(self) -> Keep: ...

    @property
    def objective(self) -> Objective: ...

    @property
    def stop_when_broken(self) -> bool: ...


def kind_of(terms: Terms) -> Hashable:
    """What decides how much precision an attack needs, beside its radius."""
    return terms.threat, terms.objective, terms.keep


@dataclass(slots=True)
class Queue:
    """Samples that wait for a place, with the run they are to start."""

    index: Tensor
    run: Tensor

    def __len__(self) -> int:
        return len(self.index)

    def add(self, index: Tensor, run: Tensor) -> None:
        if len(index):
            self.index, self.run = torch.cat([self.index, index]), torch.cat([self.run, run])

    def pop(self, count: int) -> tuple[Tensor, Tensor]:
        first = self.index[:count], self.run[:count]
        self.index, self.run = self.index[count:], self.run[count:]
        return first


class Course(ABC):
    """A batch on its way through a loop."""

    def __init__(
        self,
        model: Classifier,
        batch: Batch,
        noise: Noise,
        radius: Tensor,
        terms: Terms,
        width: int,
        first: Tensor | None,
    ) -> None:
        self.model, self.batch, self.noise, self.radius, self.terms = model, batch, noise, radius, terms
        self.width, self.first, self.runs = width, first, terms.runs
        self.rough: Callable[[Tensor], Tensor] = model
        fast = getattr(model, "rough", None)
        # without a stop nothing is confirmed; a fast version may have been found too weak for this part of an attack
        if fast is not None and terms.stop_when_broken and kind_of(terms) not in getattr(fast, "weak", ()):
            self.rough = fast
        self.judge: Callable[[Tensor], Tensor] = getattr(self.rough, "judge", model)  # the model, in few lengths
        self.is_recorded = not getattr(terms.threat, "looks", False)  # at values on the way, which a recording cannot
        everyone = torch.arange(len(batch), device=batch.images.device)
        scene = scene_of(terms.threat, batch.images, radius, noise, torch.zeros_like(everyone))
        self.found = Found.at_rest(terms.threat.identity(scene), dict(scene.props))
        self.queue = Queue(everyone, torch.zeros_like(everyone))
        # a threat that counts passes of its own has state outside the loop
        self.saved = begun_loop() if getattr(terms.threat, "ledger", None) is None else None

    follows: ClassVar[bool] = True  # gradients
    at_once = False  # all runs of a sample, which finds the same in fewer rounds but with more passes
    round = 1  # passes between two looks
    carried: ClassVar[tuple[str, ...]] = ()  # tensors that a loop knows beside those of the course

    @property
    def goes_on(self) -> bool:
        """Whether the loop was under way, or over, before: then it begins where it stood."""
        return self.saved is not None and (self.saved.result is not None or self.saved.state is not None)

    def breaks(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Who is broken, as far as these logits can tell; what a fast version cannot tell, the model is asked later."""
        error = getattr(self.rough, "error", 0.0)
        return may_be_wrong(logits, labels, error=error) if error else is_wrong(logits, labels)

    def is_close(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Who ended so close to the border that a fast version's error may have decided."""
        error = getattr(self.rough, "error", 0.0)
        return may_be_wrong(logits, labels, error=CLOSE * error) if error else is_near(logits, labels)

    @abstractmethod
    def start(self, scene: Scene, noise: Noise, run: Tensor) -> Tensor:
        """The variables that a run begins with, unless others were given."""

    def look(self) -> Tensor:
        """Scores the clean images and returns the logits: who is wrong already is broken at size zero.

        The rough version looks first, and the model itself at what that calls wrong or close to it. Logits that are
        known already are taken, and counted as one pass all the same: rows do not depend on what ran before.
        """
        batch, found = self.batch, self.found
        logits = self._scored(self.rough, batch.images) if batch.logits is None else batch.logits
        found.forwards += 1
        if batch.logits is None and self.rough is not self.model:
            doubtful = (is_wrong(logits, batch.labels) | is_near(logits, batch.labels)).nonzero().squeeze(1)
            if len(doubtful):
                logits[doubtful] = self._scored(self.judge, batch.images[doubtful])
                found.forwards[doubtful] += 1
        if self.terms.stop_when_broken or self.terms.keep == "smallest":
            found.broken |= is_wrong(logits, batch.labels)
            right = (~found.broken).nonzero().squeeze(1)
            self.queue = Queue(right, torch.zeros_like(right))
        return logits

    def _scored(self, model: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
        with torch.no_grad():
            parts = [model(images[i : i + self.width]) for i in range(0, len(images), self.width)]
        return torch.cat(parts) if parts else images.new_empty((0, self.model.card.classes))

    @abstractmethod
    def steps(self, flight: Flight) -> None:
        """Some steps of the loop for all in flight; on a GPU without a look at any value."""

    def prepare(self, flight: Flight) -> None:  # noqa: B027 - most loops have nothing to prepare
        """What the host does before each round of steps."""

    def done(self) -> Found:
        """Takes everyone through the loop."""
        saved = self.saved
        if saved is not None and saved.result is not None:
            return Found.of_tensors(self._here(saved.result))
        flight = None if saved is None or saved.state is None else self._restored(saved.state)
        while True:
            flight = self._refilled(flight)
            if flight is None or not len(flight):
                break
            self.prepare(flight)
            flight = self._moved(flight)
            self.land(flight)
            if saved is not None:
                saved.stands(functools.partial(self._state, flight), self._progress(flight))
        self.complete()
        if saved is not None:
            saved.ends(self.found.tensors)
        return self.found

    def complete(self) -> None:  # noqa: B027 - most loops have nothing left
        """What is left to do once everyone is through."""

    def _progress(self, flight: Flight) -> str:
        return f"{len(self.queue):,} samples wait, {len(flight):,} are under attack"

    def _state(self, flight: Flight) -> Tensors:
        """All that the loop needs to go on."""
        whole = {"found": self.found.tensors(), "flight": flight.tensors()}
        whole["queue"] = {"index": self.queue.index, "run": self.queue.run, "runs": torch.tensor(self.runs)}
        whole["carried"] = {name: getattr(self, name) for name in self.carried}
        return {f"{kind}/{name}": part for kind, parts in whole.items() for name, part in parts.items()}

    def _restored(self, state: Tensors) -> Flight:
        parts: dict[str, Tensors] = {"found": {}, "flight": {}, "queue": {}, "carried": {}}
        for text, tensor in self._here(state).items():
            kind, _, name = text.partition("/")
            parts[kind][name] = tensor
        self.found, queue = Found.of_tensors(parts["found"]), parts["queue"]
        self.queue, self.runs = Queue(queue["index"], queue["run"]), int(queue["runs"])
        for name, tensor in parts["carried"].items():
            setattr(self, name, tensor)
        return Flight.of_tensors(parts["flight"])

    def _here(self, tensors: Tensors) -> Tensors:
        """Copies where the images are: loops write to their tensors, and what is saved stays."""
        return {name: tensor.to(self.batch.images.device, copy=True) for name, tensor in tensors.items()}

    def _moved(self, flight: Flight) -> Flight:
        if (improve := getattr(self.rough, "improve", None)) is not None:
            improve(len(flight), gradients=self.follows)
        replays = replays_of(self.rough) if self.is_recorded else None
        if replays is None:
            self.steps(flight)
            return flight
        return replays.moved(flight, self.terms, self.steps)

    def _refilled(self, flight: Flight | None) -> Flight | None:
        """The flight with those who are gone let go and the next in their places."""
        if flight is None:
            return self._filled(self.started(*self.queue.pop(self.width))) if len(self.queue) else None
        free = flight.gone.nonzero().squeeze(1)
        if len(free) and len(self.queue):
            joining = self.started(*self.queue.pop(len(free)))
            flight.replace(free[: len(joining)], joining)
            free = free[len(joining) :]
        if len(free) and self._length(len(flight) - len(free)) < len(flight):
            flight = flight.kept((~flight.gone).nonzero().squeeze(1))
        if len(self.queue) and len(flight) < self.width:
            flight = flight.joined(self.started(*self.queue.pop(self.width - len(flight))))
        return self._filled(flight)

    def _length(self, count: int) -> int:
        """As many places as the version of the model that is asked has a use for."""
        lengths = getattr(self.rough, "lengths", None)
        return count if lengths is None or not count else lengths.fit(count, self.round)

    def _filled(self, flight: Flight) -> Flight:
        """As long as it must be, with empty places."""
        spare = self._length(len(flight)) - len(flight)
        if spare <= 0:
            return flight
        rows = torch.arange(len(flight) + spare, device=flight.index.device)
        filled = flight.kept(rows.clamp_max(len(flight) - 1))
        filled.gone[len(flight) :] = filled.done[len(flight) :] = True
        return filled

    def started(self, index: Tensor, run: Tensor) -> Flight:
        threat, noise = self.terms.threat, self.noise.take(index)
        scene = scene_of(threat, self.batch.images[index], self.radius[index], noise, run)
        variable = self.start(scene, noise, run)
        if self.first is not None:
            given = threat.project(scene, self.first[index])
            variable = torch.where(wide(run == 0, variable), given, variable)
        labels, none = self.batch.labels[index], torch.zeros_like(index, dtype=torch.bool)
        low, zero = torch.full_like(scene.radius, -torch.inf), torch.zeros_like(index)
        return Flight(
            index=index,
            images=scene.images,
            labels=labels,
            targets=labels.clone(),
            radius=scene.radius,
            clearance=torch.zeros_like(scene.radius),
            props=dict(scene.props),
            variable=variable,
            state={},
            taken=zero,
            run=run.clone(),
            best=variable.clone(),
            height=low,
            first=low.clone(),
            broken=none,
            near=none.clone(),
            done=none.clone(),
            gone=none.clone(),
            forwards=zero.clone(),
            backwards=zero.clone(),
            idle=zero.clone(),
        )

    def note(self, flight: Flight, height: Tensor, success: Tensor, logits: Tensor) -> None:
        """Keeps the variables that are the best of their runs so far, and marks who is broken by them."""
        stop = self.terms.stop_when_broken
        flight.first = torch.where(flight.taken == 0, height, flight.first)
        better = (height > flight.height) & ~flight.done
        if stop:
            better = better | success
        flight.best = torch.where(wide(better, flight.best), flight.variable, flight.best)
        flight.height = torch.where(better, height, flight.height)
        if self.rough is not self.model:
            flight.near = torch.where(better, is_near(logits, flight.labels), flight.near)
        flight.broken = flight.broken | success
        if stop:
            flight.done = flight.done | flight.broken

    def land(self, flight: Flight) -> None:
        """Takes down what those who are done have found; who survived and has runs left queues again."""
        if self.rough is not self.model:
            self._confirm(flight)
        rows = (flight.done & ~flight.gone).nonzero().squeeze(1)
        if not self.at_once:
            self._land(flight, rows)
            return
        runs = flight.run[rows]
        for run in sorted(set(runs.tolist())):  # one landing per sample at a time
            self._land(flight, rows[runs == run])

    def _land(self, flight: Flight, rows: Tensor) -> None:
        if not len(rows):
            return
        stop, found = self.terms.stop_when_broken, self.found
        index, height, broken = flight.index[rows], flight.height[rows], flight.broken[rows]
        better = ((height > found.best[index]) | (broken & stop)) & ~(found.broken[index] & stop)
        chosen, kept = index[better], rows[better]
        found.variable[chosen] = flight.best[kept]
        for name, prop in found.props.items():
            prop[chosen] = flight.props[name][kept]
        found.best[chosen] = height[better]
        found.broken[index] |= broken
        found.runs[index] += 1
        found.flat[index] += ~(height > flight.first[rows]) & ~broken
        found.forwards[index] += flight.forwards[rows]
        found.backwards[index] += flight.backwards[rows]
        found.idle[index] += flight.idle[rows]
        run = flight.run[rows] + 1
        again = (run < self.runs) & ~(broken & stop) & (not self.at_once)
        self.queue.add(index[again], run[again])
        flight.gone[rows] = True

    def _confirm(self, flight: Flight) -> None:
        """Asks the model itself about what its rough version calls broken, and about those who ended close to it."""
        asked = (flight.broken | (flight.done & flight.near & (self.terms.keep == "strongest"))) & ~flight.gone
        rows = asked.nonzero().squeeze(1)
        if not len(rows):
            return
        scene = flight.scene.take(rows)
        with torch.no_grad():
            wrong = is_wrong(self.judge(self.terms.threat.render(scene, flight.best[rows])), flight.labels[rows])
        flight.forwards[rows] += 1
        spent = flight.taken[rows] > self.terms.steps
        flight.broken[rows] = wrong
        flight.done[rows] = wrong | spent
        flight.height[rows] = torch.where(wrong | spent, flight.height[rows], -torch.inf)
