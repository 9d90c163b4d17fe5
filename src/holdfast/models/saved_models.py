"""Model files: safetensors with the card in the header, so that one file is a whole model."""

from __future__ import annotations

import json
import os
import struct
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.types import ModelCard
from holdfast.models.classifier import normalised, weights_digest
from holdfast.models.weights import architecture as built
from holdfast.models.weights import damaged, fit

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
    text = read_header(path).get("card")
    if text is None:
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


def _numbers(fields: dict[str, Any], name: str) -> tuple[float, ...] | None:
    return None if fields.get(name) is None else tuple(float(value) for value in fields[name])


def save_model(
    path: str | Path,
    net: nn.Module,
    card: ModelCard,
    *,
    architecture: str,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> Path:
    """Writes the bare network (what `architecture` builds) and its card as one file, whole or not at all.

    `card.size`, where given, is the size images are brought to inside the model, as everywhere.
    """
    from safetensors.torch import save

    path = Path(path)
    if path.suffix != ".safetensors":
        raise Misuse(f"a model file ends in .safetensors, got `{path.name}`")
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in net.state_dict().items()}
    _must_build(architecture, net, tensors)
    card = replace(
        card,
        source="",
        weights=weights_digest(normalised(net, mean, std, card.size)),
        parameters=sum(parameter.numel() for parameter in net.parameters()),
    )
    fields = {
        **asdict(card),
        "architecture": architecture,
        "mean": None if mean is None else list(mean),
        "std": None if std is None else list(std),
    }
    _write(path, save(tensors, metadata={"card": json.dumps(fields, sort_keys=True)}))
    return path


def _must_build(architecture: str, net: nn.Module, tensors: dict[str, Tensor]) -> None:
    """What is written must load again: the architecture's own network takes these tensors."""
    try:
        fit(built(architecture).net, tensors, what=f"the {type(net).__name__} to save")
    except HoldfastError as error:
        hint = "save the bare network, without its normalisation, and give all its arguments: small-cnn:width=32"
        raise Misuse(error.problem, hint=hint) from error


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
