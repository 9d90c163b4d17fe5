"""Models saved as programs: `torch.export` files (.pt2) and TorchScript archives. Loading one runs what it holds."""

from __future__ import annotations

import hashlib
import os
import pickle
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.registry import register
from holdfast.core.types import Classifier
from holdfast.models.classifier import Numbers, described
from holdfast.models.header import damaged

WEIGHTS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"  # torch.load then refuses pickled code, whatever its caller asked for
PROGRAMS = ("archive_format", "serialized_exported_program.json")  # torch 2.8 and later, and before
COMPILED = "data/aotinductor/"
OBJECTS = ("data/constants/custom_obj_", "data/constants/opaque_obj_")
Shape = tuple[int | None, ...]  # None: any length


@register("model", "pt2", source="https://docs.pytorch.org/docs/stable/export.html")
def pt2_model(
    path: str,
    *,
    classes: int | None = None,
    size: int | None = None,
    mean: Numbers = None,
    std: Numbers = None,
) -> Classifier:
    """A network that `torch.export.save` wrote: `pt2:model.pt2`; gradients flow through it.

    A batch size fixed by the export is kept to: batches are cut and filled up. A `.pt2` file is a program, so take it
    from those you trust; pickled objects and compiled libraries in it are refused.
    """
    file = existing_file(path, "exported program")
    _refuse_objects(file)
    with zipfile.ZipFile(file) as archive:
        is_program = any(name.endswith(PROGRAMS) for name in archive.namelist())
    if not is_program:
        hint = "torch.export.save writes them; weights alone are read by file:PATH,architecture=…"
        raise HoldfastError(f"`{path}` is no exported program", hint=hint)
    try:
        with _weights_only(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch speaks of its own internals
            program = torch.export.load(file)
            shape, net = _input_shape(program, path), program.module()
    except (HoldfastError, Misuse):
        raise
    except pickle.UnpicklingError as error:
        hint = "export it again from the network, without objects of your own"
        raise HoldfastError(f"`{path}` holds pickled code, which never runs here", hint=hint) from error
    except Exception as error:
        hint = "torch.export.save wrote it with another version of torch, or it is no such file"
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise HoldfastError(f"torch {torch.__version__} cannot load `{path}`: {why}", hint=hint) from error
    side = shape[2] if shape[2] == shape[3] else None
    return described(
        ProgramNet(net, file, shape[0]),
        name=file.stem,
        classes=classes,
        channels=shape[1],
        size=size or side,
        mean=mean,
        std=std,
    )


@register("model", "torchscript", source="https://docs.pytorch.org/docs/stable/jit.html")
def torchscript_model(
    path: str,
    *,
    classes: int | None = None,
    channels: int | None = None,
    size: int | None = None,
    mean: Numbers = None,
    std: Numbers = None,
) -> Classifier:
    """A TorchScript archive: `torchscript:model.pt`; gradients flow through it.

    It is a program, though not a Python one: take it from those you trust.
    """
    file = existing_file(path, "TorchScript archive")
    if not zipfile.is_zipfile(file) or not _members(file) & {"constants.pkl"}:
        hint = "torch.jit.save writes them; weights alone are read by file:PATH,architecture=…"
        raise HoldfastError(f"`{path}` is no TorchScript archive", hint=hint)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # TorchScript is deprecated, which its user knows
            net = torch.jit.load(file, map_location="cpu")  # type: ignore[no-untyped-call]
    except Exception as error:
        raise damaged(file, str(error).splitlines()[0] if str(error) else type(error).__name__) from error
    return described(
        ProgramNet(net.eval(), file, None),
        name=file.stem,
        classes=classes,
        channels=channels,
        size=size,
        mean=mean,
        std=std,
    )


class FileNet(nn.Module):
    """A program in a file as a module; the digest of its file is among its weights, since its steps are no weights.

    Where the program fixes the batch size, batches are cut and filled up to it.
    """

    batch: int | None

    def __init__(self, digest: bytes) -> None:
        super().__init__()
        self.register_buffer("file", torch.tensor(list(digest), dtype=torch.uint8))
        self.training = False

    def forward(self, images: Tensor) -> Tensor:
        width = self.batch or max(len(images), 1)
        return torch.cat([self._filled_up(part) for part in torch.split(images, width)])

    def _filled_up(self, images: Tensor) -> Tensor:
        count = len(images)
        if self.batch is not None and count < self.batch:
            images = torch.cat((images, images[-1:].expand(self.batch - count, -1, -1, -1)))
        return self.logits(images)[:count]

    def logits(self, images: Tensor) -> Tensor:
        """What the program gives for images of its batch size."""
        raise NotImplementedError


class ProgramNet(FileNet):
    """A program of torch as a module."""

    def __init__(self, program: nn.Module, path: Path, batch: int | None) -> None:
        super().__init__(hashlib.sha256(path.read_bytes()).digest())
        self.program = program
        self.batch = batch
        for part in program.modules():
            if not isinstance(part, torch.jit.ScriptModule):
                part.training = False

    def train(self, mode: bool = True) -> Self:
        """A program has the mode it was saved in; an exported one refuses to be asked."""
        del mode
        return self

    def logits(self, images: Tensor) -> Tensor:
        return _first_tensor(self.program(images))


def _first_tensor(answer: Any) -> Tensor:
    """The logits of programs that wrap them in a tuple or a mapping."""
    while not isinstance(answer, Tensor):
        inside = list(answer.values()) if isinstance(answer, Mapping) else list(answer or ())
        if not inside:
            raise HoldfastError("the program gives no tensor", hint="export a network that returns its logits")
        answer = inside[0]
    return answer


def existing_file(path: str, what: str) -> Path:
    file = Path(path).expanduser()
    if not file.is_file():
        raise Misuse(f"there is no {what} `{path}`", hint="a relative path starts at the current folder")
    return file


def _members(file: Path) -> set[str]:
    """Names in the archive, without the folder that all lie in."""
    with zipfile.ZipFile(file) as archive:
        return {name.partition("/")[2] for name in archive.namelist()}


def _refuse_objects(file: Path) -> None:
    """Refuses what torch would unpickle or load as a library."""
    try:
        names = _members(file)
    except (zipfile.BadZipFile, OSError) as error:
        raise damaged(file, str(error)) from error
    if any(name.startswith(COMPILED) for name in names):
        hint = "save the exported program itself: torch.export.save(torch.export.export(net, (images,)), PATH)"
        raise HoldfastError(f"`{file}` holds a compiled library, which is not loaded here", hint=hint)
    if any(name.startswith(OBJECTS) for name in names):
        hint = "export the network without objects of your own"
        raise HoldfastError(f"`{file}` holds pickled objects, and they are never unpickled here", hint=hint)


@contextmanager
def _weights_only() -> Iterator[None]:
    before = os.environ.get(WEIGHTS_ONLY)
    os.environ[WEIGHTS_ONLY] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[WEIGHTS_ONLY]
        else:
            os.environ[WEIGHTS_ONLY] = before


def _input_shape(program: torch.export.ExportedProgram, path: str) -> Shape:
    names = program.graph_signature.user_inputs
    inputs = [node for node in program.graph.nodes if node.op == "placeholder" and node.name in names]
    tensors = [node.meta["val"] for node in inputs if isinstance(node.meta.get("val"), Tensor)]
    shapes = [tuple(length if isinstance(length, int) else None for length in tensor.shape) for tensor in tensors]
    if len(shapes) != 1 or len(shapes[0]) != 4:
        raise HoldfastError(
            f"`{path}` takes {len(shapes)} tensors{f' of shape {shapes[0]}' if shapes else ''}, not images",
            hint="export a network with one input: images of shape (batch, channels, height, width)",
        )
    return shapes[0]
