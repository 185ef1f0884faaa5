"""A Nova compute driver whose servers are LXC system containers with Neutron ports."""
