"""The network that the card in a model's file names: kept with its runs, and compared before rows are used again.

Networks may differ and have the same tensors, as transformers with other numbers of heads.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from holdfast.core.refs import Run
from holdfast.models.header import read_card
from holdfast.store import Store

NETWORK = "network in the file"  # the fact of a footer that names it, and the size that its images are brought to


class NetworkOfFile(NamedTuple):
    """What the key of a run says of the network in its model's file, and what the footer says."""

    in_key: str
    facts: dict[str, str]


def network_of_file(run: Run, store: Store | None) -> NetworkOfFile:
    """In the key only where the store has rows of the same weights in another network."""
    if run.model.kind != "model" or run.model.name != "file":
        return NetworkOfFile("", {})
    path = Path(str(run.model.arg("path"))).expanduser()
    saved = read_card(path) if path.suffix == ".safetensors" and path.is_file() else None
    if saved is None:
        return NetworkOfFile("", {})
    words = f"{saved.architecture} at {saved.card.size}"
    footers = [] if store is None else store.footers().values()
    known = (
        footer.facts[NETWORK]
        for footer in footers
        if (footer.model_full, footer.weights) == (run.model.full, run.weights)
        and NETWORK in footer.facts
        and f"{NETWORK} " not in footer.sources
    )
    return NetworkOfFile("" if next(known, words) == words else f"{NETWORK} {words}", {NETWORK: words})
