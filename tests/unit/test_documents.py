"""What the documents say is true."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

import holdfast
from holdfast.core.registry import registry

ROOT = Path(__file__).parents[2]


def test_the_generated_catalogue_is_fresh() -> None:
    spec = importlib.util.spec_from_file_location("make_docs", ROOT / "scripts" / "make_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    stale = [str(path) for path, text in module.generated().items() if path.read_text(encoding="utf-8") != text]
    assert not stale, "run `make docs`"


def test_the_attack_of_the_readme_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = re.search(r"```python\n(# sharp\.py.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert code is not None
    registry.entries("attack")
    monkeypatch.setattr(registry, "components", {kind: dict(entries) for kind, entries in registry.components.items()})
    monkeypatch.setattr(registry, "discovered", set(registry.discovered) - {"plugins", "holdfast.attacks"})
    monkeypatch.setenv("HOLDFAST_PLUGINS", str(tmp_path))
    (tmp_path / "sharp.py").write_text(code[1])
    from holdfast import conformance

    conformance.check_entry("attack", "sharp")
    conformance.check_attack("sharp")


def test_the_python_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from torch import nn

    code = re.search(
        r"## Six lines of Python\n\n```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL
    )
    assert code is not None
    monkeypatch.chdir(tmp_path)
    net = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    exec(code[1].replace("samples=500", "samples=20"), {"net": net})
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in said] == ["fashion-mnist-2k", "fashion-mnist-2k+pgd-l2:radius=0.5"]


def test_every_public_name_can_be_had() -> None:
    for name in holdfast.__all__:
        assert getattr(holdfast, name) is not None
    assert set(dir(holdfast)) == set(holdfast.__all__)
    with pytest.raises(AttributeError, match="has no `nothing`"):
        holdfast.nothing  # noqa: B018


def test_links_of_the_documents_lead_somewhere() -> None:
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"
