"""Layer 3: compiled CPU loops."""
