"""Models, composed from an embedding, an encoder, a read-out and a head."""
