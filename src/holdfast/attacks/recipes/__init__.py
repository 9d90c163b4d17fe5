"""Attacks as registered: a threat, an objective and a step put together, or several attacks combined."""
