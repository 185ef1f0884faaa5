"""All clusters of a backend: what they are, and the way into each."""
