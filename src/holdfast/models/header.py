"""What a model file says about itself, from the JSON at the front of a safetensors file: no torch, no weights."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.types import ModelCard

MOST_HEADER = 100_000_000  # bytes, the limit of the format itself


@dataclass(frozen=True, slots=True)
class SavedModel:
    """The card in a model file, its architecture as a ref, and its normalisation."""

    card: ModelCard
    architecture: str
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None


def read_card(path: str | Path) -> SavedModel | None:
    """What a model file says about itself; None for plain weights."""
    if (text := read_header(path).get("card")) is None:
        return None
    try:
        fields = json.loads(text)
        given = {name: fields[name] for name in ModelCard.__dataclass_fields__ if name in fields}
        given = {"name": Path(path).stem, "source": "", **given, "threats": tuple(given.get("threats", ()))}
        return SavedModel(ModelCard(**given), fields["architecture"], _numbers(fields, "mean"), _numbers(fields, "std"))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise HoldfastError(
            f"the card in `{path}` cannot be read: {error!r}", hint="write the file with models.save_model"
        ) from error


def read_header(path: str | Path) -> dict[str, str]:
    """The metadata of a safetensors file, after checking that the file is whole."""
    path = Path(path)
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > MOST_HEADER:
                raise ValueError(f"a header of {length} bytes")
            header: dict[str, Any] = json.loads(file.read(length))
        data = max((item["data_offsets"][1] for name, item in header.items() if name != "__metadata__"), default=0)
    except OSError as error:
        raise Misuse(f"cannot read `{path}`: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise damaged(path, f"its header cannot be read ({error})") from error
    if size != 8 + length + data:
        raise damaged(path, f"it has {size} bytes and its header speaks of {8 + length + data}")
    metadata: dict[str, str] = header.get("__metadata__", {})
    return metadata


def damaged(path: Path, why: str) -> HoldfastError:
    """The error for a file that is cut short or is not what its name says."""
    return HoldfastError(f"`{path}` is damaged: {why}", hint="copy or download the file again")


def _numbers(fields: dict[str, Any], name: str) -> tuple[float, ...] | None:
    return None if fields.get(name) is None else tuple(float(value) for value in fields[name])
