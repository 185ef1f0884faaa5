"""Suites of tests that others wrote, on a live cluster (`make conformance` and others)."""
