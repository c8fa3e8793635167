"""`python -m experiments table2 …`: the paper's tables and figures."""

from experiments.reproduce import reproduce
from wordwave.cli import run_guarded

if __name__ == "__main__":
    run_guarded(lambda words: reproduce(words, "python -m experiments"), "experiments")
