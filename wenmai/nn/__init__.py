"""Layers of torch models: attention and its masks, caches, positions, recurrent and convolutional networks."""
