"""`python -m gerules.cli`: the program without its script."""

import sys

from gerules.cli.start import main

sys.exit(main())
