"""Repairs a stack whose `pulumi up` was killed: its lock, its orphans, its pending operations."""
