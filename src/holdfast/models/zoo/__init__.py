"""Bundled models: every `NAME.safetensors` in this folder is the model `NAME`, its card inside the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from holdfast.core.errors import HoldfastError
from holdfast.core.registry import register
from holdfast.core.types import Classifier
from holdfast.models.file import file_model
from holdfast.models.header import read_card

FOLDER = Path(__file__).parent


def register_folder(folder: Path) -> tuple[str, ...]:
    """Registers every model file of a folder by its stem, and says which."""
    files = sorted(folder.glob("*.safetensors"))
    for file in files:
        register("model", file.stem, source="bundled", tags=("zoo",))(_factory(file))
    return tuple(file.stem for file in files)


def _factory(file: Path) -> Callable[[], Classifier]:
    def bundled() -> Classifier:
        return file_model(str(file))

    bundled.__doc__ = _summary(file)
    return bundled


def _summary(file: Path) -> str:
    """A line for the catalogue, then the notes. A damaged file says so and keeps no other from being listed."""
    try:
        saved = read_card(file)
    except HoldfastError as error:
        return error.problem
    if saved is None:
        return "Weights without a card."
    card = saved.card
    trained = f" trained on {card.trained_on}" if card.trained_on else ""
    names = card.threats if len(card.threats) == 1 else [text.partition(":")[0] for text in card.threats]
    against = f" against {', '.join(names)}" if names else ""
    more = f"Threats in training: {', '.join(card.threats)}.\n" if len(card.threats) > 1 else ""
    line = f"{saved.architecture.partition(':')[0]}{trained}{against}, {card.classes} classes."
    return f"{line}\n\n{more}{card.notes}".strip()


register_folder(FOLDER)
