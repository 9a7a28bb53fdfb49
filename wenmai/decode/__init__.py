"""Layer 3: from a model's next-token scores to text: greedy, beam and exhaustive search, sampling."""
