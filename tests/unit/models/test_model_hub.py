"""Models of the hub at one revision, with stand-ins for the libraries that make them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from torch import nn

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.registry import registry
from holdfast.core.types import ModelCard
from holdfast.models import TorchClassifier, load
from holdfast.models import hub as source

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """What was asked of timm and transformers; the hub has a page of each, and one of neither."""
    seen: list[Any] = []
    configs = {
        "timm/toy": {"architecture": "toy", "pretrained_cfg": {}},
        "google/toy": {"model_type": "vit"},
        "who/knows": {"author": "me"},
    }
    hub, constants = ModuleType("huggingface_hub"), ModuleType("huggingface_hub.constants")

    def hf_hub_download(name: str, file: str, *, revision: str) -> str:
        if name not in configs:
            raise OSError("404: repository not found\nmore of it")
        path = tmp_path / "config.json"
        path.write_text(json.dumps(configs[name]))
        seen.append((name, file, revision))
        return str(path)

    def made(name: str, **options: Any) -> TorchClassifier:
        seen.append((name, options))
        return TorchClassifier(nn.Flatten(), ModelCard(name, "", classes=2, channels=3))

    hub.hf_hub_download, constants.HF_HUB_CACHE = hf_hub_download, str(tmp_path)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    monkeypatch.setitem(sys.modules, "huggingface_hub.constants", constants)
    monkeypatch.setattr(source, "timm_model", made)
    monkeypatch.setattr(source, "pretrained_classifier", made)
    return seen


def test_a_page_of_timm_is_made_by_timm_at_its_revision(calls: list[Any]) -> None:
    load(f"hub:timm/toy,revision={COMMIT}")
    assert calls == [("timm/toy", "config.json", COMMIT), (f"hf-hub:timm/toy@{COMMIT}", {})]


def test_a_page_of_transformers_is_made_by_transformers_at_its_revision(calls: list[Any]) -> None:
    load(f"hub:google/toy,revision={COMMIT}")
    assert calls[1:] == [("google/toy", {"revision": COMMIT})]


def test_a_library_that_is_named_is_not_asked_for(calls: list[Any]) -> None:
    load(f"hub:who/knows,revision={COMMIT},library=transformers")
    assert calls == [("who/knows", {"revision": COMMIT})]


def test_another_revision_is_another_key() -> None:
    first, second = (registry.bind("model", f"hub:timm/toy,revision={number}") for number in ("aaa", "bbb"))
    assert first.key != second.key


def test_a_page_without_a_revision_is_refused_with_the_one_in_the_cache(calls: list[Any], tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="does not say which revision") as raised:
        load("hub:timm/toy")
    assert COMMIT not in str(raised.value.hint)
    (tmp_path / "models--timm--toy" / "refs").mkdir(parents=True)
    (tmp_path / "models--timm--toy" / "refs" / "main").write_text(COMMIT)
    with pytest.raises(Misuse, match="does not say which revision") as raised:
        load("hub:timm/toy")
    assert COMMIT in str(raised.value.hint)


@pytest.mark.usefixtures("calls")
def test_what_the_hub_does_not_have_is_said_in_a_line_with_what_to_do() -> None:
    with pytest.raises(HoldfastError, match=r"cannot be had: 404: repository not found\n\n") as raised:
        load(f"hub:no/such,revision={COMMIT}")
    assert f"hf download no/such --revision {COMMIT}" in str(raised.value.hint)
    with pytest.raises(HoldfastError, match="neither timm nor transformers"):
        load(f"hub:who/knows,revision={COMMIT}")


def test_without_the_hubs_package_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(HoldfastError, match="`huggingface_hub`"):
        load(f"hub:timm/toy,revision={COMMIT}")
