"""Training: one loop for every task, independent of the model."""
