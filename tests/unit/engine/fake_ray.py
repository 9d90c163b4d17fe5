"""Ray without processes: actors live here, messages come in any order and are pickled, and actors die when told to."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from typing import Any


class RayError(Exception):
    """Ray lost something."""


class exceptions:  # noqa: N801 - a module in Ray
    RayError = RayError


class Ref:
    """A message to come."""

    def __init__(self, handle: Handle, method: str, args: tuple[Any, ...]) -> None:
        self.handle, self.method = handle, method
        self.sent = pickle.dumps(args)


class Method:
    def __init__(self, handle: Handle, name: str) -> None:
        self.handle, self.name = handle, name

    def remote(self, *args: Any) -> Ref:
        return Ref(self.handle, self.name, args)


class Handle:
    def __init__(self, number: int, actor: Any) -> None:
        self.number, self.actor, self.is_dead = number, actor, False

    def __getattr__(self, name: str) -> Method:
        return Method(self, name)


class FakeRay:
    """`deaths(handle, method)` says when an actor dies: `before` it acts, `after` it acted but before it said so."""

    exceptions = exceptions
    cloudpickle = pickle

    def __init__(
        self, seed: int = 0, deaths: Callable[[Handle, str], str | None] = lambda handle, method: None
    ) -> None:
        self.random, self.deaths = random.Random(seed), deaths
        self.hired = self.killed = self.starts = self.stops = 0
        self.is_running = True
        self.resources = {"CPU": 2.0}
        self.options_seen: dict[str, Any] = {}
        self.init_seen: dict[str, Any] = {}
        self.said: list[str] = []

    def is_initialized(self) -> bool:
        return self.is_running

    def init(self, **options: Any) -> None:
        self.init_seen, self.starts = options, self.starts + 1

    def shutdown(self) -> None:
        self.stops += 1

    def cluster_resources(self) -> dict[str, float]:
        return self.resources

    def put(self, thing: Any) -> Any:
        return thing

    def kill(self, handle: Handle, *, no_restart: bool) -> None:
        assert no_restart
        self.killed += 1
        handle.is_dead = True

    def remote(self, kind: type) -> FakeRay:
        self.kind = kind
        return self

    def options(self, **options: Any) -> Any:
        self.options_seen = options
        fake = self

        class Kind:
            def remote(self, *args: Any) -> Handle:
                fake.hired += 1
                return Handle(fake.hired, fake.kind(*args))

        return Kind()

    def wait(self, refs: list[Ref], *, timeout: float) -> tuple[list[Ref], list[Ref]]:
        assert refs, "a wait for nothing never ends"
        chosen = self.random.choice(refs)
        return [chosen], [ref for ref in refs if ref is not chosen]

    def get(self, ref: Ref) -> Any:
        if ref.handle.is_dead:
            raise RayError("the actor is dead")
        self.said.append(ref.method)
        death = self.deaths(ref.handle, ref.method)
        if death == "before":
            ref.handle.is_dead = True
            raise RayError("the actor died")
        reply = getattr(ref.handle.actor, ref.method)(*pickle.loads(ref.sent))
        if death == "after":
            ref.handle.is_dead = True
            raise RayError("the actor died")
        return pickle.loads(pickle.dumps(reply))
