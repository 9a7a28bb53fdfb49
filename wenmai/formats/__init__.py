"""Layer 5: files of the outside world, both ways."""
