"""Words of other libraries for what has another name here."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from pathlib import Path

from holdfast.core.errors import Misuse, did_you_mean
from holdfast.core.values import shortened, value_text

SYNONYMS: dict[str, tuple[str, ...]] = {  # words of other libraries → ours, the first that the component has
    **dict.fromkeys(("eps", "epsilon", "epsilons", "max_norm", "norm_bound"), ("radius", "radii")),
    **dict.fromkeys(("alpha", "eps_iter", "eps_step", "stepsize", "lr"), ("step_size", "share")),
    **dict.fromkeys(("nb_iter", "n_iter", "num_iter", "max_iter", "iterations", "iters", "num_steps"), ("steps",)),
    **dict.fromkeys(("n_queries", "num_queries", "max_queries", "query_limit"), ("queries", "steps")),
    **dict.fromkeys(("n_restarts", "num_restarts", "nb_random_init", "num_random_init"), ("restarts",)),
    **dict.fromkeys(("decay", "mu"), ("momentum",)),
    **dict.fromkeys(("n_target_classes", "num_targets"), ("targets",)),
    **dict.fromkeys(("level", "strength"), ("severity", "radius")),
}
NORMS = {"inf": "linf", "l2": "l2", "l1": "l1"}  # how others write a norm → ours
NORM_PARAMETERS = ("norm", "norm_type", "ord", "p")
READERS = {  # by kind: sources that read a path, by how it ends
    "model": {
        ".onnx": "onnx:{path}",
        ".pt2": "pt2:{path}",
        ".py": "python:{stem}:FUNCTION",
        ".safetensors": "file:{path}",
        **dict.fromkeys((".pt", ".pth", ".bin", ".ckpt", ".tar"), "file:{path},architecture=resnet18-cifar"),
    },
    "dataset": {
        ".csv": "csv:{path},size=224",
        ".tar": "webdataset:{path}",
        **dict.fromkeys((".npz", ".npy"), "arrays:{path}"),
    },
}
FOLDERS = {"model": "transformers:{path}", "dataset": "folder:{path},size=224"}  # sources that read a folder
ATTACKS = {  # parts of other libraries' names → ours
    "autoattack": "autoattack-{norm}",
    "apgd": "apgd-ce-{norm}",
    "pgd": "pgd-{norm}",
    "projectedgradient": "pgd-{norm}",
    "fastgradient": "fgsm",
    "bim": "pgd-{norm}",
    "square": "square-{norm}",
    "fab": "fab-{norm}",
    "carlini": "cw-linf",
    "cw": "cw-linf",
}


def parameter_hint(kind: str, name: str, known: Collection[str], usage: str) -> str:
    """What to say of a parameter that a component has not: our word for it, the nearest one, or how it is written."""
    ours = next((word for word in SYNONYMS.get(name.lower(), ()) if word in known), None)
    if ours is not None:
        return f"here it is `{ours}`: {usage}"
    if kind == "attack" and name.lower() in NORM_PARAMETERS:
        return "the norm is part of an attack's name, as in `pgd-linf`, `pgd-l2` and `pgd-l1`"
    return did_you_mean(name, known) or usage


def attack_of_others(name: str) -> str | None:
    """A hint at what an attack of another library is called here."""
    norm = next((ours for theirs, ours in NORMS.items() if theirs in name.lower()), "linf")
    attack = next((ours for theirs, ours in ATTACKS.items() if theirs in name.lower()), None)
    return None if attack is None else f"did you mean `{attack.format(norm=norm)}`?"


def of_another_kind(kind: str, other: str, name: str) -> Misuse:
    """The error for a component in the position of one of another kind."""
    if kind == "dataset" and other in ("attack", "corruption"):
        article = "an attack" if other == "attack" else "a corruption"
        hint = f"a scenario starts with its images: `fashion-mnist-2k+{shortened(name)}`"
        return Misuse(f"`{shortened(name)}` is {article}: put a dataset before it", hint=hint)
    if kind == "change":
        hint = "a scenario has one dataset, before its changes; give several scenarios for several datasets"
        return Misuse(f"`{shortened(name)}` is a dataset: it cannot follow another part", hint=hint)
    return Misuse(f"`{shortened(name)}` is a {other}, not a {kind}", hint=f"`holdfast list {kind}s`")


def read_by(kind: str, name: str) -> str | None:
    """The ref of the source that reads an existing file given as a name, where its ending tells all that is needed."""
    source = READERS.get(kind, {}).get(Path(name).suffix.lower(), "")
    with contextlib.suppress(OSError, ValueError):
        if source.endswith(":{path}") and Path(name).is_file():
            return source.format(path=value_text(name))
    return None


def name_hint(kind: str, name: str) -> str | None:
    """A hint at our name for an attack of another library, or at the source that reads a path given as a name."""
    if kind == "attack":
        return None if name.islower() else attack_of_others(name)
    path = Path(name)
    source = READERS.get(kind, {}).get(path.suffix.lower())
    with contextlib.suppress(OSError, ValueError):  # what no disk can have is no path
        if source is None and kind in FOLDERS and path.is_dir():
            source = FOLDERS[kind]
    return (
        None if source is None else f"a path needs a source that reads it: `{source.format(path=name, stem=path.stem)}`"
    )
