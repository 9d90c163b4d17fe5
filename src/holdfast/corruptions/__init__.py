"""Corruptions: renderers (image x drawn parameters → image) and their severity ladders, batched, on any device."""
