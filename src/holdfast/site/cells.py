"""The cells of a board on a page: the texts of `boards.board_text`, and the whole board in LaTeX."""

from __future__ import annotations

from holdfast.boards.board_text import bounds, disagreement, lack, number, tabular, text
from holdfast.boards.entries import Board
from holdfast.store.exporting import latex_table

__all__ = ["bounds", "disagreement", "lack", "latex", "number", "text"]


def latex(shown: Board) -> str:
    """The whole board as a LaTeX table, its footnotes as comments below."""
    made = tabular(shown)
    notes = "".join(f"% {note}\n" for note in made.notes)
    return latex_table(made.columns, made.rows, right=made.right) + notes
