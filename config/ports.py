"""Every port of a cluster, once. The node scripts get those that they need by `node.env`."""

SSH = 22
"""On every machine; at the floating IP, the active gateway's."""
FIRST_GATEWAY_SSH = 2200
"""At the floating IP: gateway *i* has this port plus *i*."""
HTTP = 80
HTTPS = 443
"""At the floating IP: the ingress."""
INGRESS_HTTP = 30080
INGRESS_HTTPS = 30443
"""Node ports of the ingress controller, where the gateways send HTTP and HTTPS."""
NODE_PORTS = (30000, 32767)
"""What Kubernetes takes the ports of Services from: first and last."""

API = 6443
"""API servers, and the API at the floating IP."""
LOCAL_API = 7443
"""The API on the loopback of every node, balanced over the control planes by HAProxy."""
KUBELET = 10250
ETCD_CLIENT = 2379
ETCD_PEER = 2380

VXLAN = 8472
"""Pod network (UDP)."""
CILIUM_HEALTH = 4240
HUBBLE = 4244

HAPROXY_HEALTH = 8404
"""On the loopback: whether this machine's HAProxy is alive."""
GATEWAY_STATUS = 8405
"""On gateways: whether HAProxy is alive, for the other gateways; its metrics."""
NODE_EXPORTER = 9100
KUBE_PROXY_METRICS = 10249
ETCD_METRICS = 2381
CONTROLLER_MANAGER_METRICS = 10257
SCHEDULER_METRICS = 10259
