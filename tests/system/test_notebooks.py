"""The notebooks of the documentation run from start to end."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def test_there_are_three_and_none_keeps_its_output() -> None:
    nbformat = pytest.importorskip("nbformat")
    assert len(NOTEBOOKS) >= 3
    for path in NOTEBOOKS:
        cells = nbformat.read(path, as_version=4).cells
        assert cells[0].source.startswith("# "), f"{path.name} begins with its title"
        assert all(not cell.get("outputs") for cell in cells), f"{path.name} keeps output, which a reader would trust"


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = "".join(out.get("text", "") for cell in notebook.cells for out in cell.get("outputs", ()))
    assert printed.strip()
