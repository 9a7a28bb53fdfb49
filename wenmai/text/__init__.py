"""Layer 2: text before it becomes numbers (normalisation, segmentation, vocabulary, phrases)."""
