"""The charts of a page: for every kind of change its lines, and bars where there is one strength only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from holdfast.site import line_charts, wording
from holdfast.site.bars import OtherScore, bar
from holdfast.site.headline import Headline, headline
from holdfast.site.model_results import MeasuredRun, ModelResults
from holdfast.site.series import Series, series, unjoined, without_common_end
from holdfast.site.statements import TOPICS

WIDTHS = (1160, 358)  # a laptop's column and a phone's: text in a chart does not shrink with it
PANEL, WIDE_PANEL, MANY = 204, 300, 4
LETTERS = "ABCDEF"


@dataclass(frozen=True, slots=True)
class Panel:
    """A small chart with its caption."""

    label: str
    lowest: str
    drawing: Markup
    partial: bool


@dataclass(frozen=True, slots=True)
class Bar:
    """A run off every line, drawn as a bar."""

    run: MeasuredRun
    drawing: Markup


@dataclass(frozen=True, slots=True)
class Figure:
    """The charts of one kind of change along one axis, on one dataset."""

    title: str
    note: str = ""
    overviews: tuple[Markup, ...] = ()
    panels: tuple[Panel, ...] = ()
    bars: tuple[Bar, ...] = ()
    rivals: dict[str, str] = field(default_factory=dict)

    @property
    def has_many(self) -> bool:
        return len(self.panels) >= MANY


def letters(results: ModelResults) -> dict[str, str]:
    """The other models that are drawn, each with its letter."""
    return dict(zip(results.others, LETTERS, strict=False))


def report_figures(results: ModelResults) -> list[Figure]:
    """Every chart of the page, in reading order."""
    made: list[Figure] = []
    for dataset, runs in results.datasets.items():
        where = f" on {dataset}" if len(results.datasets) > 1 else ""
        clean = headline(runs, "undisturbed")
        for group in ("corrupted", "attacked", "both"):
            some = [run for run in runs if run.group == group]
            drawn = series(some, results.nearby, clean.run if clean is not None else None)
            for axis in ("severity", "radius"):
                along = [one for one in drawn if one.axis == axis]
                if along:
                    title = f"{TOPICS[group]}{where}: accuracy (%) against {axis}"
                    made.append(_lines(title, along, clean, letters(results), name=f"chart-{len(made)}"))
            rest = unjoined(some, drawn)
            if rest:
                made.append(_bars(f"{TOPICS[group]}{where}: measured at one strength", rest, letters(results)))
    return made


def _lines(
    title: str, along: Sequence[Series], clean: Headline | None, known: Mapping[str, str], *, name: str
) -> Figure:
    reference = clean.run.accuracy if clean is not None else None
    rivals = {model: letter for model, letter in known.items() if any(model in one.others for one in along)}
    in_one = along[0].axis == "severity" and len(along) > 1
    each = bool(rivals) or len(along) > line_charts.DISTINCT or not in_one
    along, always = without_common_end(along)
    overviews = [
        line_charts.overview(along, clean=reference, width=width, name=f"{name}-{width}", title=title)
        for width in WIDTHS
        if in_one
    ]
    width = PANEL if len(along) >= MANY else WIDE_PANEL
    panels = [
        Panel(
            label=one.label,
            lowest=f"{wording.percent_text(one.lowest.score)} at {one.lowest.where}",
            drawing=line_charts.panel(one, clean=reference, letters=rivals, name=f"{name}-panel-{i}", width=width),
            partial=any(point.partial for point in one.measured),
        )
        for i, one in enumerate(sorted(along, key=lambda one: one.label))
        if each
    ]
    note = _note(along, in_one, each)
    return Figure(
        title=title,
        note=f"Every line: {always}. {note}" if always else note,
        overviews=tuple(overviews),
        panels=tuple(panels),
        rivals=rivals,
    )


def _bars(title: str, runs: Sequence[MeasuredRun], known: Mapping[str, str]) -> Figure:
    made, met = [], set()
    for run in runs:
        rivals = [
            OtherScore(known[other.footer.model], other.footer.model, other.accuracy)
            for other in run.beside
            if other.footer.model in known and other.accuracy.n
        ]
        met |= {rival.name for rival in rivals}
        made.append(Bar(run, bar(run.accuracy, partial=run.footer.is_partial, rivals=rivals)))
    return Figure(title, bars=tuple(made), rivals={model: letter for model, letter in known.items() if model in met})


def _note(along: Sequence[Series], in_one: bool, each: bool) -> str:
    sentences = []
    if in_one and len(along) > line_charts.DISTINCT:
        lowest = f"The {line_charts.PICKED_OUT} lowest of {len(along)} lines"
        sentences.append(f"{lowest} are coloured; panels show intervals.")
    gaps = sum(any(point is None for point in one.own) for one in along)
    if gaps:
        is_dotted = "is" if gaps == 1 else "are"
        sentences.append(f"{wording.counted(gaps, 'line')} {is_dotted} dotted where a step was not measured.")
    if each and not in_one and along[0].axis == "radius" and len(along) > 1:
        sentences.append("Each attack has its own scale: radii of different threats do not compare.")
    return " ".join(sentences)
