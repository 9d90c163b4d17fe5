"""Forward-only models, with real ONNX files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.models import check, load

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

WEIGHT = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
IMAGES = torch.rand(5, 3, 6, 6, generator=torch.Generator().manual_seed(0))


def write(
    path: Path, *, shape: tuple[Any, ...] = ("n", 3, 6, 6), element: str = "FLOAT", external: bool = False
) -> Path:
    """Mean colours times a matrix, in an ONNX file."""
    kind = getattr(onnx.TensorProto, element)
    weight = onnx.numpy_helper.from_array(WEIGHT.astype(np.float16 if element == "FLOAT16" else np.float32), "weight")
    nodes = [
        onnx.helper.make_node("GlobalAveragePool", ["images"], ["means"]),
        onnx.helper.make_node("Flatten", ["means"], ["flat"]),
        onnx.helper.make_node("MatMul", ["flat", "weight"], ["logits"]),
    ]
    entrance = onnx.helper.make_tensor_value_info("images", kind, shape)
    exit_ = onnx.helper.make_tensor_value_info("logits", kind, (shape[0], 4))
    graph = onnx.helper.make_graph(nodes, "toy", [entrance], [exit_], [weight])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    options = {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 0} if external else {}
    onnx.save_model(model, str(path), **options)
    return path


def expected(images: torch.Tensor) -> torch.Tensor:
    return images.mean((2, 3)) @ torch.from_numpy(WEIGHT)


def test_an_onnx_file_gives_logits_and_says_it_takes_no_gradients(tmp_path: Path) -> None:
    model = load(f"onnx:{write(tmp_path / 'toy.onnx')}")
    torch.testing.assert_close(model(IMAGES), expected(IMAGES))
    card = model.card
    assert (card.name, card.classes, card.channels, card.size, card.differentiable) == ("toy", 4, 3, 6, False)
    assert len(card.weights) == 64
    assert "takes no attack that follows gradients" in str(model.cannot_take)
    with pytest.raises(HoldfastError, match="runs forward only"):
        model(IMAGES.clone().requires_grad_(True))
    assert not model.was_training


def test_preprocessing_and_the_size_of_the_file_are_inside(tmp_path: Path) -> None:
    model = load(f"onnx:{write(tmp_path / 'toy.onnx')},mean=0.5,std=0.25")
    torch.testing.assert_close(model(IMAGES), expected((IMAGES - 0.5) / 0.25))
    assert model(torch.rand(2, 3, 9, 9)).shape == (2, 4)


@pytest.mark.parametrize("batch", [1, 2, 5, 8])
def test_a_fixed_batch_size_is_cut_and_filled(tmp_path: Path, batch: int) -> None:
    model = load(f"onnx:{write(tmp_path / 'toy.onnx', shape=(batch, 3, 6, 6))}")
    torch.testing.assert_close(model(IMAGES), expected(IMAGES))


def test_open_sizes_and_half_precision_work(tmp_path: Path) -> None:
    model = load(f"onnx:{write(tmp_path / 'open.onnx', shape=('n', 'c', 'h', 'w'))}")
    assert (model.card.channels, model.card.size) == (3, None)
    half = load(f"onnx:{write(tmp_path / 'half.onnx', element='FLOAT16')}")
    assert half(IMAGES).dtype == torch.float32
    torch.testing.assert_close(half(IMAGES), expected(IMAGES), atol=1e-2, rtol=0)  # float16 keeps 3 digits


def test_the_digest_covers_weights_beside_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "toy.onnx", external=True)
    before = load(f"onnx:{path}").card.weights
    weights = tmp_path / "weights.bin"
    weights.write_bytes((WEIGHT + 1).tobytes())
    after = load(f"onnx:{path}")
    assert after.card.weights != before
    torch.testing.assert_close(after(IMAGES), IMAGES.mean((2, 3)) @ torch.from_numpy(WEIGHT + 1))


def test_only_the_missing_gradient_is_flagged(tmp_path: Path) -> None:
    model = load(f"onnx:{write(tmp_path / 'toy.onnx')}")
    flags = check(model, IMAGES, expected(IMAGES).argmax(1))
    assert [(flag.name, flag.level) for flag in flags] == [("not-differentiable", "warning")]


def test_what_is_no_onnx_file_of_images_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="there is no ONNX file"):
        load(f"onnx:{tmp_path / 'absent.onnx'}")
    (tmp_path / "text.onnx").write_text("hello")
    with pytest.raises(HoldfastError, match="cannot be read as ONNX"):
        load(f"onnx:{tmp_path / 'text.onnx'}")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Identity", ["x"], ["y"])],
        "flat",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, 3))],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (1, 3))],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.save_model(model, str(tmp_path / "flat.onnx"))
    with pytest.raises(HoldfastError, match="not images"):
        load(f"onnx:{tmp_path / 'flat.onnx'}")
