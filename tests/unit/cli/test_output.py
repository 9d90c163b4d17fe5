from __future__ import annotations

import pytest

from holdfast.cli.output import print_table


def test_a_list_in_a_ref_is_printed_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["scenario"], [["mix:[(cifar10),(mnist)],n=50"]])
    assert "mix:[(cifar10),(mnist)],n=50" in capsys.readouterr().out
