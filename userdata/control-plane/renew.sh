#!/usr/bin/env bash
# The renewal of the certificates, which needs no person and no `pulumi up`. Sourced, never run.

CERTIFICATES_UNIT=openstack-kubernetes-certificates
# Exists until everything has restarted with the new certificates; it says how.
TO_RESTART=$STATE_DIR/renewed
# Exists until kubeadm has written all of them.
RENEWING=$STATE_DIR/renewing
INIT_CONFIG=$CONF_DIR/kubeadm-init.yaml # of kubeadm, which cannot ask an API that is down

# A control plane renews its certificates by itself, and also when they have expired: it has the CAs.
configure_certificates() {
  local service timer interval=$((CERTIFICATE_SECONDS / 24))
  step "renewal of certificates"
  copy_file "$FOLDER/kubeadm-init.yaml" "$INIT_CONFIG" 0600
  service=$(render "$FILES/$CERTIFICATES_UNIT.service" SCRIPTS_DIR)
  timer=$(render "$FILES/$CERTIFICATES_UNIT.timer" SECONDS="$((interval < 600 ? interval : 600))")
  timer_apply "$CERTIFICATES_UNIT" "$service" "$timer"
}

remove_certificates_timer() {
  timer_remove "$CERTIFICATES_UNIT"
  rm -f -- "$INIT_CONFIG" "$CERTIFICATES_METRICS"
}

# renew: when a third of their life is left, or less. The timer runs this, and no one waits for it. When
# another control plane is lost, an API that pauses while this one restarts is better than one that ends
# when the certificates do.
renew() {
  local due how
  read_validity
  is_member || die "this machine is not a member of a cluster"
  at_exit report_certificates
  ! expires_within 0 "$KUBELET_CERTIFICATE" || replace_kubelet_certificate
  # Certificates expire all the same where it does not start.
  (start_kubelet) || true
  # A renewal that was interrupted may have left a key without its certificate. etcd would not start with
  # it, and no turn would come.
  [[ ! -e $RENEWING ]] || run_renewal
  due=$(certificate_within $((CERTIFICATE_SECONDS / 3)))
  if [[ -n $due ]]; then
    log "$due expires at $(expiry_of "$due"): renewing all"
    if [[ -n $(certificate_within 0) ]]; then
      write_file "$TO_RESTART" 0644 at-once
    elif [[ -n $(certificate_within $((CERTIFICATE_SECONDS / 24))) ]]; then
      write_file "$TO_RESTART" 0644 late
    fi
  fi
  how=$(cat "$TO_RESTART" 2>/dev/null) || how=''
  # What still runs with the earlier certificates has them until they expire.
  [[ $how != in-turn || -z $(find "$TO_RESTART" -mmin +$((CERTIFICATE_SECONDS / 240))) ]] || how=late
  # shellcheck disable=SC2034 # turn.sh looks at it
  [[ $how != late ]] || NEEDS_OTHERS=false
  if [[ $how == at-once ]]; then
    renew_expired "$due"
  elif [[ -n $due || -n $how ]] && take_turn "renewal of certificates"; then
    renew_in_turn "$due"
  fi
}

# read_validity: of what kubeadm issues; node.env may be that of an update that was interrupted.
read_validity() {
  local period
  period=$(sed -n 's/^certificateValidityPeriod: *//p' "$INIT_CONFIG" 2>/dev/null) || return 0
  case $period in
    *[!0-9hm]* | '') ;;
    *h) CERTIFICATE_SECONDS=$((${period%h} * 3600)) ;;
    *m) CERTIFICATE_SECONDS=$((${period%m} * 60)) ;;
  esac
}

# renew_in_turn DUE: empty if they are renewed already, and only the restarts are left.
renew_in_turn() {
  [[ -e $TO_RESTART ]] || write_file "$TO_RESTART" 0644 in-turn
  [[ -z $1 ]] || run_renewal
  restart_in_turn "what is left is restarted when it is"
  rm -f -- "$TO_RESTART"
}

# renew_expired DUE: no one can use this control plane, so it takes no turn; and its API comes back only
# when enough others have done the same, so nothing is waited for.
renew_expired() {
  step "certificates have expired"
  [[ -z $1 ]] || run_renewal
  stop_static_pods "${STATIC_PODS[@]}"
  rm -f -- "$TO_RESTART"
}

run_renewal() {
  step "renew the certificates"
  : >"$RENEWING"
  run kubeadm certs renew all --config "$INIT_CONFIG" || die "kubeadm could not renew the certificates"
  complete_certificates
  rm -f -- "$RENEWING"
  log "the certificates are valid until $(expiry_of "$PKI/apiserver.crt")"
}
