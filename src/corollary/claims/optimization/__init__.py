"""Optimisation: the rates of the texts, measured."""
