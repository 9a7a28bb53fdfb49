"""Layer 1: what everything else stands on (errors, files that survive a crash)."""
