"""Boards: the models of a suite beside each other, from what papers print, what was imported and what was measured."""
