"""Run the command line with `python -m groupnoise`."""

from groupnoise.cli.app import main

if __name__ == "__main__":
    main()
