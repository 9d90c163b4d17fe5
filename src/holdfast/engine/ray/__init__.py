"""Evaluate on a Ray cluster."""
