"""The recipes of the bundled models: everything that decides their weights, in one place."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.core.registry import register

FASHION = "fashion-mnist:split=train"
CIFAR = "cifar10:split=train"
EPOCHS = 20


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a model is trained. `attack` and `corruption` are refs; with neither, training is standard.

    `mixed`: passes through the network in bfloat16 where the device has it.
    """

    name: str
    dataset: str = FASHION
    architecture: str = "small-cnn"
    epochs: int = EPOCHS
    batch: int = 512
    rate: float = 3e-3
    weight_decay: float = 5e-4
    shift: int = 2
    average: float = 0.999
    attack: str | None = None
    corruption: str | None = None
    mixed: bool = False
    seed: int = 0


@register("recipe", "fashion-standard")
def fashion_standard(*, dataset: str = FASHION, epochs: int = EPOCHS, seed: int = 0) -> Recipe:
    """Standard training on Fashion-MNIST."""
    return Recipe("fashion-standard", dataset=dataset, epochs=epochs, seed=seed)


@register("recipe", "fashion-noise")
def fashion_noise(*, dataset: str = FASHION, epochs: int = EPOCHS, seed: int = 0) -> Recipe:
    """Training with Gaussian noise of random severity, a common recipe against corruptions."""
    corruption = "gaussian-noise:ladder=imagenet"
    return Recipe("fashion-noise", dataset=dataset, epochs=epochs, seed=seed, corruption=corruption)


@register("recipe", "fashion-at-linf", source="Madry et al. 2018, arXiv:1706.06083")
def fashion_at_linf(
    *, dataset: str = FASHION, epochs: int = EPOCHS, seed: int = 0, radius: float = 16 / 255, steps: int = 7
) -> Recipe:
    """Adversarial training against pgd-linf."""
    attack = f"pgd-linf:radius={radius!r},steps={steps}"
    return Recipe("fashion-at-linf", dataset=dataset, epochs=epochs, seed=seed, attack=attack)


@register("recipe", "fashion-at-l2", source="Madry et al. 2018, arXiv:1706.06083")
def fashion_at_l2(
    *, dataset: str = FASHION, epochs: int = EPOCHS, seed: int = 0, radius: float = 1.0, steps: int = 7
) -> Recipe:
    """Adversarial training against pgd-l2."""
    attack = f"pgd-l2:radius={radius!r},steps={steps}"
    return Recipe("fashion-at-l2", dataset=dataset, epochs=epochs, seed=seed, attack=attack)


@register("recipe", "cifar10-at-linf", source="Madry et al. 2018, arXiv:1706.06083")
def cifar10_at_linf(
    *,
    dataset: str = CIFAR,
    architecture: str = "resnet18-cifar",
    epochs: int = 30,
    seed: int = 0,
    radius: float = 8 / 255,
    steps: int = 7,
) -> Recipe:
    """Adversarial training of a ResNet-18 on CIFAR-10 against pgd-linf; minutes on a data-centre GPU, days on a CPU."""
    return Recipe(
        "cifar10-at-linf",
        dataset=dataset,
        architecture=architecture,
        epochs=epochs,
        seed=seed,
        attack=f"pgd-linf:radius={radius!r},steps={steps}",
        shift=4,
        mixed=True,
    )
