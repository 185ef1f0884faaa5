"""The configuration as frozen pydantic models; nothing here knows Pulumi."""
