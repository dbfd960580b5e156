"""`python -m taskforge.cli`, by which a supervising process starts others without knowing where the
script is."""

from taskforge.cli import main

if __name__ == "__main__":
    main()
