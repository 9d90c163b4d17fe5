"""Trains on shortcut tasks, chooses epochs by accuracy and by posterior agreement, and measures both on shifted tests.

    python scripts/make_selection.py --recipes posterior-agreement-small --seeds 3 --out selection

Writes docs/selected-epochs.csv, which the page of findings reads. A recipe of a file has a model file after every epoch
and a pair of validation sets; seeds redraw the digits that are trained and chosen on, and start the network anew. Test
sets are the same for all: the five of Table 1. What is under `--out` already is not made again.

What decides, set down before the runs: for a method, each training gives the difference between the mean accuracy on
the five test sets of the epoch that agreement chooses and of the one that accuracy chooses, both as measured on the
same pair of validation sets. The claim holds where the 95 % interval (Student's t over trainings) of the mean
difference lies above 0, does not hold where it ends below a point, and cannot be told otherwise. Epochs count from the
fifth on: in a first try-out, of which no test set was looked at, the network gave nearly every image the same class
after the first epoch, which is full agreement. A second figure has all epochs.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from holdfast.engine.device import pick_device
from holdfast.engine.evaluate import evaluate
from holdfast.store.store import Store
from holdfast.training.recipes import Recipe, family
from holdfast.training.train import EpochReport, train

TABLE = Path(__file__).parents[1] / "docs" / "selected-epochs.csv"
FIRST = 5  # epoch that counts
TESTS = tuple(f"diagvib:(mnist),env=select-test{number},n=200" for number in range(1, 6))
FIELDS = ("method", "opportunity", "seed", "from_epoch", "by", "epoch", "accuracy", "agreement")


class EpochValidation(NamedTuple):
    """An epoch's accuracy and posterior agreement on the pair of validation sets."""

    epoch: int
    accuracy: float
    agreement: float


def with_seed(recipe: Recipe, seed: int) -> Recipe:
    """The recipe with another start, and other digits to train and to choose on."""
    drawn = [tuple(f"{text},seed={seed}" for text in texts) for texts in (recipe.environments, recipe.paired)]
    return replace(recipe, name=f"{recipe.name}-seed{seed}", seed=seed, environments=drawn[0], paired=drawn[1])


def trained(recipe: Recipe, out: Path, device: str) -> list[EpochValidation]:
    """What was measured after every epoch; trains where that is not known."""
    log = out / f"{recipe.name}.json"
    found: dict[int, EpochValidation] = {}
    if log.is_file():
        found = {each[0]: EpochValidation(*each) for each in json.loads(log.read_text())}

    def note(report: EpochReport) -> None:
        made = report.validated
        assert made is not None, "the recipe has a pair of validation sets"
        assert made.agreement is not None, "of a pair agreement is known"
        found[report.epoch] = EpochValidation(report.epoch, made.accuracy, made.agreement)
        log.write_text(json.dumps(list(found.values())))

    path = out / f"{recipe.name}.safetensors"
    if not path.is_file() or len(found) < recipe.epochs:
        path.unlink(missing_ok=True)
        train(recipe, out=path, device=pick_device(device), on_epoch=note)
        print(recipe.name, "trained", flush=True)
    return [found[epoch] for epoch in sorted(found)]


def chosen(epochs: Sequence[EpochValidation], by: str, first: int) -> EpochValidation:
    """The best epoch from `first` on; of equals the earliest."""
    return max((each for each in epochs if each.epoch >= first), key=attrgetter(by))


def test_scores(path: Path, store: Store, device: str) -> dict[str, tuple[float, int, str]]:
    """Accuracy, samples and run on each test set."""
    made = {}
    for number, outcome in enumerate(evaluate(f"file:{path}", list(TESTS), store=store, device=device, pictures=0), 1):
        made[f"test-{number}"] = (outcome.score.value, outcome.score.n, outcome.result.footer.key)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", default="posterior-agreement-small", help="a file of recipes")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True, help="folder of models and rows")
    parser.add_argument("--write", type=Path, default=TABLE)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--only-train", type=int, nargs="*", help="train these seeds, and measure nothing")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    store, lines = Store(str(given.out / "rows")), []
    for seed in range(given.seeds) if given.only_train is None else given.only_train:
        for recipe in family(given.recipes):
            seeded = with_seed(recipe, seed)
            epochs = trained(seeded, given.out, given.device)
            if given.only_train is not None:
                continue
            opportunity = recipe.name.split("-", 3)[-1]
            for first in (FIRST, 1):
                for by in ("accuracy", "agreement"):
                    best = chosen(epochs, by, first)
                    scores = test_scores(
                        given.out / f"{seeded.name}-epoch{best.epoch:03d}.safetensors", store, given.device
                    )
                    line = (recipe.method, opportunity, seed, first, by, *best)
                    lines.append([*line, *(100 * value for value, _, _ in scores.values())])
                    lines[-1] += [next(iter(scores.values()))[1], " ".join(key for _, _, key in scores.values())]
    if given.only_train is None:
        with given.write.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([*FIELDS, *(f"test-{number}" for number in range(1, 6)), "n", "runs"])
            writer.writerows([f"{each:.6g}" if isinstance(each, float) else each for each in line] for line in lines)
        print(given.write)


if __name__ == "__main__":
    main()
