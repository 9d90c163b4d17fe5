"""Checkpoints of training: all that is needed to continue, in one file that is replaced when the next is whole."""

from __future__ import annotations

import io
import os
import pickle
import struct
import tempfile
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from holdfast.core.errors import HoldfastError

SUFFIX = ".checkpoint"
UNREADABLE = (  # what zipfile and torch may raise for bytes that are not what they expect
    *(zipfile.BadZipFile, zlib.error, pickle.UnpicklingError, struct.error),
    *(RuntimeError, EOFError, LookupError, TypeError, ValueError, AttributeError),
)


@dataclass(slots=True)
class Checkpoint:
    """Where training stands. `step`: steps taken; `tensors`: those of the training step, in its order.

    `data`: a digest of the images and labels. `draws`: torch's own state of draws on the CPU, for networks with
    dropout. `best`: weights of the best epoch so far by name, and its value and number; `seconds`: spent so far.
    """

    recipe: str
    step: int
    tensors: list[Tensor]
    swa: int = 0
    best: dict[str, Tensor] = field(default_factory=dict)
    best_value: float | None = None
    best_epoch: int = 0
    seconds: float = 0.0
    draws: Tensor | None = None
    data: str = ""


def checkpoint_path(out: Path) -> Path:
    """The checkpoint that lies beside a model file while that is being made."""
    return out.with_name(out.name + SUFFIX)


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Writes under another name and renames, so that a kill or a full disk leaves the checkpoint before whole."""
    content = {name: getattr(checkpoint, name) for name in Checkpoint.__dataclass_fields__}
    content["tensors"] = [tensor.detach().cpu() for tensor in checkpoint.tensors]
    content["best"] = {name: tensor.detach().cpu() for name, tensor in checkpoint.best.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    packed = io.BytesIO()
    torch.save(content, packed)  # not into the file: torch hides the reason where that cannot be written
    part = None
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        part = Path(name)
        with os.fdopen(handle, "wb") as file:
            file.write(packed.getbuffer())
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        why = error.strerror or error
        kept = f"the last checkpoint, {path}, is whole" if path.exists() else "there is no checkpoint yet"
        raise HoldfastError(
            f"the checkpoint cannot be written: {why}", hint=f"{kept}: make room, and the same command continues"
        ) from error
    finally:
        if part is not None:
            part.unlink(missing_ok=True)


def read_checkpoint(path: Path, recipe: str) -> Checkpoint | None:
    """The checkpoint of this recipe; None where there is none."""
    if not path.exists():
        return None
    try:
        with zipfile.ZipFile(path) as packed:  # torch does not look at the checksums that it writes
            is_damaged = packed.testzip() is not None
        content = None if is_damaged else torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, MemoryError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise HoldfastError(f"the checkpoint {path} cannot be read: {why}") from error
    except UNREADABLE as error:
        raise _is_not_whole(path) from error
    names = set(Checkpoint.__dataclass_fields__)
    if not isinstance(content, dict) or not {"recipe", "step", "tensors"} <= set(content) <= names:
        raise _is_not_whole(path)
    checkpoint = Checkpoint(**content)
    if checkpoint.recipe != recipe:
        raise HoldfastError(
            f"the checkpoint {path} belongs to another recipe of that name",
            hint="delete it to start over, or write elsewhere with --out",
        )
    return checkpoint


def _is_not_whole(path: Path) -> HoldfastError:
    return HoldfastError(
        f"the checkpoint {path} cannot be read: it is damaged, or no checkpoint of training",
        hint="delete it to start over",
    )
