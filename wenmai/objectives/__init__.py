"""Layer 3: losses."""
