"""How often the example workflow raises an alarm: for models that differ by chance alone, and for a real loss.

python benchmarks/ci_alarms.py [--repetitions 100] [--losses 10] [--first 0]

Both models are the bundled `fashion-at-linf` with noise on its weights, drawn anew for each repetition and each model,
so that neither is better by design; attacks draw anew too. For a loss, the noise of the new model is larger: about five
points under pgd.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
from run_workflow import in_bash, in_this_process, run_workflow

WORKFLOW = Path(__file__).parents[1] / "examples" / "ci" / "robustness.yml"
NOISE, LOSS = 0.02, 0.22  # of the spread of each tensor's weights
NETS = """
import os
import torch
import holdfast


def noisy(seed, size):
    model = holdfast.load("fashion-at-linf")
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight += size * weight.std() * torch.randn(weight.shape, generator=generator)
    return model.net


def main():
    return noisy(2 * int(os.environ["SEED"]), float(os.environ["NOISE"]))


def new():
    return noisy(2 * int(os.environ["SEED"]) + 1, float(os.environ["NEW_NOISE"]))
"""


def repetition(folder: Path, seed: int, noise: float, samples: str, *, bash: bool) -> tuple[int, str]:
    """The exit code of the workflow, and what it says of pgd."""
    (folder / "nets.py").write_text(NETS)
    (folder / "summary.md").unlink(missing_ok=True)
    shutil.rmtree(folder / "holdfast-store", ignore_errors=True)
    variables = {"SAMPLES": samples, "SEED": str(seed), "NOISE": str(NOISE), "NEW_NOISE": str(noise)}
    code = run_workflow(WORKFLOW, folder, variables, in_bash if bash else in_this_process)
    lines = (folder / "summary.md").read_text().splitlines()
    return code, next(line for line in lines if "+pgd" in line)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--losses", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="The first seed, to go on with an earlier run.")
    parser.add_argument("--samples", default="500", help="Of each repetition without a loss.")
    parser.add_argument("--bash", action="store_true", help="Start every step anew; else all run in this process.")
    given = parser.parse_args()
    alarms = {"noise": 0, "loss": 0}
    with tempfile.TemporaryDirectory() as folder:
        for i in range(max(given.repetitions, given.losses)):
            seed = given.first + i
            for kind, count, noise in (("loss", given.losses, LOSS), ("noise", given.repetitions, NOISE)):
                if i < count:
                    samples = given.samples if kind == "noise" else "500"
                    code, compared = repetition(Path(folder), seed, noise, samples, bash=given.bash)
                    assert code in (0, 1), f"the workflow ended with {code}"
                    alarms[kind] += code
                    print(
                        json.dumps({"kind": kind, "seed": seed, "alarm": bool(code), "compared": compared}), flush=True
                    )
    print(f"alarms: {alarms['loss']} of {given.losses} losses, {alarms['noise']} of {given.repetitions} by chance")


if __name__ == "__main__":
    main()
