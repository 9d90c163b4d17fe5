"""holdfast measures how an image classifier holds up when the world changes."""

__version__ = "0.1.0"
