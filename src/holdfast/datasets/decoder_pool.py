"""Image files decoded by processes: Pillow holds the interpreter's lock for half of its time, so threads stop scaling.

A process is this module run by itself (`python -m`): it imports no torch and nothing of the caller's, is sent
chunks of files and writes pixels into a file in memory that both sides map. What a process does not decode,
because the file is broken or the process died, is left for the caller.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import pickle
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.datasets.image_files import Framing, NotAnImage, ReadFailure, Source, as_readable, decode

LEAST_CORES = 4  # below, threads are as quick
LEAST_FILES = 128  # fewer at once are decoded before a process has begun
CHUNK = 16
MOST_PROCESSES = 32
MEMORY = Path("/dev/shm")


class Task(NamedTuple):
    """Files to decode, each with its row in the mapped pixels."""

    path: str
    shape: tuple[int, ...]
    framing: Framing
    files: tuple[tuple[int, Source], ...]


class Decoder(NamedTuple):
    """A process that decodes, and the connection to it."""

    process: subprocess.Popen[bytes]
    connection: Connection


class DecoderPool:
    """Processes that decode. They end with the process that made them."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.threads = ThreadPoolExecutor(count, thread_name_prefix="decoder")
        self.idle: queue.SimpleQueue[Decoder | None] = queue.SimpleQueue()
        for _ in range(count):
            self.idle.put(None)  # a process is begun when it is first needed
        self.running: list[subprocess.Popen[bytes]] = []
        self.lock = threading.Lock()

    def decode(
        self, source: Callable[[int], Source], rows: Sequence[int], pixels: NDArray[np.uint8], framing: Framing
    ) -> list[int]:
        """Fills in these rows of the pixels; gives those that no process could decode, which the caller looks at."""
        shape = len(rows), *pixels.shape[1:]
        try:
            handle, path = _reserved(max(1, int(np.prod(shape))))
        except OSError:
            return list(rows)
        with _mapped(handle, path, shape) as mapped:

            def work(chunk: range) -> list[int]:
                decoded = self._decoded(Task(path, mapped.shape, framing, _files(source, rows, chunk)))
                for i in decoded:
                    pixels[rows[i]] = mapped[i]
                return [rows[i] for i in chunk if i not in decoded]

            chunks = [range(i, min(i + CHUNK, len(rows))) for i in range(0, len(rows), CHUNK)]
            return [row for left in self.threads.map(work, chunks) for row in left]

    def _decoded(self, task: Task) -> set[int]:
        """The rows of a task that a process has decoded: none where it dies."""
        decoder = self.idle.get()
        try:
            decoder = decoder or self._begin()
            decoder.connection.send(task)
            done: set[int] = decoder.connection.recv()
            return done
        except (OSError, EOFError, pickle.PickleError):
            if decoder is not None:
                decoder.process.kill()
            decoder = None
            return set()
        finally:
            self.idle.put(decoder)

    def _begin(self) -> Decoder:
        path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
        ours, theirs = Pipe()
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", "holdfast.datasets.decoder_pool", str(theirs.fileno())],
                env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for the caller, which ends them
            )
        with self.lock:
            self.running.append(process)
        return Decoder(process, ours)

    def end(self) -> None:
        for process in self.running:
            process.kill()
        for process in self.running:
            process.wait()


def pool_for(count: int) -> DecoderPool | None:
    """The pool of this process where so many files are worth it; None where threads of this process are as quick."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if count < LEAST_FILES or cores < LEAST_CORES or not MEMORY.is_dir():
        return None
    return _pool(os.getpid(), min(cores, MOST_PROCESSES))


@functools.lru_cache(maxsize=1)
def _pool(process: int, count: int) -> DecoderPool:  # noqa: ARG001 - a fork has none of its parent's threads
    pool = DecoderPool(count)
    atexit.register(pool.end)
    return pool


def _reserved(size: int) -> tuple[int, str]:
    """A file of so many zeros in memory; on disk where that is short, as the 64 MB of a container are.

    Without space set aside, the process that writes beyond what there is would be killed.
    """
    try:
        return _set_aside(size, MEMORY)
    except OSError:
        return _set_aside(size, Path(tempfile.gettempdir()))


def _set_aside(size: int, folder: Path) -> tuple[int, str]:
    handle, path = tempfile.mkstemp(prefix="holdfast-pixels-", dir=folder)
    try:
        os.posix_fallocate(handle, 0, size)
    except OSError:
        os.close(handle)
        Path(path).unlink(missing_ok=True)
        raise
    return handle, path


@contextlib.contextmanager
def _mapped(handle: int, path: str, shape: tuple[int, ...]) -> Iterator[NDArray[np.uint8]]:
    """The file as an array that processes can map too; the mapping outlives the file, which goes at the end."""
    try:
        yield np.memmap(path, dtype=np.uint8, mode="r+", shape=shape)
    finally:
        os.close(handle)
        Path(path).unlink(missing_ok=True)


def _files(source: Callable[[int], Source], rows: Sequence[int], chunk: range) -> tuple[tuple[int, Source], ...]:
    """Rows with their files; those that cannot be opened are left for the caller, who says why."""
    files: list[tuple[int, Source]] = []
    for i in chunk:
        with contextlib.suppress(OSError):
            files.append((i, source(rows[i])))
    return tuple(files)


def decode_task(task: Task) -> set[int]:
    """Decodes the files of a task into its pixels; gives the rows where that worked."""
    pixels = np.memmap(task.path, dtype=np.uint8, mode="r+", shape=task.shape)
    done: set[int] = set()
    for row, source in task.files:
        with contextlib.suppress(NotAnImage, ReadFailure):
            image = decode(as_readable(source), task.framing)
            if image.shape == pixels.shape[1:]:
                pixels[row] = image
                done.add(row)
    return done


def serve_tasks(connection: Connection) -> None:
    """What a process does until its caller is gone."""
    with contextlib.suppress(EOFError):
        while True:
            connection.send(decode_task(connection.recv()))


if __name__ == "__main__":
    serve_tasks(Connection(int(sys.argv[1])))
