"""What the theory stands on: norms, calculus, matrices, probability, concentration, and the setting of learning."""
