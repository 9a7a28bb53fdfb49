"""Layer 3: measures, each with its uncertainty."""
