"""Types of single values, each checked for what it means where it is used."""
