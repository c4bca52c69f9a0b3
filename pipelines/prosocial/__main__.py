"""``python -m pipelines.prosocial``: the same as ``remint prosocial``."""

import sys

from pipelines.cli import main

if __name__ == "__main__":
    sys.exit(main(["prosocial", *sys.argv[1:]]))
