#!/usr/bin/env bash
# The kubelet's client and serving certificates, when another CA issues. Sourced, never run; after
# authorities.sh.

KUBELET_PKI=$ROOT/var/lib/kubelet/pki
KUBELET_CONF=$KUBERNETES_DIR/kubelet.conf

# kubelet_authorities STEP <AUTHORITY: a step of cluster/certificate-authorities.sh for the kubelet. Each can be
# repeated.
#
#   trust          it trusts what ca.crt of the last run says, in clients and in the API server
#   certificates   its certificates are of this authority
#   check          refuses if they are not
kubelet_authorities() {
  local authority=$RUN_DIR/authority.crt
  mkdir -p -- "$RUN_DIR"
  cat >"$authority"
  case $1 in
    trust)
      copy_file "$CONF_DIR/ca.crt" "$KUBERNETES_DIR/pki/ca.crt" 0644
      trust_in_kubeconfig "$KUBELET_CONF" "$CONF_DIR/ca.crt"
      restart_changed_kubelet
      ;;
    certificates)
      replace_kubelet_certificates "$authority"
      ;;
    check) check_kubelet_certificates "$authority" ;;
    *) die "usage: $SCRIPT authorities trust|certificates|check" ;;
  esac
}

restart_changed_kubelet() {
  ! changed "$KUBERNETES_DIR/pki/ca.crt" "$KUBELET_CONF" "$KUBELET_PKI"/kubelet-{client,server}-current.pem ||
    restart_kubelet
}

# Each is asked for while the kubelet works with the old one, and put in its place when both are there.
replace_kubelet_certificates() {
  local kind
  for kind in client server; do
    issued_by "$1" "$KUBELET_PKI/kubelet-$kind-current.pem" || replace_kubelet_certificate_of "$kind" "$1"
  done
  restart_changed_kubelet
}

check_kubelet_certificates() {
  local kind
  for kind in client server; do
    issued_by "$1" "$KUBELET_PKI/kubelet-$kind-current.pem" ||
      die "the kubelet's $kind certificate is not of the newest CA"
  done
}

# replace_kubelet_certificate_of KIND AUTHORITY: the request is approved like one of the kubelet's own.
replace_kubelet_certificate_of() {
  local kind=$1 work=$RUN_DIR/kubelet-$1 signer name file request manifest
  local -a names=()
  step "a $kind certificate of the new CA for the kubelet"
  signer=kubernetes.io/kube-apiserver-client-kubelet
  if [[ $kind == server ]]; then
    signer=kubernetes.io/kubelet-serving
    names=(-addext "subjectAltName=DNS:$NODE_NAME,IP:$NODE_IP")
  fi
  at_exit "rm -rf -- '$work'"
  rm -rf -- "$work"
  install -d -m 0700 -- "$work"
  openssl ecparam -name prime256v1 -genkey -noout -out "$work/key" || die "openssl made no key"
  request=$(openssl req -new -key "$work/key" -subj "/O=system:nodes/CN=system:node:$NODE_NAME" \
    ${names[@]+"${names[@]}"} | base64 --wrap=0) || die "openssl made no request"
  manifest=$(render "$HERE/node/files/kubelet-request.yaml" SIGNER="$signer" KIND="$kind" REQUEST="$request") ||
    die "the request for a $kind certificate could not be written"
  name=$(as_kubelet create -o name -f - <<<"$manifest") ||
    die "the request for a $kind certificate could not be made"
  wait_for "${CERTIFICATE_TIMEOUT:-180}" "the $kind certificate ($name)" is_issued "$name" "$work/certificate" ||
    die "no $kind certificate was issued: kubectl describe $name"
  issued_by "$2" "$work/certificate" ||
    die "the $kind certificate was issued by another CA than the newest one: the next run asks again"
  file=$KUBELET_PKI/kubelet-$kind-$(date -u +%Y-%m-%d-%H-%M-%S).pem
  (umask 077 && cat -- "$work/certificate" "$work/key" >"$file")
  sync -- "$file"
  note_change "$KUBELET_PKI/kubelet-$kind-current.pem"
  ln -sfT -- "$file" "$KUBELET_PKI/kubelet-$kind-current.pem.new"
  mv -fT -- "$KUBELET_PKI/kubelet-$kind-current.pem.new" "$KUBELET_PKI/kubelet-$kind-current.pem"
}

# is_issued NAME FILE: the certificate goes there.
is_issued() {
  as_kubelet get "$1" -o jsonpath='{.status.certificate}' | base64 -d >"$2" && [[ -s $2 ]]
}

as_kubelet() {
  kubectl --kubeconfig "$KUBELET_CONF" --request-timeout=20s "$@"
}
