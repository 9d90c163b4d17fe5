"""Follows every link between the pages of a built site: the page and the place in it must be there.

python scripts/check_site.py FOLDER
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links of a page and the names that links may point to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and (name == "id" or (tag == "a" and name == "name")):
                self.names.add(value)
            elif value and name in ("href", "src"):
                self.links.append(value)


def broken_links(folder: Path) -> list[str]:
    """`page: link` for every link inside the site that leads nowhere."""
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html")}
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            missing = parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].names
            if not target.exists() or missing:
                broken.append(f"{path.relative_to(folder.resolve())}: {link}")
    return broken


def main() -> int:
    folder = Path(sys.argv[1])
    pages = list(folder.rglob("*.html"))
    found = broken_links(folder)
    for line in found:
        print(line)
    print(f"{len(pages)} pages, {len(found)} broken links", file=sys.stderr)
    return int(bool(found) or not pages)


if __name__ == "__main__":
    raise SystemExit(main())
