"""What goes out: tidy records as CSV, JSON and LaTeX, and an entry as RobustBench's `model_info` has them."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.json_text import json_text
from holdfast.core.rounding import percent, shown
from holdfast.core.table import table
from holdfast.store.footer import Footer
from holdfast.store.model_facts import stored_facts
from holdfast.store.scores import FACT_PREFIX, TIDY, Scores, tidy
from holdfast.store.source_files import is_formula
from holdfast.store.store import Store

SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "β": r"$\beta$",
    "—": "---",
    "†": r"$\dagger$",
    "≈": r"$\approx$",
} | {sign: f"\\{sign}" for sign in "&%$#_{}"}


def measured(store: Store, *, models: Sequence[str] = ()) -> Scores:
    """The accuracy of every finished run, the largest choice of samples of each; its source is the run.

    Where a model was measured again, with other weights or another behaviour, the latest counts.
    """
    kept: dict[tuple[str, str], Footer] = {}
    footers = [footer for footer in store.scored_footers() if not models or footer.model in models]
    latest: dict[str, str] = {}
    for footer in footers:
        latest[footer.family] = max(latest.get(footer.family, ""), footer.finished)
    # in an order of their own: a store lists its files as they come
    for footer in sorted(footers, key=lambda f: (f.dataset, f.model, len(f.changes), f.scenario, f.key)):
        key = (footer.model, footer.scenario)
        if key not in kept or _rank(footer, latest) > _rank(kept[key], latest):
            kept[key] = footer
    values, counts = {}, {}
    sources: dict[str | tuple[str, str], str] = {}
    for key, footer in kept.items():
        right = footer.right
        if right is None:
            rows = store.read_or_tell(footer.key)
            if rows is None:
                continue
            right = int(rows.correct.sum())
        values[key], counts[key] = right / max(1, footer.n), footer.n
        part = f", {footer.n} of {footer.population} samples" if footer.is_partial else ""
        sources[key] = f"run {footer.key}{part}"
    known = stored_facts(store)
    facts = {model: known.get(model, {}) for model, _ in values}
    return Scores("measured", table(values, counts=counts, facts=facts, sources=sources))


def _rank(footer: Footer, latest: Mapping[str, str]) -> tuple[bool, str, int]:
    return not footer.is_weak, latest[footer.family], footer.n


def with_facts(scores: Scores) -> list[dict[str, object]]:
    """Tidy records with what is known of each model, a column per fact; `holdfast import tidy` reads them back."""
    facts = scores.table.facts
    names = dict.fromkeys(name for model in scores.table.models for name in facts.get(model, {}))
    columns = {name: f"{FACT_PREFIX}{name}" if name in TIDY else name for name in names}
    return [
        record | {columns[name]: facts.get(str(record["model"]), {}).get(name, "") for name in names}
        for record in tidy(scores)
    ]


def csv_text(records: Sequence[Mapping[str, object]]) -> str:
    """Records as CSV in which no text is read as a formula."""
    made = io.StringIO()
    if records:
        names = list(records[0])
        writer = csv.writer(made, lineterminator="\n")
        writer.writerow(map(plain_cell, names))
        writer.writerows([plain_cell(record.get(name)) for name in names] for record in records)
    return made.getvalue()


def plain_cell(value: object) -> object:
    """A text that a spreadsheet would take for a formula, behind an apostrophe; what else there is as it is."""
    if isinstance(value, list | dict):
        value = json_text(value)
    if isinstance(value, float):
        return value + 0.0  # -0.0 is 0.0
    if not isinstance(value, str):
        return value
    text = value.replace("\r\n", "\n").replace("\r", "\n")  # a carriage return is not quoted, and would end the line
    return f"'{text}" if is_formula(text) else text


def latex_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()) -> str:
    """A tabular in the rules of booktabs; every cell is escaped."""
    layout = "".join("r" if column in right else "l" for column in columns)
    lines = [" & ".join(map(escaped, row)) + r" \\" for row in [list(columns), *rows]]
    body = [rf"\begin{{tabular}}{{{layout}}}", r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule"]
    return "\n".join([*body, r"\end{tabular}"]) + "\n"


def escaped(text: str) -> str:
    """Text escaped for LaTeX."""
    return "".join(SPECIAL.get(sign, sign) for sign in text)


def latex_text(scores: Scores) -> str:
    """Models by settings, in the unit of each; blank where there is no number."""
    table = scores.table
    cells = {(record["model"], record["setting"]): shown(float(str(record["value"])), 2) for record in tidy(scores)}
    rows = [[model, *(cells.get((model, setting), "") for setting in table.settings)] for model in table.models]
    return latex_table(["model", *table.settings], rows, right=table.settings)


def robustbench_entry(store: Store, model: str) -> dict[str, object]:
    """A model as an entry of RobustBench's `model_info`: clean accuracy and AutoAttack on one dataset, in percent."""
    footers = [footer for footer in store.scored_footers() if footer.model == model]
    if not footers:
        raise unknown("measured model", model, {footer.model for footer in store.scored_footers()})
    attacked = [footer for footer in footers if [change.name for change in footer.changes] in AUTOATTACKS]
    if len(attacked) != 1:
        scenarios = ", ".join(footer.scenario for footer in attacked) or "none"
        raise HoldfastError(
            f"an entry needs `{model}` under one AutoAttack, found: {scenarios}",
            hint="evaluate it under DATASET+autoattack-linf:radius=8/255, or give a store with one of them",
        )
    attack = attacked[0]
    clean = [footer for footer in footers if footer.dataset == attack.dataset and not footer.changes]
    if not clean:
        raise HoldfastError(f"`{model}` was not measured on `{attack.dataset}` without an attack")
    best = max(clean, key=lambda footer: footer.n)
    notes = [
        f"{footer.scenario} on {footer.n} of {footer.population}" for footer in (best, attack) if footer.is_partial
    ]
    card = attack.card
    return {
        "link": card.paper or None,
        "name": card.name,
        "authors": None,
        "additional_data": None,
        "number_forward_passes": 1,
        "dataset": attack.dataset,
        "venue": None,
        "architecture": card.source,
        "eps": _radius(attack),
        "clean_acc": _percent(store, best),
        "reported": None,
        "autoattack_acc": _percent(store, attack),
        "footnote": "; ".join(notes) or None,
    }


AUTOATTACKS = [[f"autoattack-{norm}"] for norm in ("linf", "l2", "l1")]


def _percent(store: Store, footer: Footer) -> str:
    return percent(float(store.read(footer.key).correct.mean()), 2)


def _radius(footer: Footer) -> str | None:
    text = footer.changes[0].text
    return next((part.split("=")[1] for part in text.split(":")[-1].split(",") if part.startswith("radius=")), None)


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()) -> str:
    """A table in GitHub's Markdown."""
    rule = ["---:" if column in right else "---" for column in columns]
    lines = [columns, rule, *rows]
    return "".join("| " + " | ".join(_markdown(cell) for cell in line) + " |\n" for line in lines)


def _markdown(cell: str) -> str:
    return cell.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
