"""`python -m tunecheck`: the command line."""

import sys

from tunecheck.cli._app import main

if __name__ == "__main__":
    sys.exit(main())
