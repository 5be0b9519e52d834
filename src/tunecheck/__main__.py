"""`python -m tunecheck`: the command line."""

import os
import sys

if __name__ == "__main__":
    # Python looks for modules in the current folder first, which may contain files of other people.
    if not sys.flags.safe_path and sys.path[0] in ("", os.getcwd()):  # noqa: PTH109 - pathlib is not loaded yet
        del sys.path[0]
    from tunecheck.cli import main

    sys.exit(main())
