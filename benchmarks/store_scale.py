"""How quickly a store of 1,000 models x 213 scenarios answers: status, plan, scores, cold and warm.

    python benchmarks/store_scale.py make DIR [--models 1000] [--scenarios 213] [--rows 8]
    python benchmarks/store_scale.py measure DIR [--models 1000] [--scenarios 213] [--rows 8]

`make` writes files of models that do not exist: each with a footer of its own, sealed as an evaluation seals it, around
the rows of one template, which no question here reads. `measure` times each question in a process of its own, without
the index, with it, and with one file newer; imports are not counted. Files may stay in the page cache.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

DATASET = "fashion-mnist-2k"
ROOM = 3000  # bytes of a footer, padded
QUESTIONS = {
    "footers": "len(store.footers())",
    "scores": "len(lines(store))",
    "status": "len(store.footers()) + len(store.unfinished())",
    "one model": "len(lines(store, models=[models(1)[0]]))",
    "plan": "sum(run.done > 0 for run in recorded_plan(models(M), scenarios(S), store=store, options=options))",
}


def models(count: int) -> list[str]:
    return [f"file:models/m{i:04}.safetensors" for i in range(count)]


def scenarios(count: int) -> list[str]:
    """Clean, corruptions, corruptions and attacks, and attacks of growing radius."""
    names = ("gaussian-noise", "shot-noise", "defocus-blur", "fog", "frost", "brightness", "contrast", "jpeg")
    corrupted = [f"{DATASET}+{name}:severity={i}" for name in names for i in range(1, 6)]
    attacked = [f"{text}+pgd-linf:radius=8/255" for text in (DATASET, *corrupted)]
    texts = [DATASET, *corrupted, *attacked]
    texts += [f"{DATASET}+pgd-l2:radius={i}/100" for i in range(1, count)]
    return texts[:count]


def make(folder: Path, model_count: int, scenario_count: int, rows: int) -> None:
    from holdfast.core.refs import Run
    from holdfast.core.registry import registry
    from holdfast.core.types import ModelCard
    from holdfast.engine.jobs import command
    from holdfast.store import Footer

    (folder / "rows").mkdir(parents=True, exist_ok=True)
    dataset = registry.build(registry.bind("dataset", DATASET))
    asked = [registry.scenario(text) for text in scenarios(scenario_count)]
    before, between, after = _template(rows)
    random = np.random.default_rng(0)
    begun = time.perf_counter()
    for i, name in enumerate(models(model_count), 1):
        ref = registry.bind("model", name)
        card = ModelCard(name, "file", 10, 1, weights=name, parameters=100_000, trained_on=DATASET)
        for scenario in asked:
            run = Run(ref, scenario, samples=rows, weights=name, data=dataset.card.fingerprint)
            footer = replace(
                Footer.of(run, card, dataset.card, len(dataset.ids)),
                n=rows,
                right=int(random.integers(rows + 1)),
                in_top5=rows,
                failed=0,
                forwards=rows,
                seconds=0.01 * rows,
                device="cpu",
                command=command(run),
                digest=f"{random.integers(1 << 62):064x}",
            )
            data = footer.to_bytes().ljust(ROOM)
            assert len(data) == ROOM, "a longer footer needs more room"
            seal = hashlib.sha256(data).hexdigest().encode()
            (folder / "rows" / f"{run.key}.parquet").write_bytes(before + data + between + seal + after)
        if i % 100 == 0:
            print(f"{i:,} of {model_count:,} models, {time.perf_counter() - begun:.0f} s", flush=True)


def _template(rows: int) -> list[bytes]:
    """A file of rows in three pieces: between them go a footer and its seal."""
    from holdfast.store.footer import FOOTER_KEY, SEAL_KEY
    from holdfast.store.rows import Predictions, to_rows

    labels, nothing, ones = np.arange(rows) % 10, np.full(rows, np.nan, np.float32), np.ones(rows, np.int64)
    logits = np.random.default_rng(0).normal(size=(rows, 10)).astype(np.float32)
    names = [f"s{i}" for i in range(rows)]
    made = to_rows(Predictions(names, labels, logits, nothing, nothing, ones, ones, [None] * rows), None)  # type: ignore[arg-type]
    marks = {FOOTER_KEY: b"F" * ROOM, SEAL_KEY: b"S" * 64}
    sink = io.BytesIO()
    pq.write_table(made.table.replace_schema_metadata(marks), sink, compression="zstd")
    before, rest = sink.getvalue().split(marks[FOOTER_KEY])
    return [before, *rest.split(marks[SEAL_KEY])]


CODE = """
import sys, time, resource
sys.path.insert(0, {here!r})
from store_scale import models, scenarios
from holdfast.engine.jobs import RunOptions
from holdfast.engine.plan import recorded_plan
from holdfast.metrics.summary import lines
from holdfast.store import Store
M, S, options = {models}, {scenarios}, RunOptions(samples={rows})
scenarios(1)
store = Store({folder!r})
begun, worked = time.perf_counter(), time.process_time()
answer = {question}
took, worked = time.perf_counter() - begun, time.process_time() - worked
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
print(f"{{took:7.2f}} s  {{worked:7.2f}} s of CPU  {{memory:6,}} MB  {{answer:,}}")
"""


def measure(folder: Path, model_count: int, scenario_count: int, rows: int) -> None:
    from holdfast.store import Store

    def asked(what: str, note: str) -> None:
        code = CODE.format(
            here=str(Path(__file__).parent),
            folder=str(folder),
            question=QUESTIONS[what],
            models=model_count,
            scenarios=scenario_count,
            rows=rows,
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        print(f"{what:10} {note:14} {done.stdout.strip()}", flush=True)

    store = Store(str(folder))
    store.files.remove("index.parquet")
    asked("footers", "no index")
    for what in QUESTIONS:
        asked(what, "index")
    last = store.files.names("rows", ".parquet")[-1]
    (folder / last).write_bytes(store.files.read(last))
    for what in ("footers", "scores"):
        asked(what, "one file newer")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=["make", "measure"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--scenarios", type=int, default=213)
    parser.add_argument("--rows", type=int, default=8)
    chosen = parser.parse_args()
    if chosen.action == "make":
        make(chosen.folder, chosen.models, chosen.scenarios, chosen.rows)
    else:
        measure(chosen.folder, chosen.models, chosen.scenarios, chosen.rows)


if __name__ == "__main__":
    main()
