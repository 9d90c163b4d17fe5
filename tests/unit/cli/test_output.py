from __future__ import annotations

import pytest

from holdfast.cli import output
from holdfast.cli.output import print_table


def test_a_list_in_a_ref_is_printed_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["scenario"], [["mix:[(cifar10),(mnist)],n=50"]])
    assert "mix:[(cifar10),(mnist)],n=50" in capsys.readouterr().out


def test_a_long_table_has_the_same_cells(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [["a", "[1/255]", "7"], ["longer", "b", "12"]]
    print_table(["model", "scenario", "n"], rows, right=["n"])
    short = capsys.readouterr().out
    monkeypatch.setattr(output, "LONG", 1)
    print_table(["model", "scenario", "n"], rows, right=["n"])
    long = capsys.readouterr().out
    assert [line.rstrip() for line in short.splitlines()] == long.splitlines()
