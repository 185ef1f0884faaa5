#!/usr/bin/env bash
# The kubelet's client certificate, which it renews by itself until it has expired. Sourced, never
# run.

KUBELET_CERTIFICATE=$KUBELET_PKI/kubelet-client-current.pem

# With an expired one the kubelet neither talks to the API nor starts. Its kubeconfig names a link,
# which leads to another certificate at once.
replace_kubelet_certificate() {
  local work=$RUN_DIR/kubelet-certificate file part
  step "a new client certificate for the kubelet"
  file=$KUBELET_PKI/kubelet-client-$(date -u +%Y-%m-%d-%H-%M-%S).pem
  at_exit "rm -rf -- '$work'"
  rm -rf -- "$work"
  install -d -m 0700 -- "$work"
  run kubeadm init phase kubeconfig kubelet --config "$INIT_CONFIG" --kubeconfig-dir "$work" ||
    die "kubeadm could not issue a certificate for the kubelet"
  (umask 077 && for part in certificate key; do
    sed -n "s/^ *client-$part-data: //p" "$work/kubelet.conf" | base64 -d
  done >"$file")
  sync -- "$file"
  ln -sfT -- "$file" "$KUBELET_CERTIFICATE.new"
  mv -fT -- "$KUBELET_CERTIFICATE.new" "$KUBELET_CERTIFICATE"
  systemctl reset-failed kubelet.service 2>/dev/null || true # it has tried to start often
  systemctl restart kubelet.service || die "the kubelet does not start" kubelet.service
}
