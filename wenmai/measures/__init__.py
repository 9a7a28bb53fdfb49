"""Layer 3: measures of quality, each with its uncertainty."""
