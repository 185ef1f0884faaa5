"""Programs that run inside the cluster, in plain images."""
