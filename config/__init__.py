"""The configuration of a cluster: models, values, rules over them, and what follows from it."""
