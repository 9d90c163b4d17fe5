"""What the files of a dataset held: kept with its runs, and compared before rows are used again.

The fingerprint of files is their names, labels and sizes, so that no dataset must be read to name a run. Files may
change and keep all three, bitmaps for instance. So short digests of some files stand in each footer, and one of all
bytes where there are few. Rows of other files are another run's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import NamedTuple

from holdfast.core.types import Dataset, bytes_of_file
from holdfast.datasets.image_files import in_parallel
from holdfast.engine.order import chosen_samples
from holdfast.store import Store
from holdfast.store.footer import Footer

FACT = "image files"  # the fact of a footer that holds the digests
SOME = 64  # files, each with a digest of its own
DIGITS = 8
MOST_BYTES = 64e6  # up to which all files are read


class FileContents(NamedTuple):
    """Digests of some files in keyed order, and one of all files where those are few."""

    some: tuple[str, ...]
    whole: str

    @classmethod
    def of(cls, dataset: Dataset) -> FileContents | None:
        """None for a dataset that is no files, and where some cannot be read."""
        if not len(dataset.ids):
            return None
        order = chosen_samples(dataset.ids, dataset.labels, None).tolist()
        try:
            read = in_parallel(lambda i: bytes_of_file(dataset, i), order[:SOME])
            if not any(read):
                return None
            total = hashlib.sha256()
            some = tuple(hashlib.sha256(data).hexdigest()[:DIGITS] for data in read)
            if sum(map(len, read)) / len(read) * len(order) > MOST_BYTES:
                return cls(some, "")
            for part in in_parallel(lambda i: hashlib.sha256(bytes_of_file(dataset, i)).digest(), order):
                total.update(part)
        except OSError:
            return None
        return cls(some, total.hexdigest()[: 2 * DIGITS])

    @classmethod
    def read(cls, text: str) -> FileContents | None:
        """From the fact of a footer; None where that is something else."""
        whole, _, some = text.partition(":")
        parts = tuple(some[i : i + DIGITS] for i in range(0, len(some), DIGITS))
        return cls(parts, whole) if parts else None

    @property
    def words(self) -> str:
        return f"{self.whole}:{''.join(self.some)}"

    @property
    def name(self) -> str:
        return hashlib.sha256(self.words.encode()).hexdigest()[:DIGITS]


class Contents:
    """The names of what datasets hold, each found once."""

    def __init__(self, store: Store | None, note: Callable[[str], None]) -> None:
        self.store, self.note = store, note
        self.named: dict[tuple[str, str], tuple[str, dict[str, str]]] = {}

    def of(self, dataset: Dataset, ref: str) -> tuple[str, dict[str, str]]:
        """The name of a dataset's content in a run's key, and what a footer says of it.

        It is the fingerprint, unless the store has rows of files of these names and sizes that held something else.
        """
        base = dataset.card.fingerprint
        if (ref, base) not in self.named:
            contents = FileContents.of(dataset)
            facts = {} if contents is None else {FACT: contents.words}
            self.named[ref, base] = base if contents is None else self._name(dataset, ref, contents), facts
        return self.named[ref, base]

    def _name(self, dataset: Dataset, ref: str, contents: FileContents) -> str:
        base = dataset.card.fingerprint
        if self.store is None:
            return base
        same = [
            one for one in self.store.footers().values() if (one.dataset, one.data.rpartition("~")[2]) == (ref, base)
        ]
        known = [(footer, then) for footer in same if (then := FileContents.read(footer.facts.get(FACT, "")))]
        for footer, then in known:
            if _is_same(dataset, contents, then, footer, self.store):
                return footer.data
        if not known:
            return base
        self.note(
            f"the files of `{ref}` hold something else than when its rows were made, under the same names and sizes: "
            "they are measured as another run, and those rows stay"
        )
        return f"{contents.name}~{base}"


def _is_same(dataset: Dataset, now: FileContents, then: FileContents, footer: Footer, store: Store) -> bool:
    """Whether files are those of then, but for ones that held no image then: these are measured again anyway."""
    if len(now.some) != len(then.some):
        return False
    order = chosen_samples(dataset.ids, dataset.labels, SOME).tolist()
    other = [dataset.ids[i] for i, a, b in zip(order, now.some, then.some, strict=True) if a != b]
    if not other and (now.whole == then.whole or not now.whole or not then.whole):
        return True
    return bool(footer.failed) and set(other) <= _failed(store, footer.key)


def _failed(store: Store, key: str) -> set[str]:
    rows = store.read_if_there(key)
    return set() if rows is None else {name for name, bad in zip(rows.ids, rows.failed, strict=True) if bad}
