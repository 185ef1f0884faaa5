"""Put a stack right whose `pulumi up` was killed: no lock, no half-made things, nothing pending."""
