"""Names as parts of addresses, and the addresses of papers in sources such as `arXiv:2310.12793, Table 1`."""

from __future__ import annotations

import hashlib
import re

LONGEST = 80
DIGEST = re.compile(r"-[0-9a-f]{8}$")  # a plain name that looks like one made here could be taken for it
RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{i}" for port in ("com", "lpt") for i in range(1, 10))}

ARXIV = re.compile(r"arxiv:\s*(\d{4}\.\d{4,5})", re.IGNORECASE)
DOI = re.compile(r"doi:\s*(10\.\d{4,9}/[^\s,;<>\"']+)", re.IGNORECASE)
ARXIV_ALONE = re.compile(r"(?:arxiv:\s*)?(\d{4}\.\d{4,5})(?:v\d+)?", re.IGNORECASE)
DOI_ALONE = re.compile(r"(?:doi:\s*)?(10\.\d{4,9}/\S+)", re.IGNORECASE)


def slug(name: str) -> str:
    """A plain lower-case name as it is; any other in plain letters, with a digest that keeps it apart."""
    plain = re.sub(r"[^a-z0-9.-]+", "-", name.lower()).strip("-.")[:LONGEST].rstrip("-.")
    is_free = ".." not in plain and plain.split(".")[0] not in RESERVED and not DIGEST.search(plain)
    if plain and plain == name and is_free:
        return plain
    plain = re.sub(r"\.{2,}", ".", plain)
    return f"{plain or 'x'}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def paper(source: str) -> str | None:
    """The address of the first paper a source names."""
    return _address(ARXIV.search(source), DOI.search(source))


def link(text: str) -> str | None:
    """Where a paper can be read; None for anything that is not plainly an address, an arXiv number or a DOI."""
    if text.startswith(("https://", "http://")):
        return text
    return _address(ARXIV_ALONE.fullmatch(text.strip()), DOI_ALONE.fullmatch(text.strip()))


def _address(arxiv: re.Match[str] | None, doi: re.Match[str] | None) -> str | None:
    if arxiv is not None:
        return f"https://arxiv.org/abs/{arxiv[1]}"
    return f"https://doi.org/{doi[1]}" if doi is not None else None
