"""What a shell completes: names that are known without importing a component."""

from __future__ import annotations

from collections.abc import Sequence


def suite_names(incomplete: str) -> list[str]:
    """Suites of the package."""
    from holdfast.core.suites import suites

    return starting(list(suites()), incomplete)


def board_names(incomplete: str) -> list[str]:
    """Suites and lists with a board."""
    from holdfast.core.suites import published_lists, suites

    return starting([*suites(), *published_lists()], incomplete)


def model_names(incomplete: str) -> list[str]:
    """Names of holdfast.toml, bundled models, and the sources that models come from."""
    from holdfast.core.config import read_config
    from holdfast.core.errors import HoldfastError

    try:
        named = list(read_config().models)
    except HoldfastError:  # the command says what is wrong with it
        named = []
    return starting([*named, *BUNDLED], incomplete)


BUNDLED = ("fashion-at-l2", "fashion-at-linf", "fashion-noise", "fashion-standard", "file:", "python:", "timm:")


def starting(names: Sequence[str], incomplete: str) -> list[str]:
    """The names that begin so, sorted."""
    return sorted(name for name in names if name.startswith(incomplete))
