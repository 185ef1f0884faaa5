"""Types of single values, with their checks."""
