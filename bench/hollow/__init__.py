"""Hollow nodes: what a machine and its kubelet say to the cluster, without running anything.

Hundreds of them fit into one process. Each answers SSH as a worker's scripts do, joins with the
token that it is handed, and is a Node: it asks for its certificates, renews its Lease, and says of
every pod on it that it runs. So the engine, the program and the gateways have the work of a real
cluster. Machines and containers are left out, and with them a part of the API servers' work: the
probes of each node's HAProxy, and the watches of kube-proxy, of the pod network, and of a kubelet
for anything but its pods.
"""
