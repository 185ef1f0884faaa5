#!/usr/bin/env bash
# The keys that sign the tokens of service accounts, by the ID that is in each token. Sourced, never
# run; after kubectl.sh.

# key_id <FILE: of a public key.
key_id() {
  openssl pkey -pubin -outform DER | openssl dgst -sha256 -binary | base64 --wrap=0 |
    tr '+/' '-_' | tr -d '='
}

# accepted_keys ADDRESS: the IDs of the keys that the API server there accepts, one a line.
accepted_keys() {
  kube --server="https://$1:$API_PORT" get --raw /openid/v1/jwks |
    grep -oE '"kid": *"[^"]+' | sed 's/.*"//'
}
