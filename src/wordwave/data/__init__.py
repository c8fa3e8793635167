"""Data sets: generated, built in, and downloaded."""
