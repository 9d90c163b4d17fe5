"""The commands that read a store: status, verify, scores, compare, explain."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.deciding import (
    ByOption,
    JunitOption,
    decide,
    errors_are_no_verdict,
    refuse_gaps,
    refuse_unjudged,
)
from holdfast.cli.output import (
    STORE,
    JsonOption,
    MarkdownOutput,
    ModelsOption,
    Output,
    StoreOption,
    err,
    interval,
    open_store,
    out,
    parse_share,
    print_json,
    print_table,
    tell_failures,
    warn,
)
from holdfast.core.errors import Misuse, NoLabels
from holdfast.core.rounding import percent

if TYPE_CHECKING:
    from holdfast.store import Store

Runs = Annotated[
    list[str] | None, typer.Option("--scenario", help="Only these scenarios; `*` stands for anything: '*pgd*'.")
]

BOUNDS = ("value", "low", "high")


def status_command(store: StoreOption = STORE, json: JsonOption = False) -> None:
    """How far the runs of a store are."""

    kept = open_store(store)
    under_way = kept.unfinished()
    finished = kept.footers()  # afterwards: a run that is finished meanwhile is in one of them
    standing = [(key, footer, "done", footer.n, footer.n, footer.seconds) for key, footer in sorted(finished.items())]
    for key, parts in under_way.items():
        if key not in finished:
            footer, ids = parts[0].footer, {name for rows in parts for name in rows.ids}
            seconds, most = sum(rows.footer.seconds for rows in parts), footer.samples or footer.population
            standing.append((key, footer, "under way", len(ids), most, seconds))
    records = [
        {"run": key, "model": run.model, "scenario": run.scenario, "state": state, "rows": n, "of": of, "seconds": took}
        for key, run, state, n, of, took in standing
    ]
    if json:
        print_json({"store": store, "runs": records, "leftovers": kept.files.leftovers()})
        return
    if not records:
        out.print(f"no runs in {store}")
        return
    columns = ["run", "model", "scenario", "state", "rows", "of"]
    print_table(columns, [[str(record[name])[:80] for name in columns] for record in records], right=["rows", "of"])
    done = sum(record["state"] == "done" for record in records)
    out.print(f"\n{done} done, {len(records) - done} under way, {sum(int(str(r['rows'])) for r in records):,} rows")


def verify_command(store: StoreOption = STORE, json: JsonOption = False) -> None:
    """Check every file of a store: digests, and what is derived against the rows. Exit 1 where one is not sound."""
    kept = open_store(store)
    findings, leftovers = kept.verify(), kept.files.leftovers()
    bad = [finding for finding in findings if finding.problem is not None]
    if json:
        print_json({"store": store, "files": [asdict(finding) for finding in findings], "leftovers": leftovers})
    else:
        for finding in bad:
            kind = "damaged" if finding.is_damaged else "left aside"
            out.print(f"{kind}: {finding.problem}", markup=False, soft_wrap=True)
        for name in leftovers:
            out.print(f"left by a writer that died, never read, safe to delete: {name}", markup=False, soft_wrap=True)
        for is_derived, words in ((False, "files sound"), (True, "galleries and indexes fit them")):
            these = [finding for finding in findings if finding.is_derived is is_derived]
            sound = sum(finding.problem is None for finding in these)
            rows = f", {sum(finding.rows for finding in these):,} rows" if not is_derived else ""
            if these or not is_derived:
                out.print(f"{sound} of {len(these)} {words}{rows}")
        if any(finding.is_damaged for finding in bad):
            err.print("hint: `holdfast evaluate` with the same arguments moves a damaged file aside and measures again")
    if bad:
        raise typer.Exit(1)


def scores_command(
    *,
    store: StoreOption = STORE,
    model: ModelsOption = None,
    scenario: Runs = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(help="A score by the name of a metric (`holdfast list metrics`); several may be given."),
    ] = None,
    reference: Annotated[
        str | None, typer.Option(help="What a metric compares with; without it, the dataset without a change.")
    ] = None,
    benchmark: Annotated[
        str | None, typer.Option(help="Score a printed or imported table instead; --scenario names its settings.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every choice of samples, not only the largest.")] = False,
    fail_under: Annotated[str | None, typer.Option(help="Exit 1 where an accuracy is under this, e.g. 40%.")] = None,
    by: ByOption = "interval",
    junit: JunitOption = None,
    how: MarkdownOutput,
) -> None:
    """Accuracy of every run with its interval, n, failures and flags; with --fail-under, a decision."""
    with errors_are_no_verdict(fail_under is not None):
        from holdfast.cli.scoring import ScoreRequest, results, show_results, split_metrics, with_several
        from holdfast.metrics.decisions import judged_by, under
        from holdfast.metrics.run_scores import run_scores
        from holdfast.metrics.summary import NO_SCORE, lines, unlabelled
        from holdfast.store.stored_names import matching_scenarios, stored_model, stored_scenarios

        if junit is not None and fail_under is None:
            raise Misuse("--junit writes decisions", hint="say what to decide: --fail-under 40%")
        least, way = parse_share(fail_under, "--fail-under"), judged_by(by)
        if least is not None and not 0 <= least <= 1:
            raise Misuse(f"--fail-under is a share such as 40% or 0.4, got `{fail_under}`")
        kept = open_store(store)
        scenario = matching_scenarios(kept, scenario or ()) if benchmark is None else scenario
        asked = ScoreRequest(model or (), scenario or (), reference, benchmark)
        of_one, others = split_metrics(metric or (), asked)
        multi_run = results(kept, others, asked)
        if multi_run and not of_one:
            show_results(multi_run, replace(how, markdown=False))
            return
        models = [stored_model(kept, text) for text in model or ()]
        made = lines(kept, models=models, scenarios=scenario or (), best_only=not every)
        answers_alone = unlabelled(kept, models=models, scenarios=scenario or (), best_only=not every)
        if answers_alone:
            some = f"{answers_alone[0].model} under {answers_alone[0].scenario}"
            without = f"{len(answers_alone)} runs have no labels ({some}{', …' if len(answers_alone) > 1 else ''})"
            if least is not None:
                raise NoLabels(f"{without}, so nothing can be said of their accuracy", hint="choose others: --scenario")
            err.print(f"{without}; {NO_SCORE}", markup=False, soft_wrap=True)
        if least is not None:
            refuse_gaps(kept, made, models, scenario or ())
        stored_reference = stored_scenarios(kept, [reference])[reference] if reference else None
        more = run_scores(kept, [each.footer.key for each in made], of_one, reference=stored_reference)
        for note in more.notes:
            warn(note)
        if how.json or how.csv:
            records = [each.record() | more.record(each.footer.key) for each in made]
            if multi_run:
                with_several(records, multi_run, csv=how.csv)
            how.data(records)
            if least is not None:
                decide("holdfast scores", under(made, least, way), junit=junit, markdown=False)
            return
        if not made:
            out.print(f"no finished runs {'with labels ' if answers_alone else ''}in {store}")
            return
        how.table(
            ["model", "scenario", "right", *more.names, "n", "top 5", "failed", "flags", "run"],
            [
                [
                    each.footer.model,
                    each.footer.scenario,
                    interval(each.accuracy),
                    *more.texts(each.footer.key),
                    f"{each.accuracy.n:,}" + (f" of {each.footer.population:,}" if each.footer.is_partial else ""),
                    "" if each.top5 is None else f"{percent(each.top5.value)} %",
                    str(each.failed),
                    ", ".join(flag.name for flag in each.flags),
                    each.footer.key[:10],
                ]
                for each in made
            ],
            right=["n", "top 5", "failed"],
        )
        for name, why in more.reasons():
            err.print(f"{name} without an interval: {why}", markup=False, soft_wrap=True)
        if multi_run:
            show_results(multi_run, replace(how, markdown=False))
        if least is not None:
            decide("holdfast scores", under(made, least, way), junit=junit, markdown=how.markdown)


def compare_command(
    *,
    one: Annotated[str, typer.Argument(help="A model, as in `holdfast scores`.")],
    other: Annotated[str, typer.Argument(help="The model to compare it with.")],
    store: StoreOption = STORE,
    scenario: Runs = None,
    benchmark: Annotated[
        str | None, typer.Option(help="Compare printed or imported scores of this benchmark instead.")
    ] = None,
    fail_if_worse: Annotated[
        bool, typer.Option("--fail-if-worse", help="Exit 1 where the first model is worse than the second.")
    ] = False,
    by: ByOption = "interval",
    junit: JunitOption = None,
    how: MarkdownOutput,
) -> None:
    """Two models sample by sample, under every scenario both were measured under; --fail-if-worse decides."""
    with errors_are_no_verdict(fail_if_worse):
        from holdfast.metrics.compare import comparisons
        from holdfast.metrics.decisions import judged_by, worse
        from holdfast.store.stored_names import matching_scenarios, stored_model

        if junit is not None and not fail_if_worse:
            raise Misuse("--junit writes decisions", hint="say what to decide: --fail-if-worse")
        way, kept = judged_by(by), open_store(store)
        if benchmark is not None:
            if fail_if_worse:
                raise Misuse("--fail-if-worse compares runs sample by sample", hint="leave --benchmark out")
            _compare_scores(kept, benchmark, one, other, scenario or [], replace(how, markdown=False))
            return
        one, other = stored_model(kept, one), stored_model(kept, other)
        chosen = matching_scenarios(kept, scenario or ())
        made = comparisons(kept, one, other, scenarios=chosen)
        judged, labelled = {each.scenario for each in made}, set[str]()
        for name in chosen if fail_if_worse else ():
            if name not in judged:
                raise Misuse(
                    f"`{one}` and `{other}` were not both measured under `{name}`", hint="evaluate both under it"
                )
        tell_failures(kept, {one, other})
        if fail_if_worse and not chosen:
            labelled = {each.scenario for each in kept.footers().values() if each.model == other and each.has_labels}
        unjudged = sorted(labelled - judged)
        if unjudged:
            warn(f"not judged, since {one} was not measured under them: {', '.join(unjudged)}")
        counts = ["only first right", "only second right", "p (McNemar)"]
        how.show(
            [each.record() for each in made],
            ["scenario", one, other, "difference, points", *counts, "verdict"],
            [
                [
                    each.scenario,
                    interval(each.one),
                    interval(each.other),
                    "{:+.1f} [{:+.1f}, {:+.1f}]".format(*(100 * getattr(each.difference, part) for part in BOUNDS)),
                    str(each.only_one),
                    str(each.only_other),
                    f"{each.chance:.2g}",
                    each.verdict + (f" ({each.left_out} left out)" if each.left_out else ""),
                ]
                for each in made
            ],
            right=counts,
        )
        if fail_if_worse:
            is_read = how.markdown and not how.json and not how.csv
            decide("holdfast compare", worse(made, one, other, way), junit=junit, markdown=is_read)
            refuse_unjudged(one, unjudged)


def _compare_scores(store: Store, benchmark: str, one: str, other: str, settings: list[str], how: Output) -> None:
    """Two models of a table, setting by setting; an interval where the counts are known, as for other samples."""
    from holdfast.boards.benchmark_tables import benchmark_scores
    from holdfast.metrics.compare import unpaired

    scores = benchmark_scores(benchmark, store)
    made = unpaired(scores, one, other, settings=settings)
    numbers = [one, other, "difference", "p (score test)"]
    rows = [[each.setting, *each.texts(), each.unit, each.verdict] for each in made]
    columns = ["setting", *numbers, "unit", "verdict"]
    if how.show([each.record() for each in made], columns, rows, right=numbers):
        err.print("printed or imported scores: not paired, an interval only where the count is known")


def explain_command(
    run: Annotated[str, typer.Argument(help="A run's key or its beginning, as in `holdfast scores`.")],
    sample: Annotated[str, typer.Argument(metavar="ID", help="A sample's id.")],
    store: StoreOption = STORE,
    out_dir: Annotated[Path | None, typer.Option("--out", "-o", help="Write before.png and after.png here.")] = None,
    npz: Annotated[
        Path | None, typer.Option(help="Write both images here as float32, exactly as they were scored.")
    ] = None,
    device: Annotated[str, typer.Option()] = "auto",
    trust: Annotated[
        bool, typer.Option("--trust", help="Run the code that the store names as its model: `python:`, a plug-in.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """One sample made again: before, after, logits."""
    from holdfast.engine.gallery import explain as explained

    made = explained(open_store(store), run, sample, device=device, trust=trust)
    if out_dir is not None:
        out_dir.mkdir(parents=True, exist_ok=True)
        (out_dir / "before.png").write_bytes(made.before)
        (out_dir / "after.png").write_bytes(made.after)
        err.print(f"wrote {out_dir / 'before.png'} and {out_dir / 'after.png'}")
    if npz is not None:
        import numpy as np

        npz.parent.mkdir(parents=True, exist_ok=True)
        with npz.open("wb") as file:
            np.savez(file, before=made.pixels_before, after=made.pixels_after, logits=np.array(made.logits))
        err.print(f"wrote {npz}: float32, as scored; PNG files are rounded to 8 bits, and can be right again")
    ranked = sorted(zip(made.classes, made.logits, strict=False), key=lambda pair: -pair[1])
    if json:
        names = ("id", "label", "prediction", "size", "reason", "as_stored")
        print_json({name: getattr(made, name) for name in names} | {"logits": dict(ranked)})
        return
    out.print(f"{made.id}: {made.label or 'no label'}, predicted {made.prediction or 'nothing usable'}", markup=False)
    if made.size is not None:
        out.print(f"size of the perturbation {made.size:.4g}")
    if made.reason is not None:
        out.print(f"failed: {made.reason}", markup=False)
    print_table(["class", "logit"], [[name, f"{value:.3f}"] for name, value in ranked[:10]], right=["logit"])
    if not made.as_stored:
        out.print("the prediction differs from the stored row: another device, or logits that tie within rounding")
