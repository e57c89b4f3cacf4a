"""Counts as sentences have them."""

from __future__ import annotations


def count_text(count: int, what: str, plural: str = "") -> str:
    """Return a count with its noun.

    >>> count_text(1, "event"), count_text(2, "event"), count_text(0, "match", "matches")
    ('1 event', '2 events', '0 matches')
    """
    return f"{count} {what if count == 1 else plural or what + 's'}"


def there_are(count: int, what: str, plural: str = "") -> str:
    """Return a count as a sentence.

    >>> there_are(1, "buffer"), there_are(0, "buffer")
    ('there is 1 buffer', 'there are 0 buffers')
    """
    return f"there {'is' if count == 1 else 'are'} {count_text(count, what, plural)}"
