"""Layer 1: what all other layers use (errors, files that survive a crash)."""
