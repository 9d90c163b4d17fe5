"""Lets peers import torchvision where its compiled part does not load; peers call none of the operators here."""

from __future__ import annotations

import torch

_declared: list[torch.library.Library] = []  # a declaration is undone when it is collected


def declare_torchvision_operators() -> None:
    library = torch.library.Library("torchvision", "FRAGMENT")
    for operator in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, operator):
            library.define(f"{operator}(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    _declared.append(library)
