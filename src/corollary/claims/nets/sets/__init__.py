"""Networks of sets."""
