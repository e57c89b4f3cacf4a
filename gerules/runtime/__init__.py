"""Running: graphs by meaning, `.om` files by their own order and offsets, and what parts the two."""
