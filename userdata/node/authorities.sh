#!/usr/bin/env bash
# The cluster's CAs as this node knows them. Sourced, never run.

# certificates_of FILE: each one on a line, as base64.
certificates_of() {
  awk '/^-----BEGIN CERTIFICATE-----/ { text = ""; inside = 1; next }
    /^-----END CERTIFICATE-----/ { print text; inside = 0 }
    inside { text = text $0 }' "$1"
}

# first_certificate FILE: as PEM, without what comes behind it.
first_certificate() {
  sed '/^-----END CERTIFICATE-----/q' "$1"
}

# has_certificate FILE OTHER: whether FILE has the first one of OTHER.
has_certificate() {
  grep -qxF -e "$(certificates_of "$2" | head -n 1)" <(certificates_of "$1")
}

# share_certificate FILE FILE: whether any is in both.
share_certificate() {
  grep -qxF -f <(certificates_of "$1") <(certificates_of "$2")
}

# issued_by AUTHORITY FILE: whether this CA has signed the first certificate of the file.
issued_by() {
  first_certificate "$2" | openssl verify -no_check_time -CAfile "$1" >/dev/null 2>&1
}

# trust_in_kubeconfig FILE BUNDLE: its server may have a certificate of each of these.
trust_in_kubeconfig() {
  local text
  text=$(sed "s|^\( *certificate-authority-data: \).*|\1$(base64 --wrap=0 <"$2")|" "$1")
  write_file "$1" 0600 "$text"
}
