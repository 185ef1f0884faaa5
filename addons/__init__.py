"""The add-ons of a cluster: one module for each, and the few that they share."""
