"""`python -m tribayes` is the command line."""

from tribayes.cli import main

if __name__ == "__main__":
    main()
