"""Rows in, scores with intervals out. No torch, no files."""
