"""Forward and reverse mode: correctness and cost."""
