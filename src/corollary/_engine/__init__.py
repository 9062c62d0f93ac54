"""Traced programs and integrators that several rooms share: looked at, rewritten, run again. Private."""
