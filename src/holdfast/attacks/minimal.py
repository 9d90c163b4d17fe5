"""What the gradient loop does beside its steps where the smallest change is looked for.

A smallest change lies on the boundary, where the batch around a sample would decide by rounding. So a point counts once
it is clear: another class leads by more than rounding. A point that is wrong but not clear is kept apart, and scaled
away from the image after the last run until it is clear.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from holdfast.attacks.shapes import parts_of, wide
from holdfast.attacks.success import CLEAR, is_ahead, is_within, is_wrong
from holdfast.attacks.threat import Scene
from holdfast.core.noise import Noise

if TYPE_CHECKING:
    from holdfast.attacks.active_set import ActiveSet, Samples
    from holdfast.attacks.gradient import GradientAttack

# factors that an unclear point is scaled by, in turn; the lead grows in proportion, so the first few are nearly always
# enough
STRETCHES = tuple(1 + 1e-5 * 4.0**k for k in range(9))
UNCLEAR, UNCLEAR_AT = "unclear", "unclear at"  # beside a step's own state: minus the size of that point, and the point
CLEARANCE = "clearance"  # by how much another logit must lead


class SmallestPoints:
    """The smallest clear and the smallest unclear point of every sample; the latter are in the active set's `extra`."""

    def __init__(self, attack: GradientAttack, active: ActiveSet) -> None:
        self.attack, self.threat, self.active = attack, attack.threat, active

    def begin(self, logits: Tensor) -> None:
        """`logits`: of the clean images."""
        active = self.active
        active.extra[CLEARANCE] = CLEAR * logits.abs().amax(dim=1)
        active.extra[UNCLEAR] = torch.full_like(active.radius, -torch.inf)
        active.extra[UNCLEAR_AT] = active.result.variable.clone()

    def around(self, variable: Tensor, scene: Scene, noise: Noise, index: Tensor, run: Tensor) -> Tensor:
        """The variables, and for restarts random points half as far out as the smallest success so far."""
        restarts, most = self.attack.restarts, self.attack.outset
        if restarts == 1:
            return variable
        out = scene.radius.minimum(-self.active.result.best_value[index]).clamp_max(most) / 2
        random = self.threat.start(scene.within(out), noise, run, border=True)
        return torch.where(wide(run % restarts > 0, random), random, variable)

    def begin_run(self, samples: Samples) -> None:
        samples.state[CLEARANCE] = self.active.extra[CLEARANCE][samples.index]
        samples.state[UNCLEAR] = torch.full_like(samples.radius, -torch.inf)
        samples.state[UNCLEAR_AT] = samples.variable.clone()

    def value(self, samples: Samples, wrong: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Minus the size where a point is clearly wrong, and whether it is inside the radius too."""
        size = self.threat.size(samples.scene, samples.variable)
        inside = is_within(size, samples.radius)
        clear = wrong & is_ahead(logits, samples.labels, by=samples.state[CLEARANCE])
        better = wrong & ~clear & inside & (-size > samples.state[UNCLEAR])
        samples.state[UNCLEAR] = torch.where(better, -size, samples.state[UNCLEAR])
        point = samples.state[UNCLEAR_AT]
        samples.state[UNCLEAR_AT] = torch.where(wide(better, point), samples.variable, point)
        return torch.where(clear, -size, -torch.inf), clear & inside

    def record(self, samples: Samples) -> None:
        """Records the smallest unclear points of the samples that are done."""
        unclear, unclear_at = self.active.extra[UNCLEAR], self.active.extra[UNCLEAR_AT]
        better = samples.done & ~samples.free & (samples.state[UNCLEAR] > unclear[samples.index])
        rows = better.nonzero().squeeze(1)
        unclear[samples.index[rows]] = samples.state[UNCLEAR][rows]
        unclear_at[samples.index[rows]] = samples.state[UNCLEAR_AT][rows]

    def stretch(self) -> None:
        """Scales unclear points away from their images until they are clear.

        One counts where it is then smaller than the smallest clear point, and inside its radius.
        """
        active, result = self.active, self.active.result
        if UNCLEAR not in active.extra:  # the loop had ended before a kill: the result is the one that was saved
            return
        unclear, unclear_at = active.extra[UNCLEAR], active.extra[UNCLEAR_AT]
        left = (unclear > result.best_value).nonzero().squeeze(1)
        for factor in STRETCHES:
            if not len(left):
                break
            images, radius = active.batch.images[left], active.radius[left]
            scene = Scene(images, radius, {name: prop[left] for name, prop in result.props.items()})
            scale = (radius / -unclear[left]).clamp(1.0, factor)  # no further than the radius
            further = (wide(scale, images) * unclear_at[left]).clamp(-images, 1.0 - images)
            size = self.threat.size(scene, further)
            fits = (is_within(size, radius) & (-size > result.best_value[left])).nonzero().squeeze(1)
            left, further, size = left[fits], further[fits], size[fits]
            clear = torch.zeros_like(left, dtype=torch.bool)
            with torch.no_grad():
                for part in parts_of(torch.arange(len(left), device=left.device), active.width):
                    logits = active.model.exact(self.threat.render(scene.take(fits[part]), further[part]))
                    labels, clearance = active.batch.labels[left[part]], active.extra[CLEARANCE][left[part]]
                    clear[part] = is_wrong(logits, labels) & is_ahead(logits, labels, by=clearance)
            result.forwards[left] += 1
            won = left[clear]
            result.variable[won], result.best_value[won], result.broken[won] = further[clear], -size[clear], True
            left = left[~clear]
        # inside a finite radius wrong is enough, as for other attacks
        left = left[active.radius[left].isfinite() & ~result.broken[left]]
        result.variable[left], result.best_value[left], result.broken[left] = unclear_at[left], unclear[left], True
