"""What runs in a new cluster: one module for each add-on."""
