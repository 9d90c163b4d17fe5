"""Draws the figure of the README from the store that `holdfast demo` leaves.

python scripts/readme_figure.py holdfast-demo/store docs/figures/demo.svg
"""

from __future__ import annotations

import sys
from pathlib import Path

from holdfast.metrics.summary import Line, lines
from holdfast.store import Store

COLOURS = {"fashion-standard": "#b4530a", "fashion-noise": "#5b5bd6", "fashion-at-linf": "#0b7a5c"}
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 330, 250, 40, 34, 44
PANELS = (
    ("gaussian-noise", "severity", "Gaussian noise, severity"),
    ("pgd-linf", "radius", "PGD attack, radius (255ths)"),
)


def main(store: str, out: str) -> None:
    every = [line for line in lines(Store(store)) if line.footer.model in COLOURS]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * WIDTH + 130} {HEIGHT + 20}" '
        'font-family="system-ui, sans-serif" font-size="12" role="img">',
        "<title>Accuracy of three bundled models under noise and under attack, with 95 % intervals</title>",
        "<style>.t{fill:#57606a}@media(prefers-color-scheme:dark){.t{fill:#9aa4af}}</style>",
    ]
    for i, (name, argument, title) in enumerate(PANELS):
        parts += panel(every, name, argument, title, x0=i * WIDTH, labelled=i == 1)
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    Path(out).write_text("\n".join([*parts, "</svg>"]) + "\n", encoding="utf-8")


def panel(every: list[Line], name: str, argument: str, title: str, *, x0: int, labelled: bool) -> list[str]:
    """Accuracy against one strength, starting from the undisturbed images at zero."""
    points: dict[str, list[tuple[float, Line]]] = {model: [] for model in COLOURS}
    for line in every:
        changes = line.footer.changes
        if not changes:
            points[line.footer.model].append((0.0, line))
        elif len(changes) == 1 and changes[0].name == name:
            strength = float(changes[0].args[argument]) * (255 if argument == "radius" else 1)
            points[line.footer.model].append((strength, line))
    ticks = sorted({round(x, 3) for model in points.values() for x, _ in model})
    wide, high = WIDTH - LEFT - 16, HEIGHT - TOP - BOTTOM

    def at(strength: float, share: float) -> tuple[float, float]:
        return x0 + LEFT + wide * strength / ticks[-1], TOP + high * (1 - share)

    parts = [f'<text x="{x0 + LEFT}" y="18" font-weight="600" class="t">{title}</text>']
    for share in (0, 0.5, 1):
        x, y = at(0, share)
        parts.append(f'<path d="M{x} {y}h{wide}" stroke="#8884" fill="none"/>')
        parts.append(f'<text x="{x - 6}" y="{y + 4}" text-anchor="end" class="t">{100 * share:.0f}</text>')
    for tick in ticks:
        x, y = at(tick, 0)
        parts.append(f'<text x="{x}" y="{y + 18}" text-anchor="middle" class="t">{tick:g}</text>')
    for model, drawn in points.items():
        drawn.sort(key=lambda point: point[0])
        colour = COLOURS[model]
        upper = [at(x, line.accuracy.high) for x, line in drawn]
        lower = [at(x, line.accuracy.low) for x, line in reversed(drawn)]
        middle = [at(x, line.accuracy.value) for x, line in drawn]
        parts.append(f'<polygon points="{path([*upper, *lower])}" fill="{colour}" opacity=".18"/>')
        parts.append(f'<polyline points="{path(middle)}" fill="none" stroke="{colour}" stroke-width="2"/>')
        if labelled:
            x, y = middle[-1]
            parts.append(f'<text x="{x + 8}" y="{y + 4}" fill="{colour}">{model}</text>')
    return parts


def path(points: list[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


if __name__ == "__main__":
    main(*sys.argv[1:3])
