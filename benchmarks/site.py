"""The site at scale: boards of 1,000 simulated models, built, opened and sorted in a browser.

The scores are simulated as imported files: every setting of the ImageNet testbed's board (1,000 x 213 and more), and
every column of the OODRobustBench and MultiRobustBench boards. `--measured M` adds rows of M models under 213 scenarios
of 2,000 samples each, whose reports are made too. Run with OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from holdfast.core.refs import digest
from holdfast.core.suites import Suite, load_suite
from holdfast.core.table import table as new_table
from holdfast.core.types import ModelCard
from holdfast.site.build import Site, build_site
from holdfast.store.footer import ChangeRecord, Footer
from holdfast.store.rows import Predictions, to_rows
from holdfast.store.scores import Origin, Scores
from holdfast.store.store import Store

if TYPE_CHECKING:
    from playwright.sync_api import CDPSession

SUITES = ("imagenet-testbed", "oodrobustbench-cifar10-linf", "multirobustbench")
CHROMIUM = "/usr/bin/chromium"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
SORTED = """async (index) => {
  const begun = performance.now();
  document.querySelectorAll("#board .tabulator-col button")[index].click();
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  return performance.now() - begun;
}"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--models", type=int, default=1000)
    options.add_argument("--settings", type=int, default=213)
    options.add_argument("--measured", type=int, default=0)
    options.add_argument("--profile", action="store_true")
    options.add_argument("--out", type=Path)
    options.add_argument("--open", type=Path, help="only open the boards of a site built before")
    given = options.parse_args()
    if given.open:
        opened(given.open)
        return
    with tempfile.TemporaryDirectory() as base:
        store = Store(f"{base}/store")
        before = time.perf_counter()
        for name in SUITES:
            store.add_scores(simulated(load_suite(name), given.models, given.settings))
        for i in range(given.measured):
            measure(store, f"measured-{i}", given.settings)
        print(f"simulated in {time.perf_counter() - before:.1f} s")
        out = given.out or Path(base) / "site"
        profile = cProfile.Profile() if given.profile else None
        site = timed("build", lambda: build_site(store, out), profile)
        timed("build again, reports taken over", lambda: build_site(Store(store.url), out))
        size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
        print(f"{len(site.files)} files, {size / 1e6:.1f} MB, {len(site.models)} reports")
        if profile:
            pstats.Stats(profile).sort_stats("cumtime").print_stats(30)
        opened(out)


def simulated(suite: Suite, models: int, settings: int) -> Scores:
    """Accuracies about lines in logit space under every setting and column of a board, `settings` of them at least."""
    random = np.random.default_rng(0)
    names = [name for column in suite.board for term in column.settings for name in term]
    names = list(dict.fromkeys([*names, *(column.name for column in suite.board if not column.settings)]))
    names += [f"setting-{i}" for i in range(settings - len(names))]
    logits = random.normal(1, 0.6, (models, 1)) * random.uniform(0.5, 1.2, len(names)) + random.normal(
        -1, 0.5, len(names)
    )
    values = 1 / (1 + np.exp(-(logits + random.normal(0, 0.1, (models, len(names))))))
    cells = {(f"sim-{i}", name): float(values[i, j]) for i in range(models) for j, name in enumerate(names)}
    kinds = ("STANDARD", "MORE_DATA", "ROBUST")
    facts = {f"sim-{i}": {"type": kinds[i % 3], "architecture": f"net-{i % 12}"} for i in range(models)}
    origin = Origin("simulated", f"{suite.name}.csv", digest([suite.name, models]), "2026-01-01")
    table = new_table(cells, counts=dict.fromkeys(cells, 50_000), facts=facts, source=str(origin))
    units = {column.name: column.unit for column in suite.board}
    return Scores(suite.published[0], table, units, origin)


def measure(store: Store, model: str, scenarios: int, samples: int = 2000) -> None:
    """Rows of a model under many scenarios, with the answers of a coin of the right weight."""
    random = np.random.default_rng(abs(hash(model)) % 2**32)
    texts = list(
        dict.fromkeys([*load_suite("oodrobustbench-cifar10-linf").scenarios, *(f"s{i}" for i in range(scenarios))])
    )
    for text in texts[:scenarios]:
        labels = np.arange(samples) % 10
        logits = random.normal(0, 1, (samples, 10)).astype(np.float32)
        logits[np.arange(samples), labels] += 2 * (random.random(samples) < random.uniform(0.3, 0.9))
        nothing = np.full(samples, np.nan, np.float32)
        passes = np.ones(samples, dtype=np.int64)
        made = Predictions(
            [f"t{i:05}" for i in range(samples)], labels, logits, nothing, nothing, passes, passes, [None] * samples
        )
        rows = to_rows(made, footer(model, text, samples))
        store.finish([rows], rows.ids, rows.footer)


def footer(model: str, scenario: str, samples: int) -> Footer:
    dataset, *changes = scenario.split("+")
    key = digest([model, scenario])
    kinds = [
        ChangeRecord("attack" if "linf" in one else "corruption", one.split(":")[0], 1, one, {}) for one in changes
    ]
    return Footer(
        key=key, family=key, model=model, model_full=model, scenario=scenario, scenario_full=scenario, dataset=dataset,
        changes=tuple(kinds), seed=0, selection="all", samples=None, precision=None, weights="w", data="d",
        card=ModelCard(name=model, source="simulated", classes=10), classes=tuple("abcdefghij"), population=samples,
        finished="2026-01-01T00:00:00+00:00", command=f"holdfast evaluate {model} --scenario '{scenario}'",
    )  # fmt: skip


def timed(what: str, job: Callable[[], Site], profile: cProfile.Profile | None = None) -> Site:
    before, work = time.perf_counter(), time.process_time()
    made = profile.runcall(job) if profile else job()
    spent, worked = time.perf_counter() - before, time.process_time() - work
    print(f"{what:<40} {spent:7.2f} s   {worked:7.2f} s of work")
    return made


def opened(out: Path) -> None:
    """Milliseconds until a board can be used, and of sorting it: as waited for, and of work on the page's thread."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for name in SUITES:
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            metrics = page.context.new_cdp_session(page)
            metrics.send("Performance.enable", {"timeDomain": "threadTicks"})

            def worked(metrics: CDPSession = metrics) -> float:
                found = metrics.send("Performance.getMetrics")["metrics"]
                return 1000 * next(one["value"] for one in found if one["name"] == "TaskDuration")

            before = time.perf_counter()
            page.goto((out / f"boards/{name}.html").as_uri(), wait_until="commit")
            page.wait_for_selector('#board[data-ready="yes"] .tabulator-row')
            ready, work = 1000 * (time.perf_counter() - before), worked()
            page.wait_for_load_state("load")
            page.wait_for_timeout(3000)
            rows = len(json.loads(page.locator("#board-data").inner_text())["rows"])
            waits, works = [], []
            for index in range(8):
                begun = worked()
                waits.append(page.evaluate(SORTED, index))
                works.append(worked() - begun)
            print(f"{name:<30} {rows:5} rows   opens in {ready:5.0f} ms ({work:.0f} of work)", end="   ")
            print(f"sorts in {np.median(waits):.0f} ms, at most {max(waits):.0f}", end=" ")
            print(f"({np.median(works):.0f} and {max(works):.0f} of work)")
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
