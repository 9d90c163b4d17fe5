"""What a person sees while it runs."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from holdfast.cli import progress as progress_module
from holdfast.cli.output import parse_share, print_json, seconds_text
from holdfast.cli.progress import LiveBars, LogLines, watching
from holdfast.core.errors import Misuse
from holdfast.core.intervals import wilson
from holdfast.core.refs import Run
from holdfast.core.registry import registry
from holdfast.engine.watch import Expected, Watcher


@pytest.fixture
def run() -> Run:
    return Run(registry.bind("model", "fashion-standard"), registry.scenario("fashion-mnist-2k"))


def told(watcher: Watcher, run: Run) -> None:
    watcher.planned([Expected("fashion-mnist-2k", 100)] * 2)
    for kept in (0, 40):
        watcher.began(run, 100, kept)
        watcher.advanced(run, 100 - kept, wilson(90, 100))
        watcher.ended(run, "measured", wilson(90, 100))
    watcher.note("out of memory")


def test_the_live_display_shows_pace_and_accuracy(run: Run) -> None:
    screen = io.StringIO()
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[standing]}"))
    with Progress(*columns, console=Console(file=screen, force_terminal=True, width=200)) as progress:
        live = LiveBars(progress)
        told(live, run)
        assert [task.completed for task in progress.tasks] == [2, 100]
        assert progress.tasks[1].fields["standing"] == "90.0 % [82.0, 94.8]"
    assert "fashion-standard · fashion-mnist-2k" in screen.getvalue()
    assert "out of memory" in screen.getvalue()


def test_a_log_gets_one_line_per_run(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(progress_module, "err", Console(file=screen, width=200))
    told(LogLines(), run)
    text = screen.getvalue()
    assert "1/2 fashion-standard under fashion-mnist-2k: 90.0 % [82.0, 94.8] (measured)" in text
    assert "40 of 100 samples are there already" in text


@pytest.mark.parametrize(
    ("quiet", "terminal", "kind"), [(True, True, Watcher), (False, True, LiveBars), (False, False, LogLines)]
)
def test_the_display_fits_the_place(quiet: bool, terminal: bool, kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "err", Console(file=io.StringIO(), force_terminal=terminal))
    with watching(quiet=quiet) as watcher:
        assert isinstance(watcher, kind)


def test_shares_are_read_as_people_write_them() -> None:
    assert parse_share("1%", "-p") == 0.01
    assert parse_share("0.5 %", "-p") == pytest.approx(0.005)
    assert parse_share("0.02", "-p") == 0.02
    assert parse_share(None, "-p") is None
    with pytest.raises(Misuse):
        parse_share("much", "-p")


def test_durations_are_said_in_the_fitting_unit() -> None:
    assert [seconds_text(s) for s in (0.5, 300, 7300)] == ["0.5 s", "5 min", "2.0 h"]


def test_json_has_no_nan(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": float("nan"), "b": [float("inf"), 1.0], "c": (1,)})
    assert '"a": null' in capsys.readouterr().out
