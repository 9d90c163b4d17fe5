"""Names as parts of addresses: letters that every disk and server takes, and never two names for one file."""

from __future__ import annotations

import hashlib
import re

LONGEST = 80
DIGEST = re.compile(r"-[0-9a-f]{8}$")  # a plain name that looks like one made here could be taken for it
RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{i}" for port in ("com", "lpt") for i in range(1, 10))}


def slug(name: str) -> str:
    """A plain lower-case name as it is; any other in plain letters, with a digest that keeps it apart."""
    plain = re.sub(r"[^a-z0-9.-]+", "-", name.lower()).strip("-.")[:LONGEST].rstrip("-.")
    is_free = ".." not in plain and plain.split(".")[0] not in RESERVED and not DIGEST.search(plain)
    if plain and plain == name and is_free:
        return plain
    plain = re.sub(r"\.{2,}", ".", plain)
    return f"{plain or 'x'}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
