"""Speed compared with other implementations, measured in turns: `python -m benchmarks`."""
