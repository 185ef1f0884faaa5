"""Kubernetes' own conformance tests against a live cluster (`make conformance`)."""
