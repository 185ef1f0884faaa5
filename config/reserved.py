"""Names that belong to Kubernetes, kubeadm or this program, and what to use in their place."""

from collections.abc import Mapping

from config import ports

# Cinder CSI and the cloud controller mark volumes and load balancers with it in every cluster that
# was given no name: `pulumi destroy` would delete theirs.
CLUSTER = "kubernetes"
POOLS = ("gateway", "control-plane", "worker")

# kube-controller-manager and Cilium give each node a /24 of the pod network by default: twice the
# 110 pods that a kubelet runs at most, because a pod's address is not reused at once.
NODE_PREFIX = 24

# Of nodes that are no server of this cloud: nothing that asks for a server's metadata runs there.
NO_SERVER = "openstack-kubernetes/no-server"

# Set by the kubelet itself, or what the program knows a control plane or an address by.
LABELS = frozenset(
    {
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "node-role.kubernetes.io/control-plane",
        "node-role.kubernetes.io/master",
        "node-restriction.kubernetes.io/openstack-kubernetes-address",
        NO_SERVER,
    }
)
# Set by the cloud controller and Cinder CSI.
CLOUD_LABELS = frozenset({"node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"})
CLOUD_LABEL_PREFIXES = frozenset(
    {
        "topology.kubernetes.io",
        "failure-domain.beta.kubernetes.io",
        "topology.cinder.csi.openstack.org",
    }
)

_CERTIFICATES = "kubeadm and the program manage the kubelets' certificates"
_ACCESS = "kubeadm sets who may talk to a kubelet: the API server alone"
_HEALTH = (
    f"the program asks port {ports.KUBELET_HEALTH} of the loopback whether the kubelet is healthy"
)
# Fields of KubeletConfiguration, each with the reason.
KUBELET_FIELDS: Mapping[str, str] = {
    "address": "the API server asks the kubelet at the node's address, for logs, exec and metrics",
    "authentication": _ACCESS,
    "authorization": _ACCESS,
    "cgroupDriver": "must be the one of containerd, systemd, or no pod starts",
    "clusterDNS": "kubeadm computes it from serviceCidr; with another one no pod finds a name",
    "clusterDomain": "must be the one of CoreDNS, cluster.local, or no pod finds a name",
    "containerRuntimeEndpoint": "the program installs containerd, and kubeadm names its socket",
    "enableServer": "without it there are no logs, no exec and no metrics",
    "healthzBindAddress": _HEALTH,
    "healthzPort": _HEALTH,
    "port": f"the API server and the security groups expect {ports.KUBELET}",
    "providerID": "differs on each machine, and the program sets it",
    "registerNode": "the program waits for the Node that the kubelet creates",
    "registerWithTaints": "use the taints of the pool",
    "rotateCertificates": _CERTIFICATES,
    "serverTLSBootstrap": _CERTIFICATES,
    "staticPodPath": "kubeadm puts etcd and the control plane there",
    "tlsCertFile": _CERTIFICATES,
    "tlsPrivateKeyFile": _CERTIFICATES,
}


def _each(names: str, reason: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), reason)


_KUBEADM = "kubeadm sets it for this cluster"
# Arguments of each component, each with the reason.
ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "apiServer": {
        **_each(
            """
            advertise-address allow-privileged authorization-mode bind-address client-ca-file
            enable-bootstrap-token-auth etcd-cafile etcd-certfile etcd-keyfile etcd-prefix
            etcd-servers kubelet-certificate-authority kubelet-client-certificate
            kubelet-client-key kubelet-preferred-address-types proxy-client-cert-file
            proxy-client-key-file requestheader-allowed-names requestheader-client-ca-file
            requestheader-extra-headers-prefix requestheader-group-headers
            requestheader-username-headers secure-port service-account-issuer
            service-account-key-file service-account-signing-key-file service-cluster-ip-range
            tls-cert-file tls-private-key-file
            """,
            _KUBEADM,
        ),
        **_each(
            """
            audit-log-maxage audit-log-maxbackup audit-log-maxsize audit-log-path
            audit-policy-file
            """,
            "use auditLog",
        ),
        **_each(
            """
            authentication-config oidc-ca-file oidc-client-id oidc-groups-claim
            oidc-groups-prefix oidc-issuer-url oidc-required-claim oidc-signing-algs
            oidc-username-claim oidc-username-prefix
            """,
            "use oidc",
        ),
        "admission-control-config-file": "the program sets it for podSecurity",
        "anonymous-auth": "the program allows the paths of probes only",
        "encryption-provider-config": "use encryptionAtRest",
        "encryption-provider-config-automatic-reload": "a rotation of encryption keys needs it",
        "shutdown-delay-duration": "must be the one that the gateways' probes need",
    },
    "controllerManager": {
        **_each(
            """
            allocate-node-cidrs authentication-kubeconfig authorization-kubeconfig bind-address
            client-ca-file cluster-cidr cluster-name cluster-signing-cert-file
            cluster-signing-key-file controllers kubeconfig leader-elect
            requestheader-client-ca-file root-ca-file secure-port
            service-account-private-key-file service-cluster-ip-range
            use-service-account-credentials
            """,
            _KUBEADM,
        ),
        **_each(
            "node-cidr-mask-size node-cidr-mask-size-ipv4",
            f"every node has a /{NODE_PREFIX} of podCidr",
        ),
    },
    "scheduler": {
        **_each(
            """
            authentication-kubeconfig authorization-kubeconfig bind-address kubeconfig
            leader-elect secure-port
            """,
            _KUBEADM,
        ),
        "config": "the scheduler's pod has no such file",
    },
}
