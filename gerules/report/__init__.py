"""Reports: what a compile did and what rules promise, as data, text and JSON."""
