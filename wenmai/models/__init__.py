"""Layer 4: one published architecture a file."""
