"""Networks of graphs."""
