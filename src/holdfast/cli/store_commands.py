"""The commands that read a store: status, verify, scores, compare, explain."""

from __future__ import annotations

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
    CsvOption,
    JsonOption,
    LatexOption,
    MarkdownOption,
    StoreOption,
    err,
    interval,
    open_store,
    out,
    parse_share,
    print_json,
    print_records,
    print_table,
    show_table,
    tell_failures,
    warn,
)
from holdfast.core.errors import Misuse, NoLabels
from holdfast.core.rounding import percent

if TYPE_CHECKING:
    from holdfast.core.types import Score
    from holdfast.store import Footer, Store

Runs = Annotated[
    list[str] | None, typer.Option("--scenario", help="Only these scenarios; `*` stands for anything: '*pgd*'.")
]


def status_command(store: StoreOption = STORE, json: JsonOption = False) -> None:
    """How far the runs of a store are."""

    kept = open_store(store)
    under_way = kept.unfinished()
    finished = kept.footers()  # afterwards: a run that is finished meanwhile is in one of them
    records = [_run_record(key, f, "done", f.n, f.n, f.seconds) for key, f in sorted(finished.items())]
    for key, parts in under_way.items():
        if key not in finished:
            footer, ids = parts[0].footer, {name for rows in parts for name in rows.ids}
            seconds = sum(rows.footer.seconds for rows in parts)
            most = footer.samples or footer.population
            records.append(_run_record(key, footer, "under way", len(ids), most, seconds))
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


def _run_record(run: str, footer: Footer, state: str, rows: int, of: int, seconds: float) -> dict[str, object]:
    about = {"run": run, "model": footer.model, "scenario": footer.scenario}
    return about | {"state": state, "rows": rows, "of": of, "seconds": seconds}


