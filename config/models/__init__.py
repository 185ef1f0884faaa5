"""The configuration as frozen pydantic models, independent of Pulumi."""
