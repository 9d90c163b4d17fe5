"""`--logits all` and the source of frost: part of a run's key where they change its rows, and only there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from typer.testing import CliRunner

from holdfast import evaluate, wrap
from holdfast.cli.app import app
from holdfast.core.errors import HoldfastError
from holdfast.core.refs import Ref, Run, Scenario
from holdfast.core.suites import load_suite
from holdfast.corruptions import frost, photographs
from holdfast.metrics.along_ratios import full_logits
from holdfast.store import Store

FROST = "fashion-mnist-2k+frost:severity=2"
BARE = Run(Ref("model", "m", (), 1), Scenario(Ref("dataset", "d", (), 1)), weights="w", data="x")


class Wide(nn.Module):
    """A thousand classes of which the labels are the first ten."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.head = nn.Linear(784, classes)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(images.flatten(1))


@pytest.fixture
def arrays(tmp_path: Path) -> str:
    """Images whose labels are classes of a model of a thousand."""
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (12, 28, 28), dtype=np.uint8)
    np.savez(tmp_path / "x.npz", images=images, labels=np.arange(12))
    return f"arrays:{tmp_path / 'x.npz'},answers=1000"


def test_keys_of_old_stay() -> None:
    """By digests of the version before these fields."""
    assert (BARE.family, BARE.key) == ("48ed042cf1a83cdde666", "42950439d90b44973a72")
    assert Run(BARE.model, BARE.scenario, weights="w", data="x", answers="a").key == "d35b62e7c4296fc37b94"
    assert Run(BARE.model, BARE.scenario, weights="w", data="x", logits="", sources="").key == BARE.key
    others = [Run(BARE.model, BARE.scenario, weights="w", data="x", **more) for more in OTHER]
    assert len({BARE.key, *(run.key for run in others)}) == 1 + len(OTHER)


OTHER: list[dict[str, str]] = [
    {"logits": "all"},
    {"sources": "photographs a"},
    {"sources": "photographs b"},
    {"logits": "all", "sources": "photographs a"},
    {"behaviour": "logits all"},
    {"answers": "logits all"},
]


def test_rows_keep_every_logit_on_request_and_serve_those_who_want_fewer(arrays: str, tmp_path: Path) -> None:
    model, store = wrap(Wide(), name="wide", classes=1000, channels=1), Store(str(tmp_path / "store"))
    (few,) = evaluate(model, arrays, store=store)
    (every,) = evaluate(model, arrays, store=store, logits="all")
    assert few.rows is not None
    assert every.rows is not None
    assert few.rows.logits is None
    assert few.rows.footer.key != every.rows.footer.key, "the first has too little, so it is measured again"
    images = torch.from_numpy(np.load(tmp_path / "x.npz")["images"]).float()[:, None] / 255
    true = model(images).detach().double().numpy()
    kept = full_logits(every.rows)
    np.testing.assert_allclose(kept - kept.max(1, keepdims=True), true - true.max(1, keepdims=True), atol=2e-3)
    assert "--logits all" in every.rows.footer.command
    with pytest.raises(HoldfastError, match="keeps only its largest logits") as refused:
        full_logits(few.rows)
    assert "--logits all" in str(refused.value.hint)

    fresh = Store(str(tmp_path / "fresh"))
    (first,) = evaluate(model, arrays, store=fresh, logits="all")
    (second,) = evaluate(model, arrays, store=fresh)
    assert first.fresh
    assert not second.fresh, "rows with every logit have all that was asked for"


def test_up_to_128_classes_nothing_changes(tmp_path: Path) -> None:
    model, store = wrap(Wide(10), name="narrow", classes=10, channels=1), Store(str(tmp_path))
    (one,) = evaluate(model, "fashion-mnist-2k", store=store, samples=10)
    (other,) = evaluate(model, "fashion-mnist-2k", store=store, samples=10, logits="all")
    assert one.rows is not None
    assert not other.fresh
    assert one.rows.footer.logits == ""


def test_a_wrong_choice_of_logits_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HoldfastError, match="choice of logits"):
        evaluate("fashion-standard", "fashion-mnist-2k", store=str(tmp_path), samples=2, logits="some")


def test_a_suite_asks_for_all_logits() -> None:
    for name in ("posterior-agreement", "posterior-agreement-domains", "posterior-agreement-imagenet"):
        assert load_suite(name).logits == "all"
    told = CliRunner().invoke(app, ["show", "suite:posterior-agreement-imagenet", "--json"])
    assert '"logits": "all"' in told.stdout


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The digest of photographs, to be changed, with the pictures that it stands for."""
    known = {"digest": ""}
    painted = tuple(photographs.painted())

    def frosts(device: str) -> photographs.Frosts:
        words = "photographs of `imagecorruptions`" if known["digest"] else "drawn, since `imagecorruptions` is absent"
        pictures = tuple(255 - picture for picture in painted) if known["digest"] else painted
        return photographs.Frosts(pictures, words)

    monkeypatch.setattr(frost, "frosts", frosts)
    monkeypatch.setattr(frost, "photographs_digest", lambda: known["digest"])
    return known


def measured(store: Store, scenario: str = FROST) -> tuple[str, bool, str]:
    (outcome,) = evaluate("fashion-standard", scenario, store=store, samples=6, pictures=0)
    assert outcome.rows is not None
    return outcome.rows.footer.key, outcome.fresh, outcome.rows.footer.facts["frost"]


def test_drawn_and_photographed_frost_are_two_runs(sources: dict[str, str], tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    drawn = measured(store)
    sources["digest"] = "photographs 1"
    taken = measured(store)
    assert taken[0] != drawn[0]
    assert taken[1:] == (True, "photographs of `imagecorruptions`")
    sources["digest"] = "photographs 2"
    assert measured(store)[:2] != taken[:2], "other photographs are another run"
    sources["digest"] = ""
    assert measured(store) == (drawn[0], False, drawn[2])


def test_photographed_rows_of_old_are_used_for_photographs_and_not_for_drawings(
    sources: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the source was in the key, both shared one."""
    store = Store(str(tmp_path))
    sources["digest"] = "photographs 1"
    with monkeypatch.context() as old:
        old.setattr(frost.Frost, "source_in_key", "")
        kept = measured(store)
    assert measured(store) == (kept[0], False, kept[2])
    sources["digest"] = ""
    key, fresh, words = measured(store)
    assert (key != kept[0], fresh, words.startswith("drawn")) == (True, True, True)
    assert measured(store)[:2] == (key, False)
