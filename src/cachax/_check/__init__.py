"""Are cached values correct? `verify`, and the laws as small programs."""
