"""Training: one loop for every task. Of a model it knows no more than that it may have an
embedding, whose frequencies learn at a rate of their own."""
