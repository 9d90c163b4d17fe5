"""The images that a run scored come out as they were."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import holdfast
from holdfast.core.errors import HoldfastError, Misuse
from holdfast.engine.image_export import run_images
from holdfast.store import Store

SCENARIO = "fashion-mnist-2k+pgd-linf:radius=8/255,steps=5"


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("rows"))
    holdfast.evaluate("fashion-standard", SCENARIO, samples=40, store=folder, pictures=0)
    return folder


def test_failures_come_out_as_they_were_scored(rows: str, tmp_path: Path) -> None:
    store = Store(rows)
    (key,) = store.footers()
    stored = store.read(key)
    made = run_images(store, key)
    assert len(made.ids) == made.as_stored == int((~stored.correct).sum())
    model = holdfast.load("fashion-standard")
    with torch.no_grad():
        answers = model(torch.from_numpy(made.after)).argmax(1).numpy()
    assert (answers == made.predictions).all()
    assert (answers != made.labels).all()
    assert np.abs(made.after - made.before).max() <= 8 / 255 + 1e-6
    content = np.load(made.write(tmp_path, pictures=True))
    assert content["images"].dtype == np.float32
    np.testing.assert_array_equal(content["images"], made.after)
    assert len(list(tmp_path.glob("*/*.png"))) == len(made.ids)


def test_all_or_a_few_of_each_class(rows: str) -> None:
    store = Store(rows)
    (key,) = store.footers()
    assert len(run_images(store, key[:6], failures=False).ids) == 40
    few = run_images(store, key, limit=1)
    assert len(set(few.labels.tolist())) == len(few.ids)
    with pytest.raises(Misuse, match="--limit"):
        run_images(store, key, limit=0)


def test_the_commands(rows: str, run: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    (key,) = Store(rows).footers()
    code, out, err = run("export", "images", "--run", key, "--out", "pics", "--limit", "1", "--store", rows)
    assert (code, out.strip()) == (0, "pics/images.npz"), err
    assert "prediction of the stored row" in err
    sample = str(np.load("pics/images.npz")["ids"][0])
    assert run("explain", key, sample, "--npz", "deep/one.npz", "--store", rows)[0] == 0
    one, all_of_them = np.load("deep/one.npz"), np.load("pics/images.npz")
    np.testing.assert_allclose(one["after"], all_of_them["images"][0], atol=1e-5)
    assert run("export", "images", "--store", rows)[0] == 2
    assert run("export", "--run", key, "--store", rows)[0] == 2


def test_what_was_in_memory_cannot_be_made_again(tmp_path: Path) -> None:
    images = torch.rand(4, 1, 28, 28)
    holdfast.evaluate("fashion-standard", (images, [0, 1, 2, 3]), store=str(tmp_path), pictures=0)
    store = Store(str(tmp_path))
    with pytest.raises(HoldfastError, match="in memory"):
        run_images(store, next(iter(store.footers())))


def test_images_are_kept_with_a_run(rows: str, run: Callable[..., tuple[int, str, str]]) -> None:
    words = ["evaluate", "fashion-standard", "--scenario", SCENARIO, "--samples", "40", "--store", rows]
    code, _, err = run(*words, "--keep-images", "kept", "--quiet")
    assert (code, "40 of 40 with the prediction of their row" in err) == (0, True), err
    (key,) = Store(rows).footers()
    assert np.load(f"kept/{key}/images.npz")["images"].shape == (40, 1, 28, 28)
