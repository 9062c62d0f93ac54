"""Features and training points that are to blame for a prediction."""
