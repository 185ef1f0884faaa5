"""What the configuration is made of: the base model, value types, faults and cross-field rules."""
