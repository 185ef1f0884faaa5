"""The program's own version, and every pinned version of what it installs."""

# Of the release that this is, or of the next one: docs/releasing.md.
PROGRAM = "0.1.0"

# renovate: datasource=github-releases depName=kubernetes/kubernetes
KUBERNETES_VERSION = "v1.36.3"

# The minors that a cluster may have; kubeadm moves one at a time between them. docs/tested.md says
# which ones ran.
KUBERNETES_MINORS = ("1.35", "1.36", "1.37")

# The etcd project's own image, for etcdutl; etcd itself is the one of Kubernetes.
# renovate: datasource=github-releases depName=etcd-io/etcd
ETCD_TOOLS = "v3.6.8"

# --- add-ons: the charts that are installed in the cluster, and the programs without a chart

# renovate: datasource=helm depName=cilium registryUrl=https://helm.cilium.io
CILIUM_CHART = "1.19.3"
# renovate: datasource=github-releases depName=kubernetes/cloud-provider-openstack
CLOUD_CONTROLLER_MANAGER = "v1.36.0"
# renovate: datasource=helm depName=openstack-cinder-csi registryUrl=https://kubernetes.github.io/cloud-provider-openstack
CINDER_CSI_CHART = "2.36.0"
# renovate: datasource=helm depName=metrics-server registryUrl=https://kubernetes-sigs.github.io/metrics-server
METRICS_SERVER_CHART = "3.13.1"
# renovate: datasource=helm depName=snapshot-controller registryUrl=https://piraeus.io/helm-charts
SNAPSHOT_CONTROLLER_CHART = "5.2.0"
# What runs CronJobs of our own: docker.io/library/python.
# renovate: datasource=docker depName=python
JOBS_PYTHON = "3.14.2-alpine"
# renovate: datasource=helm depName=kube-prometheus-stack registryUrl=https://prometheus-community.github.io/helm-charts
KUBE_PROMETHEUS_STACK_CHART = "88.5.3"
# renovate: datasource=helm depName=traefik registryUrl=https://traefik.github.io/charts
TRAEFIK_CHART = "41.3.0"
# renovate: datasource=helm depName=nginx-ingress registryUrl=https://helm.nginx.com/stable
NGINX_INGRESS_CHART = "2.6.4"
# renovate: datasource=helm depName=headlamp registryUrl=https://kubernetes-sigs.github.io/headlamp
HEADLAMP_CHART = "0.45.0"
# renovate: datasource=helm depName=victoria-logs-single registryUrl=https://victoriametrics.github.io/helm-charts
VICTORIA_LOGS_CHART = "0.13.9"
# renovate: datasource=helm depName=fluent-bit registryUrl=https://fluent.github.io/helm-charts
FLUENT_BIT_CHART = "0.58.1"
# Grafana's plugin for the logs.
# renovate: datasource=github-releases depName=VictoriaMetrics/victorialogs-datasource
VICTORIA_LOGS_DATASOURCE = "0.32.0"
# The object store: ghcr.io/versity/versitygw.
# renovate: datasource=github-releases depName=versity/versitygw
VERSITYGW = "v1.8.0"
# renovate: datasource=docker depName=ghcr.io/pulumi/helm-charts/pulumi-kubernetes-operator
PULUMI_OPERATOR_CHART = "2.9.0"
# renovate: datasource=helm depName=kured registryUrl=https://kubereboot.github.io/charts
KURED_CHART = "6.1.0"
