#!/usr/bin/env bash
# The certificates that kubeadm issued on this machine. Sourced, never run.

RENEW_DAYS=45

# They are valid for a year; upgrades renew them too.
renew_certificates() {
  local file pod pending=$STATE_DIR/renewed
  step "certificates"
  for file in "$PKI"/*.crt "$PKI"/etcd/*.crt; do
    [[ $file != */ca.crt && $file != */front-proxy-ca.crt ]] || continue
    openssl x509 -noout -checkend $((RENEW_DAYS * 86400)) -in "$file" >/dev/null && continue
    log "${file##*/} expires within $RENEW_DAYS days: renewing all"
    : >"$pending"
    run kubeadm certs renew all || die "kubeadm could not renew the certificates"
    break
  done
  # Also if an earlier run was interrupted before all of them had restarted.
  [[ -e $pending ]] || return 0
  for pod in "${STATIC_PODS[@]}"; do
    restart_static_pod "$pod"
  done
  rm -f -- "$pending"
}

# reissue_api_server_certificate CONFIG: kubeadm keeps a certificate that exists, but its names may
# have changed. The API server reads the new one by itself.
reissue_api_server_certificate() {
  rm -f -- "$PKI"/apiserver.{crt,key}.old
  mv -f -- "$PKI/apiserver.crt" "$PKI/apiserver.crt.old"
  mv -f -- "$PKI/apiserver.key" "$PKI/apiserver.key.old"
  run kubeadm init phase certs apiserver --config "$1" || {
    mv -f -- "$PKI/apiserver.crt.old" "$PKI/apiserver.crt"
    mv -f -- "$PKI/apiserver.key.old" "$PKI/apiserver.key"
    die "kubeadm could not issue the API server's certificate"
  }
  rm -f -- "$PKI/apiserver.crt.old" "$PKI/apiserver.key.old"
}

# A run that was interrupted there left none; kubeadm writes the certificate after its key.
restore_api_server_certificate() {
  [[ ! -e $PKI/apiserver.crt && -e $PKI/apiserver.crt.old ]] || return 0
  log "an earlier run was interrupted while it renewed the API server's certificate"
  [[ ! -e $PKI/apiserver.key.old ]] || mv -f -- "$PKI/apiserver.key.old" "$PKI/apiserver.key"
  mv -f -- "$PKI/apiserver.crt.old" "$PKI/apiserver.crt"
}
