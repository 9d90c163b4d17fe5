"""The state of a shard's loops, saved every few seconds: a run that is killed continues in the middle of an attack.

An attack runs one loop or several, one after the other and always in the same order. Saved are the results of those
that ended and all tensors of the one under way. Draws are keyed, so a loop that continues gives the same result.
"""

from __future__ import annotations

import contextlib
import io
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import torch

from holdfast.attacks.attack import LoopResult
from holdfast.attacks.tensor_records import Tensors

if TYPE_CHECKING:
    from holdfast.attacks.active_set import ActiveSet

EVERY = 3.0  # seconds between saves
COST = 20.0  # times as long as a save takes, at least, lies between two
MOST = 1 << 30  # bytes of tensors: a shard with a larger state is not saved


@dataclass(slots=True)
class Saved:
    """What a file holds: the results of loops that ended, and the state of the one under way."""

    finished: list[Tensors]
    running: Tensors | None = None


class SavedLoops:
    """The loops of one shard. `write` keeps bytes, `tick` takes a progress text after every round."""

    def __init__(self, data: bytes | None, write: Callable[[bytes], None], tick: Callable[[str], None]) -> None:
        self.saved = _read(data)
        self.write, self.tick = write, tick
        self.begun = 0
        self.next = time.monotonic() + EVERY  # infinite once a state was too large

    def loop(self, device: torch.device) -> SavedLoop:
        """The loop that begins now."""
        self.begun += 1
        return SavedLoop(self, self.begun - 1, device)

    def takes(self, tensors: Tensors) -> bool:
        """Whether these may be saved too; if not, nothing of this shard is saved from here on."""
        if sum(map(_size, (*self.saved.finished, tensors))) > MOST:
            self.next = math.inf
        return self.next < math.inf

    def save(self, running: Tensors) -> None:
        begun = time.monotonic()
        self.saved.running = _on_cpu(running)
        buffer = io.BytesIO()
        content = {"finished": self.saved.finished, "running": self.saved.running, "fields": _fields()}
        torch.save(content, buffer)
        self.write(buffer.getvalue())
        now = time.monotonic()
        self.next = now + max(EVERY, COST * (now - begun))


@dataclass(slots=True)
class SavedLoop:
    """One loop of a shard, which may have ended or been under way before a kill."""

    loops: SavedLoops
    number: int
    device: torch.device

    def restore(self, active: ActiveSet) -> None:
        """Puts the active set where it was when it was saved, if it was."""
        from holdfast.attacks.active_set import Samples  # which imports this module

        if not self._is_of(active):
            return
        finished, running = self.loops.saved.finished, self.loops.saved.running
        if self.number < len(finished):
            active.result = LoopResult.of_tensors(_grouped(self._copied(finished[self.number]))["result"])
            active.queue, active.is_resumed = (active.queue[0][:0], active.queue[1][:0]), True
        elif running is not None and self.number == len(finished):
            parts, active.is_resumed = _grouped(self._copied(running)), True
            active.result, active.samples = LoopResult.of_tensors(parts["result"]), Samples.of_tensors(parts["samples"])
            active.extra, queue = parts.get("extra", {}), parts["queue"]
            active.queue, active.runs = (queue["index"], queue["run"]), int(queue["runs"])

    def _is_of(self, active: ActiveSet) -> bool:
        """Whether this loop's samples are those of then; if not, this loop and the later ones are run anew.

        Which samples a later loop has may hang on a rounding, and another start of a device rounds otherwise.
        """
        saved = self.loops.saved
        then = saved.finished[self.number] if self.number < len(saved.finished) else saved.running or {}
        now = _flattened({"samples of": _identity(active)})
        if all(name in then and torch.equal(then[name], tensor.cpu()) for name, tensor in now.items()):
            return True
        saved.finished, saved.running = saved.finished[: self.number], None
        return False

    def advanced(self, active: ActiveSet) -> None:
        """A round is over: saves all that the loop needs to continue, if the last save was a while ago."""
        assert active.samples is not None, "a loop without samples is over"
        self.loops.tick(f"{len(active.queue[0]):,} samples wait, {len(active.samples):,} are under attack")
        if time.monotonic() < self.loops.next:
            return
        queue = {"index": active.queue[0], "run": active.queue[1], "runs": torch.tensor(active.runs)}
        result, samples = active.result.tensors(), active.samples.tensors()
        parts = {"result": result, "samples": samples, "extra": active.extra, "queue": queue}
        running = _flattened(parts | {"samples of": _identity(active)})
        if self.loops.takes(running):
            self.loops.save(running)

    def finish(self, active: ActiveSet) -> None:
        """The loop is over; its result is written with the next save."""
        finished = _flattened({"result": active.result.tensors(), "samples of": _identity(active)})
        if self.number >= len(self.loops.saved.finished) and self.loops.takes(finished):
            self.loops.saved.finished.append(_on_cpu(finished))
            self.loops.saved.running = None

    def _copied(self, tensors: Tensors) -> Tensors:
        """Copies on the loop's device: loops write to their tensors, and what is saved must stay."""
        return {name: tensor.to(self.device, copy=True) for name, tensor in tensors.items()}


def _identity(active: ActiveSet) -> Tensors:
    """Which samples a loop is about, and how far each may go."""
    return {"keys": active.noise.keys, "radius": active.radius}


def _flattened(parts: dict[str, Tensors]) -> Tensors:
    """Named groups of tensors as one, with the group's name before a slash."""
    return {f"{group}/{name}": tensor for group, tensors in parts.items() for name, tensor in tensors.items()}


def _grouped(tensors: Tensors) -> dict[str, Tensors]:
    """What `_flattened` made one, in its groups."""
    parts: dict[str, Tensors] = defaultdict(dict)
    for text, tensor in tensors.items():
        group, _, name = text.partition("/")
        parts[group][name] = tensor
    return parts


_current: ContextVar[SavedLoops | None] = ContextVar("saved_loops", default=None)


@contextlib.contextmanager
def saving(loops: SavedLoops) -> Iterator[None]:
    """Loops that begin inside are saved."""
    token = _current.set(loops)
    try:
        yield
    finally:
        _current.reset(token)


def begun_loop(device: torch.device) -> SavedLoop | None:
    """What is saved of the loop that begins now; None where nobody saves."""
    loops = _current.get()
    return None if loops is None else loops.loop(device)


def _read(data: bytes | None) -> Saved:
    """What was saved; nothing where that cannot be read, or has other fields: it can all be computed again."""
    if data is None:
        return Saved([])
    try:
        content = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
        same = content["fields"] == _fields()
        return Saved(list(content["finished"]), content["running"]) if same else Saved([])
    except Exception:  # noqa: BLE001 - a file cut short may raise anything
        return Saved([])


def _fields() -> list[str]:
    """The fields of what is saved, which another version of this code may name otherwise."""
    from holdfast.attacks.active_set import Samples  # which imports this module

    return [*(field.name for record in (LoopResult, Samples) for field in fields(record)), "samples of"]


def _on_cpu(tensors: Tensors) -> Tensors:
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}


def _size(tensors: Tensors) -> int:
    return sum(tensor.nbytes for tensor in tensors.values())
