"""Samples to look at: any sample can be made again, before and after, because every draw is keyed."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.refs import Ref, Scenario
from holdfast.core.registry import registry
from holdfast.engine.device import Width, full_precision, pick_device
from holdfast.engine.jobs import Job, ModelLoader, RunOptions
from holdfast.engine.measure import Measured
from holdfast.store import Rows, Store
from holdfast.store.files import NoRoom
from holdfast.store.footer import Footer
from holdfast.store.store import Picture

PROGRAMS = ("python", "pt2", "torchscript")  # model sources that run what they name


@dataclass(frozen=True, slots=True)
class Explained:
    """One sample of a run, made again."""

    id: str
    label: str | None
    prediction: str | None
    logits: tuple[float, ...]
    classes: tuple[str, ...]
    size: float | None
    reason: str | None
    before: bytes
    after: bytes
    as_stored: bool
    pixels_before: NDArray[np.float32]
    pixels_after: NDArray[np.float32]


def add_pictures(store: Store, job: Job, rows: Rows, device: torch.device, width: Width, count: int) -> None:
    """Keeps the most confidently wrong samples of a run as pictures for its report, first those right undisturbed."""
    if not rows.has_labels:
        return
    worst = most_wrong(rows, count, right_before=right_undisturbed(store, rows) if rows.footer.changes else None)
    if worst:
        pictures = _pictures(worst, job.measured(worst, device, width.value))
        store.add_pictures(job.run.key, pictures, rows=rows.footer.digest)


def mend_pictures(
    store: Store, job: Callable[[], Job], rows: Rows, device: torch.device, count: int, note: Callable[[str], None]
) -> None:
    """Makes the pictures of a finished run again where they are missing or damaged; the run is done without them.

    `job` gives the run with its model loaded, which is not needed where nothing is missing.
    """
    if not count or not rows.has_labels or store.has_pictures(rows.footer.key, rows=rows.footer.digest):
        return
    if not most_wrong(rows, 1):
        return
    try:
        add_pictures(store, job(), rows, device, Width(count), count)
    except NoRoom:
        raise
    except Exception as error:  # noqa: BLE001 - models and plug-ins are other people's code
        note(f"no pictures of run {rows.footer.key}: {error}")


def most_wrong(rows: Rows, count: int, *, right_before: set[str] | None = None) -> list[str]:
    """Ids of the samples on which the model is wrong by the widest margin; those that were right before come first."""
    margin = rows.floats("prediction_logit") - rows.floats("label_logit")
    margin[rows.correct | np.isnan(margin)] = -np.inf
    turned = np.array([right_before is not None and name in right_before for name in rows.ids], dtype=bool)
    order = np.lexsort((-margin, ~(turned & np.isfinite(margin))))[:count]
    return [rows.ids[i] for i in order if np.isfinite(margin[i])]


def right_undisturbed(store: Store, rows: Rows) -> set[str] | None:
    """The samples that the same model gets right without any change, by a finished run; None where there is none.

    Without one, those that an attack changed: it leaves alone what is wrong before it.
    """
    footer = rows.footer
    same = [one for one in store.footers().values() if not one.changes and _identity(one) == _identity(footer)]
    clean = store.read_or_tell(max(same, key=lambda one: (one.n, one.finished)).key) if same else None
    if clean is not None:
        return {name for name, right in zip(clean.ids, clean.correct, strict=True) if right}
    if not footer.is_attacked:
        return None
    return {name for name, size in zip(rows.ids, rows.floats("size"), strict=True) if size > 0}


def _identity(footer: Footer) -> tuple[str, str, str, str]:
    return (footer.dataset, footer.data, footer.weights, footer.model_full)


def explain(store: Store, key: str, sample: str, *, device: str = "auto", trust: bool = False) -> Explained:
    """One sample of a run made again: before, after, logits, and whether it agrees with the stored row.

    The model is what the store names. Only with `trust` may that be code: `python:`, or a model of a plug-in.
    """
    stored = stored_job(store, key, device=device, trust=trust)
    rows, job, footer = stored.rows, stored.job, stored.rows.footer
    if sample not in rows.ids:
        raise unknown(f"sample in run {footer.key}", sample, rows.ids[:2000])
    with full_precision():
        measured = job.measured([sample], stored.device, 1)
    predictions = measured.predictions()
    names = footer.classes or tuple(str(i) for i in range(footer.card.classes))
    picture = _pictures([sample], measured)[0]
    logits = predictions.logits[0]
    prediction = int(logits.argmax()) if np.isfinite(logits).all() else None
    as_then = rows.predictions[rows.ids.index(sample)]
    return Explained(
        id=sample,
        label=_name(names, int(predictions.labels[0])) if rows.has_labels else None,
        prediction=None if prediction is None else _name(names, prediction),
        logits=tuple(map(float, logits)),
        classes=names,
        size=None if np.isnan(predictions.sizes[0]) else float(predictions.sizes[0]),
        reason=predictions.reasons[0],
        before=picture.before,
        after=picture.after,
        as_stored=bool(as_then == prediction) if prediction is not None else bool(np.isnan(as_then)),
        pixels_before=measured.before[0].cpu().numpy(),
        pixels_after=measured.after[0].cpu().numpy(),
    )


class StoredJob(NamedTuple):
    """A finished run that can be made again: its rows, and the job with its model loaded."""

    rows: Rows
    job: Job
    device: torch.device


def stored_job(store: Store, key: str, *, device: str, trust: bool) -> StoredJob:
    """The job of a run by its key or the beginning of it; an error where it could not give the same rows."""
    footers = store.footers()
    matching = [full for full in footers if full.startswith(key)]
    if len(matching) != 1:
        raise unknown("run", key, footers, otherwise="`holdfast scores --json` lists the runs")
    rows = store.read(matching[0])
    footer = rows.footer
    if footer.source_is_memory:
        raise HoldfastError(
            f"run {footer.key} cannot be made again: its model or its images were in memory",
            hint="holdfast.attack(net, images, labels, …).images gives them in Python",
        )
    model, scenario = registry.bind("model", footer.model_full), registry.scenario(footer.scenario_full)
    if not trust:
        _refuse_code(model, scenario, footer.key)
    loader = ModelLoader(pick_device(device), store)
    job = loader.job(model, scenario, RunOptions(footer.seed, footer.samples, footer.precision, logits=footer.logits))
    if job.run.family != footer.family:
        raise HoldfastError(
            f"run {footer.key} cannot be made again: its weights, data or component versions have changed since",
            hint=f"evaluate it anew: {footer.command}",
        )
    return StoredJob(rows, job, loader.device)


def _refuse_code(model: Ref, scenario: Scenario, key: str) -> None:
    """Refuses a model that is code from outside this package or a program in a file, and `python:` inside any ref."""
    made_here = registry.entry("model", model.name).factory.__module__.partition(".")[0] == "holdfast"
    named = [ref for ref in (model, *scenario.parts) if ref.name in PROGRAMS or "python:" in ref.full]
    if named or not made_here:
        raise HoldfastError(
            f"run {key} names code to run: `{(named or [model])[0]}`",
            hint="if you trust the store and that code, say so with --trust (in Python: trust=True)",
        )


def png(image: Tensor) -> bytes:
    """An image (CHW, in [0, 1]) as PNG bytes."""
    pixels = (image.clamp(0, 1) * 255).round().to(torch.uint8).permute(1, 2, 0).cpu().numpy()
    buffer = io.BytesIO()
    Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels[:, :, :3]).save(buffer, "PNG")
    return buffer.getvalue()


def _pictures(ids: Sequence[str], measured: Measured) -> list[Picture]:
    return [Picture(name, png(measured.before[i]), png(measured.after[i])) for i, name in enumerate(ids)]


def _name(names: Sequence[str], label: int) -> str:
    return names[label] if label < len(names) else str(label)
