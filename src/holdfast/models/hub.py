"""Models of the Hugging Face hub by their id, at one revision."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.registry import register
from holdfast.core.types import Classifier
from holdfast.models.extras import optional
from holdfast.models.timm import timm_model
from holdfast.models.transformers import pretrained_classifier

EXAMPLE = "hub:timm/resnet18.a1_in1k,revision=COMMIT"


@register("model", "hub", source="https://huggingface.co/models")
def hub_model(
    name: str, *, revision: str | None = None, library: Literal["timm", "transformers"] | None = None
) -> Classifier:
    """A model of the hub at one revision: `hub:timm/resnet18.a1_in1k,revision=COMMIT`.

    timm or transformers makes it, as its `config.json` says, or `library`. The revision is part of the run's key.
    """
    if revision is None:
        raise Misuse(
            f"`hub:{name}` does not say which revision, and a branch may move",
            hint=f"revision=COMMIT{_known_commit(name)}; the page of the model lists them under Files, History",
        )
    chosen = library or _library(name, revision)
    if chosen == "timm":
        return timm_model(f"hf-hub:{name}@{revision}")
    return pretrained_classifier(name, revision=revision)


def _library(name: str, revision: str) -> str:
    config = _config(name, revision)
    if "pretrained_cfg" in config or "architecture" in config:
        return "timm"
    if "model_type" in config:
        return "transformers"
    raise HoldfastError(
        f"`{name}` is a model of neither timm nor transformers: its config.json names no architecture of theirs",
        hint="open-clip:hf-hub:NAME reads CLIP models; library=timm or library=transformers tries one of them",
    )


def _config(name: str, revision: str) -> dict[str, Any]:
    hub = optional("huggingface_hub", extra="timm")
    try:
        path = Path(hub.hf_hub_download(name, "config.json", revision=revision))
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except Exception as error:
        why = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        hint = (
            f"without a network: `hf download {name} --revision {revision}` where there is one, and copy the folder "
            "that HF_HOME names (~/.cache/huggingface)"
        )
        raise HoldfastError(f"the hub's `{name}` at {revision} cannot be had: {why}", hint=hint) from error
    return content


def _known_commit(name: str) -> str:
    """The commit that lies in the local cache, as an example; nothing where none does."""
    try:
        constants: Any = optional("huggingface_hub.constants", extra="timm")
        branch = Path(constants.HF_HUB_CACHE) / f"models--{name.replace('/', '--')}" / "refs" / "main"
        return f", such as the {branch.read_text(encoding='utf-8').strip()} that is in the cache"
    except (HoldfastError, OSError):
        return ""
