"""Layer 7: the shell."""
