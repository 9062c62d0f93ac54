"""Networks with a state that is carried through time."""
