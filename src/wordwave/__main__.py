"""`python -m wordwave …`, also under `accelerate launch -m`."""

from wordwave.cli import main

if __name__ == "__main__":
    main()
