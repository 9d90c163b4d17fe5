"""How a model behaves: what it answers on a few images, kept with its runs and compared before rows are used again.

Weights are part of a run's key. A model that is code can change without them: a live module, `python:`, a plug-in,
anything without parameters. Its answers on probe images are kept with every run, as a few numbers per image. Rows are
used again only where the answers now are those of then, up to what another device or batch size changes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.core.component_code import is_installed
from holdfast.core.errors import HoldfastError
from holdfast.core.refs import Ref, digest, parse_ref
from holdfast.core.registry import registry
from holdfast.core.types import Change, Classifier, Dataset
from holdfast.engine.device import Width
from holdfast.engine.order import chosen_samples
from holdfast.engine.second_probe import gradient_words, second_alike
from holdfast.engine.shards import on_device
from holdfast.store.footer import Footer

NOISY, REAL = 8, 32  # probe images of each sort: a change that touches one image in ten is missed with 3 %
PROJECTIONS = 3  # projections of each image's logits
TOLERANCE = 2e-4  # of the largest number: devices and batch sizes change logits in float32 by less than 1e-5
SPREAD = 10.0  # times what the batch size alone changes is tolerated: models in half precision
FORMER = 1 + (NOISY + 8) * (PROJECTIONS + 1)  # the length of a probe with 8 images of the dataset
Probe = tuple[float, ...]


class KnownBehaviour(NamedTuple):
    """A behaviour that a store has rows of."""

    name: str
    probe: Probe
    second: Probe = ()


def is_code(ref: Ref, weights: str, model: Classifier | None = None) -> bool:
    """Whether the model can change without its weights: `model`, where it is loaded, shows whose classes it is of."""
    if ref.kind == "object" or ref.name == "python" or not weights:
        return True
    if ref.name == "smoothed":
        return is_code(registry.bind("model", str(ref.arg("model"))), weights, model)
    named = [("model", ref.name)]
    if isinstance(built := dict(ref.args).get("architecture"), str):
        named.append(("architecture", parse_ref(built).name))
    if any(not registry.entry(*one).factory.__module__.startswith("holdfast.") for one in named):
        return True
    modules = {type(part).__module__ for part in model.modules()} if isinstance(model, torch.nn.Module) else ()
    return not all(map(is_installed, modules))


def probe_images(dataset: Dataset, device: torch.device) -> Tensor:
    """Noise, coarse noise and the first few images of the dataset's keyed order."""
    card = dataset.card
    draws = np.random.default_rng(zlib.crc32(b"probe"))
    shape = (NOISY // 2, card.channels)
    fine = torch.from_numpy(draws.random((*shape, *card.size), dtype=np.float32))
    coarse = torch.from_numpy(draws.random((*shape, 4, 4), dtype=np.float32))
    smooth = torch.nn.functional.interpolate(coarse, size=card.size, mode="bilinear")
    index = chosen_samples(dataset.ids, dataset.labels, REAL)
    real = on_device(dataset.images(index.tolist()).pixels, device)
    return torch.cat([fine.to(device), smooth.to(device), real])


def behaviour_probe(model: Classifier, images: Tensor) -> Probe:
    """The model's answers in a few numbers: first the tolerance, then projections of its logits, image by image."""

    def answered(width: int) -> NDArray[np.float64]:
        parts = [images[i : i + width] for i in range(0, len(images), width)]
        return np.concatenate([_projections(model(part.clone())) for part in parts])

    with torch.no_grad():
        together = Width(len(images)).recovering(answered, lambda _: None)
        alone = np.concatenate([_projections(model(images[i : i + 1].clone())) for i in (0, len(images) - 1)])
    moved = np.abs(alone - together[[0, -1]]) / _scales(together)[[0, -1]]
    tolerance = max(TOLERANCE, SPREAD * float(moved.max()))
    return (min(tolerance, 0.1), *(float(value) for value in together.ravel()))


def alike(one: Probe, other: Probe) -> bool:
    """Whether two probes are those of one behaviour."""
    shared = min(len(one), len(other))  # versions before 0.3 asked about fewer images, the first of these
    if shared != max(len(one), len(other)) and shared != FORMER:
        return False
    if shared <= 1:
        return shared == max(len(one), len(other))
    blank = (0.0,) * ((1 - shared) % (PROJECTIONS + 1))
    a, b = (np.array(each[1:shared] + blank).reshape(-1, PROJECTIONS + 1) for each in (one, other))
    return bool((np.abs(a - b) <= max(one[0], other[0]) * np.maximum(_scales(a), _scales(b))).all())


def matching_behaviour(probe: Probe, known: Iterable[KnownBehaviour], second: Probe = ()) -> str | None:
    """The name of the known behaviour that both probes belong to."""
    images = len(probe) // (PROJECTIONS + 1)

    def fits(one: KnownBehaviour) -> bool:
        return alike(probe, one.probe) and second_alike(second, one.second, max(probe[0], one.probe[0]), images=images)

    return next((one.name for one in known if fits(one)), None)


def behaviour_name(probe: Probe, second: Probe = (), taken: Collection[str] = ()) -> str:
    """A name for a behaviour that nobody has met: by its logits, and where another has that name, by more."""
    logits = [f"{value:.3g}" for value in probe[1:]]
    gradients = gradient_words(second, len(probe) // (PROJECTIONS + 1))
    names = (digest(words)[:12] for words in (logits, logits + gradients, [repr(probe), repr(second)]))
    return next(name for name in names if name not in taken)


def known_behaviours(
    footers: Iterable[Footer], model: str, weights: str, data: str, label_map: str
) -> list[KnownBehaviour]:
    """The behaviours that a store has rows of, for one model on one dataset; rows without a probe are none."""
    known: dict[str, KnownBehaviour] = {}
    for footer in footers:
        if (footer.model_full, footer.weights, footer.data, footer.answers) == (model, weights, data, label_map):
            one = KnownBehaviour(footer.behaviour, footer.probe, footer.second_probe)
            if one.second and not known.setdefault(one.name, one).second:
                known[one.name] = one
            known.setdefault(one.name, one)
    return list(known.values())


def _projections(logits: Tensor) -> NDArray[np.float64]:
    """Per image: keyed projections of the logits around their mean, and the largest of them."""
    values = np.nan_to_num(logits.detach().to("cpu", torch.float64).numpy(), nan=1e9, posinf=1e9, neginf=-1e9)
    values = values - values.mean(axis=1, keepdims=True)
    signs = np.random.default_rng(zlib.crc32(b"sights")).choice([-1.0, 1.0], (values.shape[1], PROJECTIONS))
    return np.column_stack([values @ signs / np.sqrt(values.shape[1]), values.max(axis=1)])


def _scales(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Per image the largest of its numbers, or what is usual: an image with huge logits hides no others."""
    own: NDArray[np.float64] = np.abs(values).max(axis=1, keepdims=True)
    return own.clip(min=max(float(np.median(own)), 1e-12))


TRIED = 8  # images looked at for one that can be read


class GradientCheck:
    """Refuses attacks that follow gradients where a model gives none; each model is tried once per size of images."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.tried: dict[tuple[int, tuple[int, int]], bool] = {}

    def refuse(self, model: Classifier, dataset: Dataset, changes: Sequence[tuple[Ref, Change]]) -> None:
        """Raises an error where one of the changes needs gradients that the model does not give."""

        def has_gradients() -> bool:
            key = (id(model), dataset.card.size)
            if key not in self.tried:
                images = (dataset.images([i]) for i in range(min(TRIED, len(dataset.ids))))
                image = next((on_device(each.pixels, self.device) for each in images if not each.failed), None)
                self.tried[key] = image is None or gives_gradients(model, image)
            return self.tried[key]

        refuse_without_gradients(model, changes, has_gradients)


def refuse_without_gradients(
    model: Classifier, changes: Sequence[tuple[Ref, Change]], has_gradients: Callable[[], bool]
) -> None:
    """Raises an error where one of the changes needs gradients and the model gives none."""
    needs = next((ref for ref, change in changes if change.cost.backwards), None)
    if needs is None or (model.card.differentiable and has_gradients()):
        return
    raise HoldfastError(
        f"`{model.card.name}` gives no gradients, which `{needs.name}` needs",
        hint="use corruptions and black-box attacks such as `square-linf`, or a model in which nothing (numpy, "
        "detach, no_grad) cuts the way from logits to images, such as `file:`, `python:` with plain torch",
    )


def gives_gradients(model: Classifier, images: Tensor) -> bool:
    """Whether a gradient of the logits reaches the images; a model that answers in no way is left to fail later."""
    leaf = images.detach().clone().requires_grad_()
    try:
        with torch.enable_grad():
            logits = model(leaf)
            if not logits.requires_grad:
                return False
            (gradient,) = torch.autograd.grad(logits.float().sum(), leaf, allow_unused=True)
    except Exception:  # noqa: BLE001 - other people's code; numpy refuses what has a gradient
        return not _gives_logits(model, images)
    return gradient is not None


def _gives_logits(model: Classifier, images: Tensor) -> bool:
    try:
        with torch.no_grad():
            model(images)
    except Exception:  # noqa: BLE001 - other people's code
        return False
    return True
