"""The order laboratory: tasks × encoders × embeddings, and what they show."""
