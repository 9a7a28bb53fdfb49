"""How fast, how good: measurements against the reference library and against our own targets. See README.md."""
