"""Reading the files of others: every problem names the file, the place and what to do."""

from __future__ import annotations

import csv
import datetime
import hashlib
import io
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.table import Table, table
from holdfast.store.scores import Origin

CUT = "is the file cut off? fetch it again"
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # what a spreadsheet takes for a formula


class BadFile(HoldfastError):  # noqa: N818 - says what the file is
    """A file that is not what its format says."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file's bytes, read once: what is parsed is what was digested."""

    path: Path
    data: bytes

    def origin(self, format: str) -> Origin:  # noqa: A002 - the word of the command line
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        return Origin(format, self.path.name, hashlib.sha256(self.data).hexdigest(), today)

    def text(self) -> str:
        try:
            return self.data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise BadFile(f"{self.path} is not text: {error}", hint="is it the right file?") from error

    def json(self) -> Any:
        try:
            value = json.loads(self.text())
            json.dumps(value, ensure_ascii=False).encode()  # half of a surrogate pair is no text
            return value
        except (ValueError, RecursionError) as error:
            raise BadFile(f"{self.path} is not valid JSON: {error}", hint=CUT) from error

    def lines(self) -> Iterator[tuple[int, list[str]]]:
        """The fields of every line of a CSV file that has any, with its number."""
        reader = csv.reader(io.StringIO(self.text(), newline=""), strict=True)
        try:
            for fields in reader:
                if fields:
                    yield reader.line_num, fields
        except csv.Error as error:
            raise BadFile(f"{self.path}, line {reader.line_num}: {error}", hint=CUT) from error

    def records(self, needs: Sequence[str]) -> list[dict[str, str]]:
        """The lines of a CSV file under the names of its header, which must hold these columns."""
        lines = list(self.lines())
        if not lines:
            raise BadFile(f"{self.path} is empty", hint=CUT)
        header = [name.strip() for name in lines[0][1]]
        for name in needs:
            if name not in header:
                has = ", ".join(header[:6]) + (", …" if len(header) > 6 else "")
                raise BadFile(f"{self.path} has no column `{name}`", hint=f"it has {has}: is it the right file?")
        for name in header:
            if header.count(name) > 1:
                raise BadFile(f"{self.path} has the column `{name}` twice")
        if len(lines) == 1:
            raise BadFile(f"{self.path} has a header and nothing below it", hint=CUT)
        for number, fields in lines[1:]:
            if len(fields) != len(header):
                raise BadFile(
                    f"{self.path}, line {number} has {len(fields)} fields, its header {len(header)}", hint=CUT
                )
        return [dict(zip(header, fields, strict=True)) for _, fields in lines[1:]]


def is_formula(text: str) -> bool:
    """Whether a spreadsheet would compute this text rather than show it; a number is no formula."""
    if not text.startswith(FORMULA) and not text.lstrip().startswith(FORMULA):
        return False
    try:
        float(text)
    except ValueError:
        return True
    return text != text.strip()


def plain_text(text: str) -> str:
    """The text as it was before an export put an apostrophe before what looked like a formula."""
    return text[1:] if text.startswith("'") and is_formula(text[1:]) else text


def opened(path: Path) -> Source:
    if not path.is_file():
        raise Misuse(f"no file at {path}")
    return Source(path, path.read_bytes())


def files_matching(folder: Path, pattern: str) -> list[Path]:
    """The files of a folder that fit a pattern, sorted; a hidden one, easily overlooked, is an error."""
    files = sorted(folder.glob(pattern))
    for file in files:
        not_hidden(file)
    return files


def not_hidden(path: Path) -> None:
    """An error for a file whose name begins with a dot: copies and backups of systems and editors do."""
    if path.name.startswith(".") and path.name.strip("."):
        raise BadFile(f"{path} is a hidden file: its name begins with a dot", hint="rename it, or move it away")


def one_file(path: Path, pattern: str, what: str) -> Path:
    """The path itself where it is a file, else the one file of a folder that fits the pattern."""
    if not path.is_dir():
        return path
    fitting = files_matching(path, pattern)
    if len(fitting) == 1:
        return fitting[0]
    problem = f"{len(fitting)} files" if fitting else "no file"
    raise Misuse(f"{problem} named {pattern} in {path}", hint=f"give the path of {what}")


def beside(path: Path, pattern: str) -> Path | None:
    """The one file next to another that fits a pattern; None where there is none."""
    fitting = files_matching(path.parent, pattern)
    if len(fitting) > 1:
        names = ", ".join(file.name for file in fitting)
        raise Misuse(f"{len(fitting)} files could belong to {path.name}: {names}", hint="keep one of them beside it")
    return fitting[0] if fitting else None


def share_from_percent(text: object, where: str) -> float | None:
    """A share written in percent, as a fraction; None where the cell is blank."""
    value = finite_number(text, where)
    if value is None:
        return None
    if not 0 <= value <= 100:
        raise BadFile(f"{where}: {value:g} is no percentage", hint="percentages lie in [0, 100]")
    return value / 100


def finite_number(text: object, where: str) -> float | None:
    """A finite number; None where the cell is blank."""
    if text is None or (isinstance(text, str) and not text.strip()):
        return None
    try:
        value = float(str(text))
    except ValueError as error:
        raise BadFile(f"{where}: `{text}` is no number") from error
    if not math.isfinite(value):
        raise BadFile(f"{where}: `{text}` is no finite number")
    return value


def sample_count(text: object, where: str) -> int:
    """How many samples, 0 where the cell is blank."""
    value = finite_number(text, where)
    if value is None:
        return 0
    if value < 1 or value != int(value):
        raise BadFile(f"{where}: `{text}` is no count of samples")
    return int(value)


@dataclass(slots=True)
class ScoreCells:
    """Scores on the way into a table: each may be given once."""

    path: Path
    values: dict[tuple[str, str], float] = field(default_factory=dict)
    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    facts: dict[str, dict[str, str]] = field(default_factory=dict)
    sources: dict[str | tuple[str, str], str] = field(default_factory=dict)

    def table(self, source: str = "") -> Table:
        """What was read; `source` is where the scores come from that have no source of their own."""
        return table(self.values, counts=self.counts, facts=self.facts, sources=self.sources, source=source)

    def model(self, name: str, facts: dict[str, str] | None = None) -> None:
        """Opens the scores of a model, which may stand in a file once."""
        if not name.strip():
            raise BadFile(f"{self.path} has a line without a model")
        if name in self.facts:
            raise BadFile(f"{self.path} has the model `{name}` twice")
        self.facts[name] = {key: value for key, value in (facts or {}).items() if value}

    def add(self, model: str, setting: str, value: float | None, n: int = 0) -> None:
        if value is None:
            return
        if (model, setting) in self.values:
            raise BadFile(f"{self.path} has `{setting}` of `{model}` twice")
        self.values[model, setting] = value
        if n:
            self.counts[model, setting] = n
