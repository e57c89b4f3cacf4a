"""Print the n-th shell block of README.md, so that CI runs what the README says."""

import re
import sys
from pathlib import Path

text = Path(__file__).resolve().parent.parent.joinpath("README.md").read_text(encoding="utf-8")
blocks = re.findall(r"^```(?:sh|bash)\n(.*?)^```", text, re.M | re.S)
print(blocks[int(sys.argv[1]) - 1].strip())
