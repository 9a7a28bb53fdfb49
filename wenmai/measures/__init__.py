"""Layer 3: metrics of quality, each with its uncertainty."""
