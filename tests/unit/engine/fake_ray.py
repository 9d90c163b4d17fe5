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

    def __init__(self, handle: Handle, method: str, args: tuple[Any, ...], retries: int) -> None:
        self.handle, self.method, self.retries = handle, method, retries
        self.sent = pickle.dumps(args)


class Method:
    def __init__(self, handle: Handle, name: str, retries: int = 0) -> None:
        self.handle, self.name, self.retries = handle, name, retries

    def options(self, *, max_task_retries: int) -> Method:
        return Method(self.handle, self.name, max_task_retries)

    def remote(self, *args: Any) -> Ref:
        return Ref(self.handle, self.name, args, self.retries)


class Handle:
    """An actor; `restart` is what Ray does with one that died."""

    def __init__(self, number: int, make: Callable[[], Any]) -> None:
        self.number, self.make, self.is_killed, self.deaths = number, make, False, 0
        self.actor = make()

    def restart(self) -> None:
        self.deaths += 1
        self.actor = self.make()

    def __getattr__(self, name: str) -> Method:
        return Method(self, name)


class FakeRay:
    """`deaths(handle, method)` says when an actor dies: `before` it acts, `after` it acted but before it said so."""

    exceptions = exceptions

    def __init__(
        self, seed: int = 0, deaths: Callable[[Handle, str], str | None] = lambda handle, method: None
    ) -> None:
        self.random, self.deaths = random.Random(seed), deaths
        self.hired = self.killed = self.starts = self.stops = 0
        self.is_running = True
        self.resources = {"CPU": 2.0}
        self.options_seen: dict[str, Any] = {}
        self.init_seen: dict[str, Any] = {}
        self.messages: list[str] = []

    def is_initialized(self) -> bool:
        return self.is_running

    def init(self, **options: Any) -> None:
        self.init_seen, self.starts = options, self.starts + 1

    def shutdown(self) -> None:
        self.stops += 1

    def cluster_resources(self) -> dict[str, float]:
        return self.resources

    def put(self, thing: Any) -> Any:
        return pickle.loads(pickle.dumps(thing))

    def kill(self, handle: Handle, *, no_restart: bool) -> None:
        assert no_restart
        self.killed += 1
        handle.is_killed = True

    def remote(self, kind: type) -> FakeRay:
        self.kind = kind
        return self

    def options(self, **options: Any) -> Any:
        self.options_seen = options
        fake = self

        class Kind:
            def remote(self, *args: Any) -> Handle:
                fake.hired += 1
                number = fake.hired
                return Handle(number, lambda: fake.made(number, *args))

        return Kind()

    def made(self, number: int, context: Any) -> Any:
        return self.kind(context)

    def wait(self, refs: list[Ref], *, timeout: float) -> tuple[list[Ref], list[Ref]]:
        assert refs, "a wait for nothing never ends"
        chosen = self.random.choice(refs)
        return [chosen], [ref for ref in refs if ref is not chosen]

    def get(self, ref: Ref) -> Any:
        if ref.handle.is_killed:
            raise RayError("the actor is dead")
        for _ in range(1 + (self.options_seen["max_restarts"] if ref.retries else 0)):
            self.messages.append(ref.method)
            death = self.deaths(ref.handle, ref.method)
            if death != "before":
                reply = getattr(ref.handle.actor, ref.method)(*pickle.loads(ref.sent))
                if death is None:
                    return pickle.loads(pickle.dumps(reply))
            ref.handle.restart()
        raise RayError("the actor died")
