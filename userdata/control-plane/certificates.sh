#!/usr/bin/env bash
# The certificates that kubeadm issued on this machine. Sourced, never run.

CERTIFICATES_METRICS=$METRICS_DIR/certificates.prom

# certificate_within SECONDS: the file of one that expires within this time, if there is one.
certificate_within() {
  local file
  while read -r file; do
    ! expires_within "$1" "$file" || {
      printf '%s\n' "$file"
      return
    }
  done < <(issued_certificates)
}

# issued_certificates: the files of those that kubeadm renews; a kubeconfig contains one.
issued_certificates() {
  local name file
  for name in pki/{apiserver{,-etcd-client,-kubelet-client},front-proxy-client}.crt \
    pki/etcd/{server,peer,healthcheck-client}.crt {admin,super-admin,controller-manager,scheduler}.conf; do
    file=$KUBERNETES_DIR/$name
    [[ ! -e $file ]] || printf '%s\n' "$file"
  done
}

certificate_in() {
  case $1 in
    *.conf) sed -n 's/^ *client-certificate-data: //p' "$1" | base64 -d ;;
    *) cat -- "$1" ;;
  esac
}

# expires_within SECONDS FILE: a file without a certificate does not.
expires_within() {
  local certificate
  [[ -e $2 ]] || return 1
  certificate=$(certificate_in "$2") && [[ -n $certificate ]] || return 1
  ! openssl x509 -noout -checkend "$1" <<<"$certificate" >/dev/null
}

expiry_of() {
  local text
  text=$(certificate_in "$1" | openssl x509 -noout -enddate) || return
  date -u -d "${text#notAfter=}" +%Y-%m-%dT%H:%M:%SZ
}

# For addons/monitoring/alerts/certificates.py.
report_certificates() {
  local file metric=openstack_kubernetes_certificate_expiry_timestamp_seconds
  for file in $(issued_certificates) "$KUBELET_CERTIFICATE"; do
    [[ ! -e $file ]] || echo "$metric{certificate=\"${file#"$ROOT"}\"} $(date -d "$(expiry_of "$file")" +%s)"
  done | write_gauge "$CERTIFICATES_METRICS" "$metric" "When a certificate on this control plane expires."
}
