"""What the documents say is true."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

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


@pytest.mark.parametrize("document", ["README.md", "docs/python.md", "docs/ci.md"])
def test_the_python_of_the_documents_runs(
    document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch
    from torch import nn

    blocks = re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(encoding="utf-8"), re.DOTALL)
    blocks = [block for block in blocks if not block.startswith("# sharp.py")]
    assert blocks
    monkeypatch.chdir(tmp_path)
    if importlib.util.find_spec("lightning") is None:
        monkeypatch.setitem(sys.modules, "lightning", SimpleNamespace(Callback=object))
    torch.manual_seed(0)
    images = torch.rand(32, 1, 28, 28)
    net, other = (nn.Sequential(nn.Flatten(), nn.Linear(784, 10)) for _ in range(2))
    names: dict[str, Any] = {"net": net, "other": other, "images": images, "labels": net(images).argmax(1)}
    for block in blocks:
        quick = block.replace("autoattack-linf:radius", "apgd-ce-linf:steps=3,radius").replace('name="mine")', SHORT)
        exec(quick, names)
    if document == "README.md":
        assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()[1:]] == [
            ["mine", "data"],
            ["mine", "data+fog:severity=3"],
            ["mine", "data+pgd-linf:radius=8/255"],
        ]
    if document == "docs/ci.md":
        names["test_the_model_holds_up"]()
    if document == "docs/python.md":
        logged: dict[str, float] = {}
        module = SimpleNamespace(log=logged.__setitem__)
        monkeypatch.setattr(
            holdfast, "attack", lambda *_: SimpleNamespace(accuracy=SimpleNamespace(value=0.5)), raising=False
        )
        names["RobustAccuracy"](images, names["labels"]).on_validation_epoch_end(None, module)
        assert logged == {"robust accuracy": 0.5}


SHORT = 'name="mine", samples=8)'


def test_every_public_name_can_be_had() -> None:
    for name in holdfast.__all__:
        assert getattr(holdfast, name) is not None
    assert set(dir(holdfast)) == set(holdfast.__all__)
    with pytest.raises(AttributeError, match="has no `nothing`"):
        holdfast.nothing  # noqa: B018


def test_links_of_the_documents_lead_somewhere() -> None:
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "how-to").glob("*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text(encoding="utf-8")):
            is_generated = target.startswith("reference/")  # made with the site, which checks its links
            assert is_generated or (document.parent / target).exists(), f"{document.name} links to {target}"
