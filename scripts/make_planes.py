"""Trains models on two sources of digits and their mixtures, and measures them on both and on shifted images of both.

    python scripts/make_planes.py --out planes

Writes docs/planes.csv, which the page of findings reads. The sources are MNIST and the UCI digits, half of which are
held out as a test set; the shifted sets are four corruptions of each source's test images. What is under `--out`
already is not made again.

What decides, set down before the runs: for a shifted set, three logit fits over models explain its accuracy, a line on
either source's accuracy and the plane on both. Each of the three groups of models (MNIST, UCI digits, mixtures) is
left out of the fits in turn and predicted by them. The claim holds where the plane's mean error over all models is
below that of both lines on more than half of the shifted sets.
"""

from __future__ import annotations

import argparse
import csv
from dataclasses import replace
from pathlib import Path

from holdfast.engine.device import pick_device
from holdfast.engine.evaluate import evaluate
from holdfast.store.store import Store
from holdfast.training.recipes import family
from holdfast.training.train import train

TABLE = Path(__file__).parents[1] / "docs" / "planes.csv"
SOURCES = {"mnist": "mnist", "uci": "subsample:(uci-digits),share=0.5"}
SHIFTS = ("contrast:severity=3", "fog:severity=3", "elastic-transform:severity=5", "motion-blur:severity=5")
SETS = dict(SOURCES) | {
    f"{name} {shift.partition(':')[0]}": f"{source}+{shift}" for name, source in SOURCES.items() for shift in SHIFTS
}
SAMPLES = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", default="multi-id-digits", help="a file of recipes; names are ANY-GROUP-ANY")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path, required=True, help="folder of models and rows")
    parser.add_argument("--write", type=Path, default=TABLE)
    parser.add_argument("--device", default="auto")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    store, lines = Store(str(given.out / "rows")), []
    for seed in range(given.seeds):
        for recipe in family(given.recipes):
            path = given.out / f"{recipe.name}-seed{seed}.safetensors"
            if not path.is_file():
                train(replace(recipe, seed=seed), out=path, device=pick_device(given.device))
            outcomes = evaluate(
                f"file:{path}", list(SETS.values()), store=store, samples=SAMPLES, device=given.device, pictures=0
            )
            right = [f"{100 * outcome.score.value:.6g}" for outcome in outcomes]
            counts = [str(outcome.score.n) for outcome in outcomes]
            runs = [outcome.result.footer.key for outcome in outcomes]
            lines.append([recipe.name.split("-")[1], recipe.name, seed, *right, " ".join(counts), " ".join(runs)])
            print(*lines[-1][:5], flush=True)
    with given.write.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["group", "recipe", "seed", *SETS, "n", "runs"])
        writer.writerows(lines)
    print(given.write)


if __name__ == "__main__":
    main()
