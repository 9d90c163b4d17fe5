"""A site in its folder: written beside, then moved in file by file; what others keep there is never touched."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.temporary import TemporaryFolder, remove_leftovers

MARK = "holdfast-site.json"
KIND = "holdfast site"
PAGES_LAST = (".html", MARK)


@dataclass(frozen=True, slots=True)
class SiteContents:
    """The files of a site with a digest each, and what the reports among them were made from."""

    files: Mapping[str, str] = field(default_factory=dict)
    reports: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> str:
        return json.dumps({"kind": KIND, "files": self.files, "reports": self.reports}, indent=1) + "\n"


def contents(out: Path) -> SiteContents | None:
    """What a folder holds of ours; None where there is no folder or it is empty, an error where it is not ours."""
    if not out.exists():
        return None
    if not out.is_dir():
        raise Misuse(f"{out} is a file", hint="name a folder")
    mark = out / MARK
    if not mark.is_file():
        if any(out.iterdir()):
            raise Misuse(f"{out} is not empty and not a site of holdfast's", hint="name a new folder, or an empty one")
        return None
    try:
        record = json.loads(mark.read_text(encoding="utf-8"))
        known = SiteContents(dict(record["files"]), dict(record["reports"]))
        is_ours = record["kind"] == KIND
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise Misuse(f"{mark} cannot be read: {error}", hint="name a new folder") from error
    for name in known.files:
        if not is_below_folder(name):
            raise Misuse(f"{mark} names `{name}`, which is not inside the site", hint="name a new folder")
    if not is_ours:
        raise Misuse(f"{mark} is not the mark of a site", hint="name a new folder")
    return known


def is_below_folder(name: str) -> bool:
    """Whether a name stays below its folder on every system."""
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts and not set(name) & set("\\:\0")


def write(files: Iterable[tuple[str, bytes]], out: Path, *, reports: Mapping[str, str] | None = None) -> SiteContents:
    """Makes all files, then moves them in, pages last; removes those of ours that are no longer part of the site.

    `reports` is read after the last file was made.
    """
    old = contents(out) or SiteContents()
    with _writing(out):
        remove_leftovers(out.parent, f".{glob.escape(out.name)}.*.tmp")
        held = TemporaryFolder(out.parent / f".{out.name}.{uuid.uuid4().hex[:8]}.tmp")
    temporary = held.path
    try:
        made: dict[str, str] = {}
        for name, data in files:
            assert is_below_folder(name), name
            with _writing(out):
                (temporary / name).parent.mkdir(parents=True, exist_ok=True)
                (temporary / name).write_bytes(data)
            made[name] = hashlib.sha256(data).hexdigest()[:16]
        now = SiteContents(made, dict(reports or {}))
        with _writing(out):
            _move(temporary, out, old, now)
    finally:
        held.close()
    return now


@contextlib.contextmanager
def _writing(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise HoldfastError(f"cannot write {out}: {error.strerror or error}", hint="choose another folder") from error


def _move(temporary: Path, out: Path, old: SiteContents, now: SiteContents) -> None:
    foreign = [name for name in now.files if name not in old.files and (out / name).exists()]
    if foreign:
        raise Misuse(f"{out / foreign[0]} is in the way and not ours", hint="move it, or name another folder")
    out.mkdir(parents=True, exist_ok=True)
    # until all is moved, the mark owns both: an interrupted build can be made again
    (out / MARK).write_text(SiteContents({**old.files, **now.files}, {}).text(), encoding="utf-8")
    for name in sorted(now.files, key=lambda one: (one.endswith(PAGES_LAST), one == "index.html", one)):
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.parent.resolve().is_relative_to(out.resolve()):
            raise Misuse(f"{path.parent} leads out of the site", hint="remove the link")
        (temporary / name).replace(path)
    for name in old.files.keys() - now.files.keys():
        path = out / name
        if path.parent.resolve().is_relative_to(out.resolve()):
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # not empty: others keep something there
                path.parent.rmdir()
    (out / MARK).write_text(now.text(), encoding="utf-8")
