"""Hollow nodes: what a machine and its kubelet say to the cluster, without running anything.

Hundreds of them fit into one process. Each answers SSH as a worker's scripts do, joins with the
token that it is handed, and is a Node: it asks for its certificates, renews its Lease, and says of
every pod on it that it runs. So the engine, the program, the gateways and the API servers have the
work of a real cluster, and the machines and containers are left out.
"""
