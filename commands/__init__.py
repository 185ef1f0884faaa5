"""Commands that run alongside `pulumi up`, each started by `python -m`."""
