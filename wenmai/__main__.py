"""``python -m wenmai`` is the same as ``wenmai``."""

import sys

from wenmai.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
