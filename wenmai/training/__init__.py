"""Layer 5: training loops, checkpoints and the records they write."""
