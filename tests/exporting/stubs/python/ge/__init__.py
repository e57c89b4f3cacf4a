"""The Graph Engine's Python package as far as exported passes use it, in our own words, to run them."""
