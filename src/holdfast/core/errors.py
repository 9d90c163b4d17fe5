"""Errors that say what is wrong with the value, then what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MOST_COMPLETED = 4  # names that a hint lists


class HoldfastError(Exception):
    """Something failed; `hint` says what to do. The command line exits with `exit_code`."""

    exit_code = 1

    def __init__(self, problem: str, *, hint: str | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint

    def __str__(self) -> str:
        return self.problem if self.hint is None else f"{self.problem}\n\nhint: {self.hint}"


class Misuse(HoldfastError):  # noqa: N818 - the word of the design: exit 2 is misuse
    """The caller asked for something that cannot be: a wrong name, parameter or path."""

    exit_code = 2


class NoLabels(Misuse):
    """What was asked for needs labels, and the data has none."""


class Absent(HoldfastError):  # noqa: N818 - says what is the matter
    """Data or weights that are not on this machine; `hint` says how to get them. The rest of a suite goes on."""


class NotRead(HoldfastError):  # noqa: N818 - says what is the matter
    """Samples that could not be read this time: a fault of a disk, a network or memory, and no result."""


class Terminated(KeyboardInterrupt):
    """The system asked this process to end: like Ctrl-C, whatever is open is closed first."""


class HoldfastWarning(UserWarning):
    """Something to act on that does not stop the run; shown once."""


def did_you_mean(wrong: str, known: Iterable[str]) -> str | None:
    """A hint naming the closest known words, or None when nothing is close."""
    known = list(known)
    if wrong.lower() in known and wrong not in known:  # `PGD-Linf`
        return f"did you mean `{wrong.lower()}`?"
    begun = f"{wrong.lower()}-"  # `pgd` is nearer to `pgd-linf` than to `ppgd`
    completed = [name for name in known if name.startswith(begun) and "-" not in name.removeprefix(begun)]
    close = completed
    if not 0 < len(completed) <= MOST_COMPLETED:
        matches = difflib.get_close_matches(wrong, known, n=3, cutoff=0.5)
        likeness = [difflib.SequenceMatcher(a=wrong, b=name).ratio() for name in matches]
        close = [name for name, alike in zip(matches, likeness, strict=True) if alike > likeness[0] - 0.05]
    return "did you mean " + " or ".join(f"`{name}`" for name in close) + "?" if close else None


def unknown(kind: str, name: str, known: Iterable[str], *, otherwise: str | None = None) -> Misuse:
    """The error for an unknown name, with the closest known ones."""
    known = sorted(known)
    hint = did_you_mean(name, known) or otherwise or (f"there are: {', '.join(known)}" if known else "there are none")
    return Misuse(f"no {kind} named `{name}`", hint=hint)
