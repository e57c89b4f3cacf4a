"""Rules written as custom passes of the Graph Engine."""
