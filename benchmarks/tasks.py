"""Twenty tasks in the shortest honest code of five other libraries and in ours: lines, and what comes out.

    python benchmarks/tasks.py [--tasks 1,2] [--images 32]     runs them: a table
    python benchmarks/tasks.py --code                          the code of each

Runs where the others are installed (`pip install foolbox torchattacks cleverhans adversarial-robustness-toolbox
robustbench`); one that is absent or fails is shown with its error. All start from the same names: `net` (an nn.Module
in evaluation mode that takes images in [0, 1]), `images` (float32, NCHW), `labels`. The result is robust accuracy, or
what the task asks for. Lines are statements that do the task; imports are not counted, for anyone.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import os
import sys
import tempfile
import warnings
from dataclasses import dataclass, field

import torch
from parity.importing import declare_torchvision_operators
from torch import nn

NONE = "—"  # there is no way to do it short of writing it


@dataclass(frozen=True)
class Task:
    """Code by library; each ends in a value `out`: a share of samples still right, or what the task says."""

    title: str
    ours: str
    peers: dict[str, str] = field(default_factory=dict)


FOOLBOX = "import foolbox as fb\nfmodel = fb.PyTorchModel(net, bounds=(0, 1))\n"
ART = (
    "from art.estimators.classification import PyTorchClassifier\n"
    "clf = PyTorchClassifier(net, loss=nn.CrossEntropyLoss(), input_shape=tuple(images.shape[1:]), nb_classes=10, clip_values=(0, 1))\n"
)


def _foolbox(attack: str, epsilon: str) -> str:
    return (
        FOOLBOX
        + f"_, _, broken = fb.attacks.{attack}(fmodel, images, labels, epsilons={epsilon})\nout = 1 - broken.float().mean()\n"
    )


def _torchattacks(attack: str) -> str:
    return f"import torchattacks\nadv = torchattacks.{attack}(images, labels)\nout = (net(adv).argmax(1) == labels).float().mean()\n"


def _cleverhans(module: str, call: str) -> str:
    return (
        f"import numpy as np\nfrom cleverhans.torch.attacks.{module} import {module}\n"
        f"adv = {module}(net, images, {call})\nout = (net(adv).argmax(1) == labels).float().mean()\n"
    )


def _art(attack: str, module: str = "evasion") -> str:
    return (
        f"import art.attacks.{module} as attacks\n{ART}adv = attacks.{attack}.generate(images.numpy(), labels.numpy())\n"
        "out = (clf.predict(adv).argmax(1) == labels.numpy()).mean()\n"
    )


def _ours(attack: str) -> str:
    return f'import holdfast\nout = 1 - holdfast.attack(net, images, labels, "{attack}").broken.float().mean()\n'


TASKS = [
    Task(
        "FGSM, linf 8/255",
        _ours("fgsm:radius=8/255"),
        {
            "foolbox": _foolbox("LinfFastGradientAttack()", "8/255"),
            "torchattacks": _torchattacks("FGSM(net, eps=8/255)"),
            "CleverHans": _cleverhans("fast_gradient_method", "8/255, np.inf, clip_min=0, clip_max=1"),
            "ART": _art("FastGradientMethod(clf, eps=8/255)"),
        },
    ),
    Task(
        "PGD, linf 8/255, 40 steps",
        _ours("pgd-linf:radius=8/255,steps=40"),
        {
            "foolbox": _foolbox("LinfPGD(steps=40)", "8/255"),
            "torchattacks": _torchattacks("PGD(net, eps=8/255, alpha=2/255, steps=40)"),
            "CleverHans": _cleverhans(
                "projected_gradient_descent", "8/255, 2/255, 40, np.inf, clip_min=0, clip_max=1, sanity_checks=False"
            ),
            "ART": _art("ProjectedGradientDescent(clf, eps=8/255, eps_step=2/255, max_iter=40, verbose=False)"),
        },
    ),
    Task(
        "PGD, l2 0.5, 40 steps",
        _ours("pgd-l2:radius=0.5,steps=40"),
        {
            "foolbox": _foolbox("L2PGD(steps=40)", "0.5"),
            "torchattacks": _torchattacks("PGDL2(net, eps=0.5, alpha=0.1, steps=40)"),
            "CleverHans": _cleverhans(
                "projected_gradient_descent", "0.5, 0.1, 40, 2, clip_min=0, clip_max=1, sanity_checks=False"
            ),
            "ART": _art("ProjectedGradientDescent(clf, norm=2, eps=0.5, eps_step=0.1, max_iter=40, verbose=False)"),
        },
    ),
    Task(
        "PGD, l1 8, 20 steps",
        _ours("pgd-l1:radius=8,steps=20"),
        {
            "foolbox": _foolbox("L1PGD(steps=20)", "8.0"),
            "ART": _art("ProjectedGradientDescent(clf, norm=1, eps=8.0, eps_step=1.0, max_iter=20, verbose=False)"),
        },
    ),
    Task(
        "Auto-PGD, linf 8/255, 20 steps",
        _ours("apgd-ce-linf:radius=8/255,steps=20"),
        {
            "torchattacks": _torchattacks("APGD(net, eps=8/255, steps=20)"),
            "ART": _art("AutoProjectedGradientDescent(clf, eps=8/255, max_iter=20, nb_random_init=1, verbose=False)"),
        },
    ),
    Task(
        "Targeted Auto-PGD, linf 8/255",
        _ours("apgd-t-linf:radius=8/255,steps=5"),
        {"torchattacks": _torchattacks("APGDT(net, eps=8/255, steps=5, n_classes=10)")},
    ),
    Task(
        "AutoAttack, linf 8/255",
        _ours("autoattack-linf:radius=8/255"),
        {
            "RobustBench": "from autoattack import AutoAttack\n"
            "adv, *_ = AutoAttack(net, norm='Linf', eps=8/255, device='cpu').run_standard_evaluation(images, labels)\n"
            "out = (net(adv).argmax(1) == labels).float().mean()\n",
            "torchattacks": _torchattacks("AutoAttack(net, eps=8/255, n_classes=10)"),
            "ART": _art("AutoAttack(clf, eps=8/255, eps_step=2/255)"),
        },
    ),
    Task(
        "FAB, l2 0.5",
        _ours("fab-l2:radius=0.5,steps=10"),
        {"torchattacks": _torchattacks("FAB(net, norm='L2', eps=0.5, steps=10, n_classes=10)")},
    ),
    Task(
        "Square, linf 8/255, 200 queries",
        _ours("square-linf:radius=8/255,queries=200"),
        {
            "torchattacks": _torchattacks("Square(net, eps=8/255, n_queries=200)"),
            "ART": _art("SquareAttack(clf, eps=8/255, max_iter=200, verbose=False)"),
        },
    ),
    Task(
        "smallest l2 distance that breaks each image (mean)",
        'import holdfast\nout = holdfast.attack(net, images, labels, "fmn-l2").sizes.nanmean()\n',
        {
            "foolbox": FOOLBOX
            + "_, adv, _ = fb.attacks.L2FMNAttack(steps=100)(fmodel, images, labels, epsilons=None)\n"
            "out = (adv - images).flatten(1).norm(dim=1).mean()\n",
            "ART": "import art.attacks.evasion as attacks\n"
            + ART
            + "adv = attacks.DeepFool(clf, verbose=False).generate(images.numpy())\n"
            "out = torch.from_numpy(adv - images.numpy()).flatten(1).norm(dim=1).mean()\n",
        },
    ),
    Task(
        "spatially transformed images (stAdv)",
        _ours("stadv:radius=0.05,steps=20"),
        {"torchattacks": NONE, "ART": NONE},
    ),
    Task(
        "accuracy at five radii",
        'import holdfast\nout = [1 - holdfast.attack(net, images, labels, f"pgd-linf:radius={r}/255,steps=20").broken.float().mean() for r in (1, 2, 4, 8, 16)]\n',
        {
            "foolbox": FOOLBOX
            + "_, _, broken = fb.attacks.LinfPGD(steps=20)(fmodel, images, labels, epsilons=[r / 255 for r in (1, 2, 4, 8, 16)])\n"
            "out = 1 - broken.float().mean(dim=1)\n",
        },
    ),
    Task(
        "worst of two attacks",
        _ours("worst-of:attacks=[(pgd-linf:radius=8/255,steps=20),(square-linf:radius=8/255,queries=100)]"),
        {
            "torchattacks": _torchattacks(
                "MultiAttack([torchattacks.PGD(net, eps=8/255, steps=20), torchattacks.Square(net, eps=8/255, n_queries=100)])"
            ),
        },
    ),
    Task(
        "fog on 28-pixel images (mean pixel)",
        'import holdfast\nout = holdfast.corrupt(images, "fog:severity=3").mean()\n',
        {"RobustBench": NONE},
    ),
    Task(
        "one corruption at five severities: accuracy",
        'import holdfast\nout = [(net(holdfast.corrupt(images, f"contrast:severity={s}")).argmax(1) == labels).float().mean() for s in range(1, 6)]\n',
    ),
    Task(
        "accuracy with a 95 % interval",
        'import holdfast\nout = holdfast.accuracy(holdfast.evaluate(model, "fashion-mnist-2k", samples=100)[0].rows).percent()\n',
    ),
    Task(
        "attack on corrupted images",
        'import holdfast\nout = 1 - holdfast.attack(net, holdfast.corrupt(images, "gaussian-noise:severity=3"), labels, "pgd-linf:radius=8/255,steps=20").broken.float().mean()\n',
    ),
    Task(
        "continue a stopped evaluation",
        'import holdfast\nout = holdfast.evaluate(model, "fashion-mnist-2k+pgd-linf:radius=8/255,steps=10", samples=40)[0].rows is not None\n',
    ),
    Task(
        "are two models different under attack? (p)",
        'import holdfast\na, b = (holdfast.evaluate(m, "fashion-mnist-2k+pgd-linf:radius=8/255,steps=10", samples=40)[0].rows for m in (model, "fashion-standard"))\nout = holdfast.compare(a, b).chance\n',
    ),
    Task(
        "will the number mean anything? (flags)",
        "from holdfast.models import check\nout = [flag.name for flag in check(net, images[:16], labels[:16])]\n",
    ),
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", default="")
    parser.add_argument("--images", type=int, default=32)
    parser.add_argument("--code", action="store_true")
    args = parser.parse_args()
    if args.code:
        print(code_text())
        return 0
    _stand_ins()
    chosen = [int(number) for number in args.tasks.split(",") if number] or range(1, len(TASKS) + 1)
    names = _names(args.images)
    libraries = ["RobustBench", "foolbox", "torchattacks", "CleverHans", "ART"]
    print("| task | " + " | ".join(libraries) + " | holdfast |")
    print("|---|" + "---|" * (len(libraries) + 1))
    longer = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for number in chosen:
            task = TASKS[number - 1]
            cells = [_cell(task.peers.get(library, NONE), names) for library in libraries]
            shortest = min((lines(code) for code in task.peers.values() if code != NONE), default=99)
            longer += lines(task.ours) > shortest
            print(f"| {number}. {task.title} | " + " | ".join(cells) + f" | {_cell(task.ours, names)} |", flush=True)
        os.chdir("/")
    return int(longer > 0)


def code_text() -> str:
    """The code of every task in Markdown, the others' first."""
    parts = []
    for number, task in enumerate(TASKS, 1):
        parts.append(f"### {number}. {task.title}")
        for library, code in (*task.peers.items(), ("holdfast", task.ours)):
            if code != NONE:
                parts.append(f"{library}, {lines(code)} line{'s' if lines(code) > 1 else ''}:\n\n```text\n{code}```")
    return "\n\n".join(parts)


