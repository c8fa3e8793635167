"""Training: one loop for every task. Knows no model."""
