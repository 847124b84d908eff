"""The manifest: what a release says of itself, refused unless its guarantee follows from its noise."""
