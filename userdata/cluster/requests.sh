#!/usr/bin/env bash
# The kubelets' requests for certificates. Sourced, never run.

# pending_requests SIGNER: lines of NAME USER REQUEST, of those that no one has decided.
pending_requests() {
  kube get certificatesigningrequests --field-selector "spec.signerName=$1" \
    -o go-template='{{range .items}}{{if not .status.conditions}}{{.metadata.name}} {{.spec.username}} {{.spec.request}}{{"\n"}}{{end}}{{end}}'
}

# read_request REQUEST: sets `request_text` and `request_subject`.
read_request() {
  request_subject=''
  request_text=$(base64 -d <<<"$1" | openssl req -noout -verify -subject -nameopt RFC2253 -text 2>/dev/null) || return
  # shellcheck disable=SC2034 # the scripts that source this use it
  request_subject=$(sed -n 's/^subject=//p' <<<"$request_text")
}

# kubelet_subject NODE
kubelet_subject() {
  printf 'CN=system:node:%s,O=system:nodes' "$1"
}
