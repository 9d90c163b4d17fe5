"""Where a printed number can be read: the paper in a source such as `arXiv:2310.12793, Table 1`."""

from __future__ import annotations

import re

ARXIV = re.compile(r"arxiv:\s*(\d{4}\.\d{4,5})", re.IGNORECASE)
DOI = re.compile(r"doi:\s*(10\.\d{4,9}/[^\s,;<>\"']+)", re.IGNORECASE)
ARXIV_ALONE = re.compile(r"(?:arxiv:\s*)?(\d{4}\.\d{4,5})(?:v\d+)?", re.IGNORECASE)
DOI_ALONE = re.compile(r"(?:doi:\s*)?(10\.\d{4,9}/\S+)", re.IGNORECASE)


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
