"""The rule language: syntax, expressions, rule books and their load-time checks."""
