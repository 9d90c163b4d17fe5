"""Runs the code of the documents: every `python` and `bash` block of a page, in order, in one empty folder.

    python scripts/snippets.py [PAGE.md …] [--list]

Python blocks of a page share their names. What a block needs and a reader does not want to see stands in a comment,
and so does the reason why one is not run:

    <!-- snippet: before
    net = make_a_network()
    -->
    <!-- snippet: skip, needs four machines -->
    <!-- snippet: with /data/birds as birds -->
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
RUN = ("python", "bash")
MADE = {"_build", "reference", "notebooks", "made"}  # folders of pages that are made from others
FENCE = re.compile(
    r"(?P<hidden>^<!-- snippet: before\n(?P<before>.*?)^-->$)"
    r"|(?:^<!-- snippet: (?P<mark>[^\n]*?) -->\n)?^```(?P<language>[a-z]*)\n(?P<code>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
COMMAND = re.compile(r"^(?:\$ )?(?:HOLDFAST_\w+=\S+ )*holdfast ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Snippet:
    """A block of code in a document. `reason` says why it is not run, `replaced` what stands for what a reader has."""

    page: Path
    line: int
    language: str
    code: str
    mark: str = ""
    is_hidden: bool = False

    @property
    def reason(self) -> str | None:
        return self.mark.removeprefix("skip, ") if self.mark.startswith("skip") else None

    @property
    def is_run(self) -> bool:
        return self.language in RUN and self.reason is None

    @property
    def text(self) -> str:
        """The code as it is run."""
        text = self.code
        for old, new in re.findall(r"(\S+) as (\S+?)(?:,|$)", self.mark.removeprefix("with ")):
            text = text.replace(old, new) if self.mark.startswith("with ") else text
        return text

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages() -> list[Path]:
    """README, CONTRIBUTING and every page of the documentation."""
    written = [path for path in sorted((ROOT / "docs").rglob("*.md")) if not MADE & set(path.parts)]
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *written]


def snippets(page: Path) -> list[Snippet]:
    """The blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match["hidden"]:
            found.append(Snippet(page, line, "python", match["before"], is_hidden=True))
        else:
            found.append(Snippet(page, line, match["language"], match["code"], match["mark"] or ""))
    return found


def run_page(page: Path) -> None:
    """Runs the page's blocks; raises with the place of the first that fails."""
    names: dict[str, object] = {"__name__": "__main__"}
    for snippet in snippets(page):
        if not snippet.is_run:
            continue
        sys.stdout.write(f"--- {snippet.where}\n")
        sys.stdout.flush()
        if snippet.language == "python":
            blank = "\n" * snippet.line  # so that a traceback has the page's line
            exec(compile(blank + snippet.text, str(page), "exec"), names)
        else:
            subprocess.run(["bash", "-euo", "pipefail", "-c", snippet.text], check=True)


def main() -> int:
    chosen = [Path(text).resolve() for text in sys.argv[1:] if not text.startswith("-")] or pages()
    if "--list" in sys.argv:
        for page in chosen:
            for snippet in snippets(page):
                if snippet.language in RUN and not snippet.is_hidden:
                    print(f"{snippet.where:32} {snippet.language:7} {snippet.reason or 'run'}")
        return 0
    scripts = str(Path(sys.executable).parent)
    os.environ["PYTHONPATH"] = f"{ROOT / 'src'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    sys.path.insert(0, str(ROOT / "src"))
    os.environ["PATH"] = f"{scripts}{os.pathsep}{os.environ['PATH']}"
    for page in chosen:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            sys.path.insert(0, folder)
            run_page(page)
            os.chdir(ROOT)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
