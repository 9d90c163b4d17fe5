"""Where a printed number can be read: the paper in a source such as `arXiv:2310.12793, Table 1`."""

from __future__ import annotations

import re

ARXIV = re.compile(r"arxiv:\s*(\d{4}\.\d{4,5})", re.IGNORECASE)
DOI = re.compile(r"doi:\s*(10\.\d{4,9}/[^\s,;<>\"']+)", re.IGNORECASE)


def paper(source: str) -> str | None:
    """The address of the first paper a source names."""
    if match := ARXIV.search(source):
        return f"https://arxiv.org/abs/{match[1]}"
    match = DOI.search(source)
    return f"https://doi.org/{match[1]}" if match else None
