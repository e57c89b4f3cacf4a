"""What can be said of a rule set before it runs: termination, overlap, guards, values, exactness."""
