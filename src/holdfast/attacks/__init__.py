"""Attacks: threats x objectives x steps through one loop, and the recipes named after what they run."""
