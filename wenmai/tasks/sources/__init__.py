"""One source for each kind of training data."""
