"""Programs that run in the cluster, in plain images."""
