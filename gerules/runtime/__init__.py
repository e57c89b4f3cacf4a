"""Running: kernels on numpy, and executors of graphs and of `.om` files."""
