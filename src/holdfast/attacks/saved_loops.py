"""Where the loops of a shard stand, saved every few seconds: a run that is killed goes on in the middle of an attack.

An attack runs one loop or several, one after the other and always in the same order. Saved are the results of those
that ended and all tensors of the one under way. Draws are keyed, so a loop that goes on gives what it would have given.
"""

from __future__ import annotations

import contextlib
import io
import math
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass

import torch
from torch import Tensor

Tensors = dict[str, Tensor]
EVERY = 3.0  # seconds between saves
COST = 20.0  # times as long as a save takes, at least, lies between two
MOST = 1 << 30  # bytes of tensors: a shard with a larger state is not saved


@dataclass(slots=True)
class Saved:
    """What a file holds: the results of loops that ended, and the state of the one under way."""

    ended: list[Tensors]
    running: Tensors | None = None


class SavedLoops:
    """The loops of one shard. `write` keeps bytes, `tick` is told now and then that the work goes on."""

    def __init__(self, data: bytes | None, write: Callable[[bytes], None], tick: Callable[[str], None]) -> None:
        self.saved = _read(data)
        self.write, self.tick = write, tick
        self.begun = 0
        self.next = time.monotonic() + EVERY  # infinite once a state was too large

    def loop(self) -> SavedLoop:
        """The loop that begins now."""
        self.begun += 1
        return SavedLoop(self, self.begun - 1)

    def takes(self, tensors: Tensors) -> bool:
        """Whether these may be saved too; if not, nothing of this shard is saved from here on."""
        if sum(map(_size, (*self.saved.ended, tensors))) > MOST:
            self.next = math.inf
        return self.next < math.inf

    def save(self, running: Tensors) -> None:
        begun = time.monotonic()
        self.saved.running = _on_cpu(running)
        buffer = io.BytesIO()
        torch.save({"ended": self.saved.ended, "running": self.saved.running}, buffer)
        self.write(buffer.getvalue())
        now = time.monotonic()
        self.next = now + max(EVERY, COST * (now - begun))


@dataclass(slots=True)
class SavedLoop:
    """One loop's share. `result` is what it ended with before, `state` where it stood, None where there is none."""

    loops: SavedLoops
    number: int

    @property
    def result(self) -> Tensors | None:
        ended = self.loops.saved.ended
        return ended[self.number] if self.number < len(ended) else None

    @property
    def state(self) -> Tensors | None:
        return self.loops.saved.running if self.number == len(self.loops.saved.ended) else None

    def stands(self, state: Callable[[], Tensors], words: str) -> None:
        """A round is over: saves where the loop stands if that was a while ago."""
        self.loops.tick(words)
        if time.monotonic() >= self.loops.next and self.loops.takes(running := state()):
            self.loops.save(running)

    def ends(self, result: Callable[[], Tensors]) -> None:
        """The loop is over; its result is written with the next save."""
        if self.result is None and self.loops.takes(ended := result()):
            self.loops.saved.ended.append(_on_cpu(ended))
            self.loops.saved.running = None


_current: ContextVar[SavedLoops | None] = ContextVar("saved_loops", default=None)


@contextlib.contextmanager
def saving(loops: SavedLoops) -> Iterator[None]:
    """Loops that begin inside are saved."""
    token = _current.set(loops)
    try:
        yield
    finally:
        _current.reset(token)


def begun_loop() -> SavedLoop | None:
    """What is saved of the loop that begins now; None where nobody saves."""
    loops = _current.get()
    return None if loops is None else loops.loop()


def _read(data: bytes | None) -> Saved:
    """What was saved; nothing where that cannot be read, since it can all be computed again."""
    if data is None:
        return Saved([])
    try:
        found = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
        return Saved(list(found["ended"]), found["running"])
    except Exception:  # noqa: BLE001 - a file cut short may raise anything
        return Saved([])


def _on_cpu(tensors: Tensors) -> Tensors:
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}


def _size(tensors: Tensors) -> int:
    return sum(tensor.nbytes for tensor in tensors.values())
