"""The parts of a cluster as Pulumi components."""
