"""Pages made from notebooks: their text and code, without a kernel. The tests run the notebooks themselves."""

from __future__ import annotations

from pathlib import Path

import nbformat


def write(folder: Path) -> None:
    """A page beside every notebook, and their index."""
    notebooks = sorted(folder.glob("*.ipynb"))
    for notebook in notebooks:
        cells = nbformat.read(notebook, as_version=4).cells
        parts = [cell.source if cell.cell_type == "markdown" else f"```python\n{cell.source}\n```" for cell in cells]
        parts.insert(1, f"{{download}}`the notebook <{notebook.name}>`")
        (folder / f"{notebook.stem}.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    listed = "\n".join(notebook.stem for notebook in notebooks)
    index = "# Notebooks\n\nThree jobs from start to end on bundled data; the tests run them.\n\n"
    (folder / "index.md").write_text(f"{index}```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n", encoding="utf-8")
