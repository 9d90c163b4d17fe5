"""Names as people write them: a model or scenario in any spelling, found among those a store holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.store import Store


def measured_model(store: Store, text: str) -> str:
    """The model as its rows name it; the text itself where there is none, for an error that suggests."""
    footers = store.footers().values()
    known = {footer.model for footer in footers}
    if text in known:
        return text
    by_card = {footer.model for footer in footers if footer.card.name == text}
    return by_card.pop() if len(by_card) == 1 else _respelled("model", text, known)


def measured_scenarios(store: Store, texts: Sequence[str] | None) -> list[str]:
    """The scenarios as their rows name them."""
    known = {footer.scenario for footer in store.footers().values()} if texts else set()
    return [text if text in known else _respelled("scenario", text, known) for text in texts or ()]


def _respelled(kind: str, text: str, known: set[str]) -> str:
    from holdfast.core.errors import HoldfastError
    from holdfast.core.registry import registry

    try:
        spelled = str(registry.scenario(text) if kind == "scenario" else registry.bind(kind, text))
    except HoldfastError:
        return text
    return spelled if spelled in known else text
