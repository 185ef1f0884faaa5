#!/usr/bin/env bash
# Begins a cluster. Sourced, never run.

# initialize OPTION...: of `kubeadm init`.
initialize() {
  local -a flags
  local watcher
  mapfile -t flags < <(kubeadm_flags)
  # The folder holds the data to begin with, or data that was set aside.
  if [[ -e $RESTORING ]] || newest_unserved >/dev/null; then
    flags+=(--ignore-preflight-errors=DirAvailable--var-lib-etcd)
  fi
  step "kubeadm init"
  copy_files
  clear_lost_and_found
  begin_attempt init
  watch_for_api &
  watcher=$!
  run kubeadm init --config "$FOLDER/kubeadm-init.yaml" --skip-token-print "$@" \
    ${flags[@]+"${flags[@]}"} || die "kubeadm init failed$(last_words_of kube-apiserver)" kubelet.service
  wait_for_own_api
  wait "$watcher"
  finish_restore
  finish_attempt
  remember_configuration
}

# Records when the API is up: kubeadm still has work to do after that and may be interrupted.
watch_for_api() {
  exec 9>&-
  trap - ERR EXIT
  until own_api_is_ready; do
    kill -0 "$$" 2>/dev/null || return 0 # the run has ended
    sleep 0.3
  done
  mark_served
}

# Of an init and of a join.
finish_attempt() {
  step "wait for this control plane"
  wait_for_own_api
  hide_kubelet_config
  end_attempt
  rm -f -- "$STATE_DIR/served"
}
