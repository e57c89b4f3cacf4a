"""`python -m gerules.cli`: the program without its script."""

import sys

from gerules.cli.app import main

sys.exit(main())