def verify_command(store: StoreOption = STORE, json: JsonOption = False) -> None:
    """Check every file of a store: digests, and what is derived against the rows. Exit 1 where one is not sound."""
    from dataclasses import asdict

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
    store: StoreOption = STORE,
    model: Annotated[list[str] | None, typer.Option("--model", help="Only these models.")] = None,
    scenario: Runs = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric", help="A score by the name of a metric (`holdfast list metrics`); several may be given."
        ),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option("--reference", help="What a metric compares with; without it, the dataset without a change."),
    ] = None,
    benchmark: Annotated[
        str | None,
        typer.Option("--benchmark", help="Score a printed or imported table instead; --scenario names its settings."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every choice of samples, not only the largest.")] = False,
    fail_under: Annotated[
        str | None, typer.Option("--fail-under", help="Exit 1 where an accuracy is under this, e.g. 40%.")
    ] = None,
    by: ByOption = "interval",
    junit: JunitOption = None,
    csv: CsvOption = False,
    latex: LatexOption = False,
    markdown: MarkdownOption = False,
    json: JsonOption = False,
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
            show_results(multi_run, csv=csv, latex=latex, json=json)
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
        if json or csv:
            records = [each.record() | more.record(each.footer.key) for each in made]
            if multi_run:
                with_several(records, multi_run, csv=csv)
            print_records(records, json=json, csv=csv)
            if least is not None:
                decide("holdfast scores", under(made, least, way), junit=junit, markdown=False)
            return
        if not made:
            out.print(f"no finished runs {'with labels ' if answers_alone else ''}in {store}")
            return
        show_table(
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
            latex=latex,
            markdown=markdown,
        )
        for name, why in more.reasons():
            err.print(f"{name} without an interval: {why}", markup=False, soft_wrap=True)
        if multi_run:
            show_results(multi_run, csv=False, latex=latex, json=False)
        if least is not None:
            decide("holdfast scores", under(made, least, way), junit=junit, markdown=markdown)


def compare_command(
    one: Annotated[str, typer.Argument(help="A model, as in `holdfast scores`.")],
    other: Annotated[str, typer.Argument(help="The model to compare it with.")],
    store: StoreOption = STORE,
    scenario: Runs = None,
    benchmark: Annotated[
        str | None, typer.Option("--benchmark", help="Compare printed or imported scores of this benchmark instead.")
    ] = None,
    fail_if_worse: Annotated[
        bool, typer.Option("--fail-if-worse", help="Exit 1 where the first model is worse than the second.")
    ] = False,
    by: ByOption = "interval",
    junit: JunitOption = None,
    csv: CsvOption = False,
    latex: LatexOption = False,
    markdown: MarkdownOption = False,
    json: JsonOption = False,
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
            _compare_scores(kept, benchmark, one, other, scenario or [], csv=csv, latex=latex, json=json)
            return
        one, other = stored_model(kept, one), stored_model(kept, other)
        chosen = matching_scenarios(kept, scenario or ())
        made = comparisons(kept, one, other, scenarios=chosen)
        for name in chosen if fail_if_worse else ():
            if name not in {each.scenario for each in made}:
                raise Misuse(
                    f"`{one}` and `{other}` were not both measured under `{name}`", hint="evaluate both under it"
                )
        tell_failures(kept, {one, other})
        unjudged = _unjudged(kept, other, {each.scenario for each in made}) if fail_if_worse and not chosen else []
        if unjudged:
            warn(f"not judged, since {one} was not measured under them: {', '.join(unjudged)}")
        if print_records([each.record() for each in made], json=json, csv=csv):
            if fail_if_worse:
                decide("holdfast compare", worse(made, one, other, way), junit=junit, markdown=False)
                refuse_unjudged(one, unjudged)
            return
        show_table(
            [
                "scenario",
                one,
                other,
                "difference, points",
                "only first right",
                "only second right",
                "p (McNemar)",
                "verdict",
            ],
            [
                [
                    each.scenario,
                    interval(each.one),
                    interval(each.other),
                    "{:+.1f} [{:+.1f}, {:+.1f}]".format(*[100 * number for number in _bounds(each.difference)]),
                    str(each.only_one),
                    str(each.only_other),
                    f"{each.chance:.2g}",
                    each.verdict + (f" ({each.left_out} left out)" if each.left_out else ""),
                ]
                for each in made
            ],
            right=["only first right", "only second right", "p (McNemar)"],
            latex=latex,
            markdown=markdown,
        )
        if fail_if_worse:
            decide("holdfast compare", worse(made, one, other, way), junit=junit, markdown=markdown)
            refuse_unjudged(one, unjudged)


def _unjudged(store: Store, other: str, judged: set[str]) -> list[str]:
    """The labelled scenarios of a model that were not judged."""
    known = {footer.scenario for footer in store.footers().values() if footer.model == other and footer.has_labels}
    return sorted(known - judged)


def _compare_scores(
    store: Store, benchmark: str, one: str, other: str, settings: list[str], *, csv: bool, latex: bool, json: bool
) -> None:
    """Two models of a table, setting by setting; an interval where the counts are known, as for other samples."""
    from holdfast.boards.benchmark_tables import benchmark_scores
    from holdfast.metrics.compare import unpaired

    scores = benchmark_scores(benchmark, store)
    made = unpaired(scores, one, other, settings=settings)
    if print_records([each.record() for each in made], json=json, csv=csv):
        return
    show_table(
        ["setting", one, other, "difference", "p (score test)", "unit", "verdict"],
        [[each.setting, *each.texts(), each.unit, each.verdict] for each in made],
        right=[one, other, "difference", "p (score test)"],
        latex=latex,
    )
    err.print("printed or imported scores: not paired, an interval only where the count is known")


def _bounds(score: Score) -> tuple[float, float, float]:
    return score.value, score.low, score.high


def explain_command(
    run: Annotated[str, typer.Argument(help="A run's key or its beginning, as in `holdfast scores`.")],
    sample: Annotated[str, typer.Argument(metavar="ID", help="A sample's id.")],
    store: StoreOption = STORE,
    out_dir: Annotated[Path | None, typer.Option("--out", "-o", help="Write before.png and after.png here.")] = None,
    npz: Annotated[
        Path | None, typer.Option("--npz", help="Write both images here as float32, exactly as they were scored.")
    ] = None,
    device: Annotated[str, typer.Option("--device")] = "auto",
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
