"""The footer of a file of rows: which run made it, with what, at what cost, and the digest of what it holds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from typing import Any, TypeVar

from holdfast.core.errors import HoldfastError
from holdfast.core.refs import Ref, Run
from holdfast.core.types import DatasetCard, Flag, ModelCard

FORMAT = 1
FOOTER_KEY = b"holdfast"
SEAL_KEY = b"holdfast seal"


@dataclass(frozen=True, slots=True)
class ChangeRecord:
    """One change of a scenario, readable without the code that made it."""

    kind: str
    name: str
    version: int
    text: str
    args: dict[str, Any]

    @classmethod
    def of(cls, ref: Ref) -> ChangeRecord:
        return cls(ref.kind, ref.name, ref.version, ref.plain, dict(ref.args))


@dataclass(frozen=True, slots=True)
class Footer:
    """Everything needed to read the rows, to trust them and to make them again.

    `right`, `in_top5` and `failed` count the rows, so that a board reads no rows; None in older files, `right` also
    where the data has no labels, and `in_top5` where the rows have no ranks. `probe` is what the model answered on
    probe images, where it is code. `logits` is `all` where every logit was asked for and would not be kept otherwise.
    `sources`: what changes took from outside.
    """

    key: str
    family: str
    model: str
    model_full: str
    scenario: str
    scenario_full: str
    dataset: str
    changes: tuple[ChangeRecord, ...]
    seed: int
    selection: str
    samples: int | None
    precision: float | None
    weights: str
    data: str
    card: ModelCard
    classes: tuple[str, ...]
    population: int
    n: int = 0
    started: str = ""
    finished: str = ""
    seconds: float = 0.0
    forwards: int = 0
    backwards: int = 0
    device: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    tallies: dict[str, int] = field(default_factory=dict)
    flags: tuple[Flag, ...] = ()
    command: str = ""
    digest: str = ""
    format: int = FORMAT
    right: int | None = None
    in_top5: int | None = None
    failed: int | None = None
    answers: str = ""
    behaviour: str = ""
    probe: tuple[float, ...] = ()
    logits: str = ""
    sources: str = ""

    @classmethod
    def of(cls, run: Run, card: ModelCard, dataset: DatasetCard, population: int) -> Footer:
        """What is known before the first sample is measured."""
        return cls(
            key=run.key,
            family=run.family,
            model=run.model.plain,
            model_full=run.model.full,
            scenario=run.scenario.plain,
            scenario_full=run.scenario.full,
            dataset=run.scenario.dataset.plain,
            changes=tuple(ChangeRecord.of(ref) for ref in run.scenario.changes),
            seed=run.seed,
            selection=run.selection,
            samples=run.samples,
            precision=run.precision,
            weights=run.weights,
            data=run.data,
            answers=run.answers,
            behaviour=run.behaviour,
            logits=run.logits,
            sources=run.sources,
            card=card,
            classes=dataset.classes,
            population=population,
        )

    @property
    def is_attacked(self) -> bool:
        return any(change.kind == "attack" for change in self.changes)

    @property
    def has_labels(self) -> bool:
        """Whether the samples of a finished run have labels: else it has answers, but no accuracy."""
        return self.right is not None or self.failed is None

    @property
    def source_is_memory(self) -> bool:
        """Whether the model or the images were given in memory: nobody can make the rows again from the footer."""
        return self.card.source == "live" or self.facts.get("data") == "memory"

    @property
    def is_imported(self) -> bool:
        """Whether others made these predictions: they were read from a file, not measured here."""
        return "imported from" in self.facts

    @property
    def is_weak(self) -> bool:
        """Whether an attack took its gradients in bfloat16, which left up to 9 points too many standing."""
        return self.facts.get("gradients", "").startswith("bfloat16")

    @property
    def is_partial(self) -> bool:
        """Whether it rests on fewer samples than the dataset has."""
        return self.n < self.population

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self), ensure_ascii=False).encode()

    def to_metadata(self) -> dict[bytes, bytes]:
        """The footer as a file has it, under a seal: the digest covers the rows, the seal the rest."""
        data = self.to_bytes()
        return {FOOTER_KEY: data, SEAL_KEY: _seal(data)}

    @classmethod
    def from_metadata(cls, metadata: dict[bytes, bytes]) -> Footer | None:
        """The footer of a file; None where it is missing or does not fit its seal."""
        data = metadata.get(FOOTER_KEY)
        return cls.from_bytes(data) if data is not None and metadata.get(SEAL_KEY) == _seal(data) else None

    @classmethod
    def from_bytes(cls, data: bytes) -> Footer:
        """Fields that this version does not know are passed over; one that it cannot do without is an error."""
        try:
            record = json.loads(data)
            if not isinstance(record, dict):
                raise OtherFormat("no record", hint=HINT)
            if record.get("format") != FORMAT:
                problem = f"rows of format {record.get('format')}, this installation reads format {FORMAT}"
                raise OtherFormat(problem, hint=HINT)
            made = {name: make(record[name]) for name, make in compounds.items() if name in record}
            footer = _from_record(cls, record | made)
            json.dumps(record, ensure_ascii=False).encode()  # half of a surrogate pair: no table could hold it
            _check_counts(footer)
        except (TypeError, ValueError, AttributeError, RecursionError) as error:
            raise OtherFormat(f"a footer that this installation cannot read: {error}", hint=HINT) from error
        return footer


class OtherFormat(HoldfastError):  # noqa: N818 - says what the footer is
    """A footer under a right seal that this version cannot read."""


HINT = "read the store with the version of holdfast that wrote it"
Record = TypeVar("Record")


def _from_record(kind: type[Record], record: dict[str, Any]) -> Record:
    """A record of ours from the fields that it knows; a `TypeError` names what is missing or of another kind."""
    made = kind(**{f.name: record[f.name] for f in fields(kind) if f.name in record})  # type: ignore[arg-type]
    for name, kinds in _plain_fields(kind).items():  # type: ignore[arg-type]
        value = getattr(made, name)
        if type(value) not in kinds or (isinstance(value, int) and abs(value) >= 1 << 63):
            raise TypeError(f"`{name}` is of another kind")
    return made


@cache
def _plain_fields(kind: Any) -> dict[str, tuple[type, ...]]:
    """What the fields of a record may hold that are texts or numbers."""
    words = {f.name: str(f.type).split(" | ") for f in fields(kind)}
    plain = {name: types for name, types in words.items() if set(types) <= KINDS.keys()}
    return {name: tuple(kind for word in types for kind in KINDS[word]) for name, types in plain.items()}


def _check_counts(footer: Footer) -> None:
    for name in ("right", "in_top5", "failed"):
        if not 0 <= (getattr(footer, name) or 0) <= footer.n:
            raise ValueError(f"`{name}` does not fit the number of rows")


def _texts(record: Any) -> tuple[str, ...]:
    if not isinstance(record, list | tuple) or not all(isinstance(text, str) for text in record):
        raise TypeError("a list of texts is of another kind")
    return tuple(record)


def _card(record: dict[str, Any]) -> ModelCard:
    return _from_record(ModelCard, record | {"threats": _texts(record.get("threats", ()))})


compounds: dict[str, Callable[[Any], Any]] = {  # fields that JSON gives back as lists and dicts
    "changes": lambda record: tuple(_from_record(ChangeRecord, change) for change in record),
    "card": _card,
    "classes": _texts,
    "versions": dict,
    "facts": dict,
    "tallies": dict,
    "probe": tuple,
    "flags": lambda record: tuple(_from_record(Flag, flag) for flag in record),
}
KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "None": (type(None),),
}


def _seal(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest().encode()
