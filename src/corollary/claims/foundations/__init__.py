"""Facts that the theory stands on, measured."""
