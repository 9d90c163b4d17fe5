"""Contact sheets, and the page that shows them all."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from holdfast.__main__ import main
from holdfast.cli.catalogue import show_command
from holdfast.cli.sheet import (
    GAP,
    HEADER,
    _in_turn,
    attack_sheet,
    contact_sheet,
    dataset_sheet,
    save_sheet,
    severities,
    sweeps_of,
)
from holdfast.core.errors import HoldfastError, Misuse
from holdfast.datasets import load

ROOT = Path(__file__).parents[3]


def test_a_sheet_has_a_row_per_image_and_a_column_per_severity() -> None:
    sheet = contact_sheet("contrast", dataset="scenes:size=64,n=3", images=2, tile=64)
    assert severities("contrast") == (1, 2, 3, 4, 5)
    assert sheet.size == (GAP + 6 * (64 + GAP), HEADER + 2 * (64 + GAP))
    pixels = np.asarray(sheet)
    tiles = [pixels[HEADER : HEADER + 64, GAP + i * (64 + GAP) :][:, :64] for i in range(6)]
    assert (tiles[0] == load("scenes:size=64,n=3").images([0]).pixels[0].permute(1, 2, 0).numpy()).all()
    spread = [float(tile.std(axis=(0, 1)).mean()) for tile in tiles]
    assert spread == sorted(spread, reverse=True)  # less contrast at every severity


def test_small_grey_images_are_enlarged_by_a_whole_factor() -> None:
    sheet = contact_sheet("brightness", dataset="fashion-mnist-2k", images=1)
    assert sheet.size == (GAP + 6 * (84 + GAP), HEADER + 84 + GAP)
    first = np.asarray(sheet)[HEADER : HEADER + 84, GAP : GAP + 84, 0]
    assert (first[::3, ::3] == load("fashion-mnist-2k").images([0]).pixels[0, 0].numpy()).all()


def test_the_command_writes_a_sheet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    path = tmp_path / "new" / "x.png"
    words = ["show", "gaussian-noise:ladder=cifar", "--out", str(path), "--dataset", "scenes:size=48", "--images", "1"]
    monkeypatch.setattr(sys, "argv", ["holdfast", *words])
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "x.png" in captured.err.replace("\n", "")
    with Image.open(path) as image:
        assert image.format == "PNG"


def test_what_is_no_sheet_is_misuse(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="no corruption named `contrst`"):
        contact_sheet("contrst")
    with pytest.raises(Misuse, match="every severity"):
        contact_sheet("contrast:severity=2")
    with pytest.raises(Misuse, match="at least 1"):
        contact_sheet("contrast", images=0)
    with pytest.raises(Misuse, match=r"sheet\.png"):
        save_sheet(Image.new("RGB", (2, 2)), tmp_path / "x.pdf")


def strong_sweep(*radii: str) -> str:
    return f"sweep:attack=(pgd-linf:steps=2),radii=[{','.join(radii)}]"


def test_a_sheet_of_attacks_has_a_row_per_attack_and_a_column_per_strength() -> None:
    texts = {"first": strong_sweep("16/255", "4/255"), "second": strong_sweep("8/255")}
    sheet = attack_sheet(texts, model="fashion-standard", dataset="fashion-mnist-2k", tile=28)
    beside = sheet.width - 3 * (28 + GAP)  # the names, at the left
    assert sheet.height == GAP + 2 * (28 + HEADER)
    pixels = np.asarray(sheet)[:, :, 0].astype(int)
    tiles = [[pixels[top : top + 28, beside + i * 32 :][:, :28] for i in range(3)] for top in (GAP, GAP + 28 + HEADER)]
    sizes = [int(np.abs(tile - tiles[0][0]).max()) for tile in tiles[0]]
    assert sizes[0] == 0
    assert sizes[1:] == [4, 16]  # weakest first, each as far as it may go
    assert np.abs(tiles[1][1] - tiles[0][0]).max() == 8
    assert (tiles[1][2] == 255).all()  # the second has one strength


def test_the_sweeps_of_a_suite_are_drawn_under_their_published_names(tmp_path: Path) -> None:
    assert list(sweeps_of("suite:multirobustbench", None))[:3] == ["AutoLinfAttack", "AutoL2Attack", "AutoL1Attack"]
    assert len(sweeps_of("multirobustbench", None)) == 18
    assert len(sweeps_of("multirobustbench-quick", None)) == 9
    with pytest.raises(Misuse, match="no sweep"):
        sweeps_of("suite:timm", None)
    told: list[str] = []
    texts = {"colour": "sweep:attack=(hue-attack),radii=[0.1]", "linf": strong_sweep("8/255")}
    attack_sheet(texts, model="fashion-standard", dataset="fashion-mnist-2k", tell=told.append)
    assert told
    assert told[0].startswith("colour is left out")
    path = tmp_path / "x.png"
    words = ["show", strong_sweep("8/255"), "-o", str(path), "--model", "fashion-standard"]
    with pytest.raises(Misuse, match="--dataset"):
        show_command(words[1], out_file=path, model="fashion-standard")
    with pytest.raises(Misuse, match="--model"):
        show_command("suite:multirobustbench", out_file=path)
    show_command(words[1], out_file=path, model="fashion-standard", dataset="fashion-mnist-2k")
    assert path.is_file()


def test_the_gallery_shows_every_corruption_in_small_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.core.registry import registry

    spec = importlib.util.spec_from_file_location("make_docs", ROOT / "scripts" / "make_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    few = {name: registry.entries("corruption")[name] for name in ("contrast", "gaussian-noise")}
    monkeypatch.setattr(module.registry, "components", {**registry.components, "corruption": few})
    for name, value in {
        "ROOT": tmp_path,
        "SHEETS": tmp_path / "docs" / "figures",
        "GALLERY": tmp_path / "docs" / "x.md",
    }.items():
        monkeypatch.setattr(module, name, value)
    (tmp_path / "docs" / "figures").mkdir(parents=True)
    (tmp_path / "docs" / "figures" / "gone.jpg").write_bytes(b"")
    module.draw_sheets()
    drawn = sorted((tmp_path / "docs" / "figures").iterdir())
    assert [path.name for path in drawn] == ["contrast.jpg", "gaussian-noise.jpg"]
    assert max(path.stat().st_size for path in drawn) < module.LARGEST_SHEET
    page = module.gallery()
    assert all(f"](figures/{path.name})" in page for path in drawn)


def test_a_dataset_is_shown_with_each_class_in_turn() -> None:
    sheet = dataset_sheet("fashion-mnist-2k", images=12)
    assert sheet.width > sheet.height
    assert _in_turn([0, 0, 0, 1, 1, 2], 4) == [0, 3, 5, 1]
    assert dataset_sheet("fashion-mnist-2k", images=1).size[0] < sheet.width


def test_a_sheet_of_attacks_refuses_a_model_that_cannot_see_the_images() -> None:
    with pytest.raises(HoldfastError, match="takes 1 channels, the images of `scenes` have 3"):
        attack_sheet({"linf": strong_sweep("8/255")}, model="fashion-standard", dataset="scenes:n=4,size=28")
