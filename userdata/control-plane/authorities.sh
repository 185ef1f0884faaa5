#!/usr/bin/env bash
# The certificate authorities of this control plane, and the steps of their rotation. Sourced, never
# run; after node/authorities.sh and node/kubelet-certificates.sh.
# shellcheck disable=SC2154 # kubernetes-files.sh sets PKI
#
# Each file has all that are trusted, and first the one that issues: kubeadm takes the first one. The
# controller manager takes one only, from a file of its own. `next/` has those of the newest
# generation, which take their place.

AUTHORITIES=(ca front-proxy-ca etcd/ca)
NEXT=$PKI/next
ISSUING=$PKI/issuing-ca.crt

# copy_authorities: of the folder, on a machine that is no member yet.
copy_authorities() {
  copy_certificates "$FOLDER/pki" "$PKI"
  keep_next_authorities
}

# update_authorities: on a member. It does not change what is in use: the steps do.
update_authorities() {
  share_certificate "$FOLDER/pki/ca.crt" "$PKI/ca.crt" ||
    die "the CA certificate in the folder is not that of the cluster of which this machine is a member"
  keep_next_authorities
}

# keep_next_authorities: for the steps, which come later.
keep_next_authorities() {
  local issuing
  [[ -d $FOLDER/pki/next ]] || return 0
  copy_certificates "$FOLDER/pki/next" "$NEXT"
  issuing=$(first_certificate "$PKI/ca.crt")
  write_file "$ISSUING" 0644 "$issuing"
}

# copy_certificates FROM TO: and their keys.
copy_certificates() {
  local file mode
  for file in "$1"/* "$1"/etcd/*; do
    [[ -f $file ]] || continue
    mode=0600
    [[ $file == *.key ]] || mode=0644
    copy_file "$file" "$2/${file#"$1"/}" "$mode"
  done
}

# authorities STEP: a step of cluster/certificate-authorities.sh, which has all control planes do one
# before any of them does the next. Each can be repeated.
#
#   trust          everything here accepts what the newest CAs have issued
#   issue          they issue, and have issued all that this control plane serves and uses
#   forget         nothing here accepts what others have issued
#   certificates   the kubelet's are of the newest CA, which is on standard input
#   check          refuses if anything here is of another CA
authorities() {
  local usage="usage: control-plane.sh authorities trust|issue|forget|certificates|check"
  (($# == 1)) || die "$usage"
  [[ -s $NEXT/ca.key ]] || die "this control plane does not have the newest CAs: run pulumi up first"
  case $1 in
    trust) trust_next ;;
    issue) issue_with_next ;;
    forget) forget_others ;;
    certificates) kubelet_authorities certificates ;;
    check)
      check_issued
      kubelet_authorities check
      ;;
    *) die "$usage" ;;
  esac
}

trust_next() {
  local name
  for name in "${AUTHORITIES[@]}"; do
    has_certificate "$PKI/$name.crt" "$NEXT/$name.crt" ||
      write_bundle "$name" "$PKI/$name.crt" "$NEXT/$name.crt"
  done
  apply_authorities
}

issue_with_next() {
  local name first
  for name in "${AUTHORITIES[@]}"; do
    has_certificate "$PKI/$name.crt" "$NEXT/$name.crt" ||
      die "this control plane does not trust the newest CAs yet"
  done
  if [[ -n $(issued_by_others) ]]; then
    for name in "${AUTHORITIES[@]}"; do
      copy_file "$NEXT/$name.key" "$PKI/$name.key" 0600
      write_bundle "$name" "$NEXT/$name.crt" "$PKI/$name.crt"
    done
    first=$(first_certificate "$PKI/ca.crt")
    write_file "$ISSUING" 0644 "$first"
    run_renewal
  fi
  apply_authorities
  check_served
}

forget_others() {
  local name
  check_issued
  for name in "${AUTHORITIES[@]}"; do
    copy_file "$NEXT/$name.crt" "$PKI/$name.crt" 0644
  done
  apply_authorities
}

# write_bundle NAME FILE...: their certificates, each once, in this order.
write_bundle() {
  local line text
  text=$(for file in "${@:2}"; do certificates_of "$file"; done | awk '!seen[$0]++' |
    while IFS= read -r line; do
      printf -- '-----BEGIN CERTIFICATE-----\n%s\n-----END CERTIFICATE-----\n' "$(fold -w 64 <<<"$line")"
    done)
  write_file "$PKI/$1.crt" 0644 "$text"
}

# apply_authorities: API server and kubelet read whom they trust again by themselves, but etcd, and
# those that verify a server, do so when they start.
apply_authorities() {
  complete_certificates
  changed "$PKI"/{ca,front-proxy-ca,etcd/ca}.{crt,key} "$KUBERNETES_DIR"/*.conf || return 0
  wait_for_turn "other certificate authorities"
  restart_in_turn "the next run restarts what is left"
  restart_kubelet
}

# issued_by_others: the files of certificates of kubeadm's that are not of the newest CAs.
issued_by_others() {
  local file authority work=$RUN_DIR/issued.crt
  mkdir -p -- "$RUN_DIR"
  while read -r file; do
    case $file in
      "$PKI"/etcd/* | "$PKI"/apiserver-etcd-client.crt) authority=$NEXT/etcd/ca.crt ;;
      "$PKI"/front-proxy-client.crt) authority=$NEXT/front-proxy-ca.crt ;;
      *) authority=$NEXT/ca.crt ;;
    esac
    certificate_in "$file" >"$work"
    issued_by "$authority" "$work" || printf '%s\n' "$file"
  done < <(issued_certificates)
  rm -f -- "$work"
}

check_issued() {
  local others
  others=$(issued_by_others | paste -sd ' ')
  [[ -z $others ]] || die "these certificates are not of the newest CAs: $others"
}

# What is served may be older than the file.
check_served() {
  wait_for 120 "the API server to serve a certificate of the newest CA" serves "$API_PORT" "$NEXT/ca.crt" ||
    die "the API server of this machine serves a certificate of another CA than the newest one" kubelet.service
  wait_for 120 "etcd to serve a certificate of the newest CA" serves "$ETCD_CLIENT_PORT" "$NEXT/etcd/ca.crt" ||
    die "etcd of this machine serves a certificate of another CA than the newest one" kubelet.service
}

# serves PORT AUTHORITY
serves() {
  { timeout 10 openssl s_client -connect "$NODE_IP:$1" -CAfile "$2" </dev/null 2>&1 || true; } |
    grep -q 'Verify return code: 0 (ok)'
}

# complete_certificates: when kubeadm has issued some. It writes the CA that issues into kubeconfigs, and
# nothing behind the API server's certificate. Clients that trust an earlier CA only follow the one that
# issues by those that each CA has signed for the next one.
complete_certificates() {
  local certificate=$PKI/apiserver.crt file text
  [[ -s $NEXT/ca.crt ]] || return 0
  for file in "$KUBERNETES_DIR"/*.conf; do
    trust_in_kubeconfig "$file" "$PKI/ca.crt"
  done
  text=$(first_certificate "$certificate" && cat -- "$NEXT/cross-signed.crt")
  write_file "$certificate" 0644 "$text"
}
