"""Runs kube-bench on every node of a running cluster, and compares it with docs/cis.md."""
