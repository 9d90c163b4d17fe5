"""Scores over models in; lines, effective robustness, predictions and ranks out. No torch, no files."""