def lines(code: str) -> int:
    """Statements that are no imports."""
    return sum(not isinstance(node, ast.Import | ast.ImportFrom) for node in ast.parse(code).body)


def _cell(code: str, names: dict[str, object]) -> str:
    if code == NONE:
        return NONE
    torch.manual_seed(0)
    space = dict(names)
    try:
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            exec(code, space)
    except Exception as error:  # noqa: BLE001 - other people's code may raise anything
        return f"{lines(code)}: {type(error).__name__}"
    return f"{lines(code)}: {_shown(space['out'])}"


def _shown(out: object) -> str:
    if isinstance(out, list | torch.Tensor) and not isinstance(out, str):
        values = out.tolist() if isinstance(out, torch.Tensor) else [getattr(v, "item", lambda v=v: v)() for v in out]
        if isinstance(values, list):
            return " ".join(f"{v:.3f}" if isinstance(v, float) else str(v) for v in values) or "none"
        return f"{values:.3f}"
    return f"{float(out):.3f}" if hasattr(out, "__float__") else str(out)


def _names(count: int) -> dict[str, object]:
    import holdfast
    from holdfast import datasets

    model = holdfast.load("fashion-at-linf")
    dataset = datasets.load("fashion-mnist-2k")
    return {
        "torch": torch,
        "nn": nn,
        "model": "fashion-at-linf",
        "net": model,
        "images": dataset.images(range(count)).pixels / 255,
        "labels": torch.from_numpy(dataset.labels[:count]).long(),
    }


def _stand_ins() -> None:
    """Lets the others import where an unused part of theirs does not."""
    declare_torchvision_operators()
    try:
        import autoattack  # noqa: F401
    except ImportError:
        with contextlib.suppress(ImportError):
            import pyautoattack

            sys.modules["autoattack"] = pyautoattack


if __name__ == "__main__":
    raise SystemExit(main())
