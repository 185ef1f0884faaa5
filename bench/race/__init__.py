"""Race the program against other ways to the same cluster, on the same cloud: `make race`."""
