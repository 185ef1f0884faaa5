"""Commands that run beside `pulumi up`, each started by `python -m`."""
