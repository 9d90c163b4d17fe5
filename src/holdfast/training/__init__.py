"""Reference models: standard, noise-augmented and adversarial training on any threat."""
