"""Differentiation of programs, written for reading, with its cost counted."""
