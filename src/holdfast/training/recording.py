"""Training steps as CUDA graphs: recorded once, replayed without the host; where that fails they run as they are.

A small network is bound by the host that issues its work: a recorded step, the attack included, is issued at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

import torch

from holdfast.training.training_step import TrainingStep

StepSpeed = Literal["auto", "eager", "graph", "compile"]
WARM_UPS = 3  # runs before a recording, as torch asks for


class StepRunner:
    """Runs training steps: from a recording on a GPU, else one operation after the other.

    `words` say how steps are run, and why not faster.
    """

    def __init__(self, step: TrainingStep, *, speed: StepSpeed) -> None:
        self.step, self.graphs = step, dict[int, torch.cuda.CUDAGraph | None]()
        self.records = speed != "eager" and step.index.is_cuda and not step.reads_values and step.reduce is None
        self.compiles = speed == "compile"
        if self.compiles:
            step.model.compile_passes()
        self.words = "eager"
        self.seconds = 0.0  # spent on compiling and recording

    def __call__(self, kind: int) -> None:
        if self.records and kind not in self.graphs:
            self._prepare(kind)
        graph = self.graphs.get(kind)
        if graph is not None:
            graph.replay()
        else:
            self._guarded(lambda: self.step(kind))

    def _guarded(self, run: Callable[[], None]) -> None:
        """Runs with the compiled passes, and once without them where compiling fails."""
        if not self.compiles:
            run()
            return
        kept = [tensor.clone() for tensor in self.step.state()]
        try:
            run()
        except Exception as error:  # noqa: BLE001 - the compiler may raise anything
            self._restore(kept)
            self._give_up_compiling(error)
            run()
        self.compiles = False  # from here on it is known to work, or not used

    def _give_up_compiling(self, error: Exception) -> None:
        self.step.model.without_compiling()
        self.compiles = False
        self.words = f"not compiled ({_first_line(error)})"

    def _prepare(self, kind: int) -> None:
        begun = time.perf_counter()
        kept = [tensor.clone() for tensor in self.step.state()]
        try:
            self.graphs[kind] = self._recorded(kind)
            self.words = "compiled, recorded" if self.compiles else f"{self.words}, recorded".removeprefix("eager, ")
        except Exception as error:  # noqa: BLE001 - the compiler and a capture may raise anything
            torch.cuda.synchronize()
            self._restore(kept)
            if self.compiles:
                self._give_up_compiling(error)
                self._prepare(kind)
                return
            self.graphs[kind] = None
            self.words = f"eager ({_first_line(error)})"
        self._restore(kept)
        self.seconds += time.perf_counter() - begun

    def _recorded(self, kind: int) -> torch.cuda.CUDAGraph:
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UPS):
                self.step(kind)
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            self.step(kind)
        return graph

    @torch.no_grad()
    def _restore(self, kept: list[torch.Tensor]) -> None:
        for tensor, before in zip(self.step.state(), kept, strict=True):
            tensor.copy_(before)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:120]}"
