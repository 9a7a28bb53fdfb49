"""Layer 6: train, resume, evaluate, compare and export over run folders."""
