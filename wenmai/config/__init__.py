"""Layer 2: settings and recipes."""
