"""Plan, evaluate, resume."""
