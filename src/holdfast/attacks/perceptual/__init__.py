"""Attacks inside an LPIPS ball, and the networks that measure LPIPS."""
