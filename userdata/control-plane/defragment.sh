#!/usr/bin/env bash
# Defragmentation of etcd, which gives the disk back what compaction has freed in the database. Sourced,
# never run.

DEFRAGMENT_UNIT=openstack-kubernetes-defragment
# A smaller database is not worth the pause.
DEFRAGMENT_BYTES=$((100 << 20))

configure_defragmentation() {
  local service timer
  step "defragmentation"
  service=$(render "$FILES/openstack-kubernetes-defragment.service" SCRIPTS_DIR)
  timer=$(<"$FILES/openstack-kubernetes-defragment.timer")
  timer_apply "$DEFRAGMENT_UNIT" "$service" "$timer"
}

remove_defragmentation() {
  timer_remove "$DEFRAGMENT_UNIT"
}

# defragment: this member only, which answers nothing meanwhile.
defragment() {
  local etcd status size used
  step "defragmentation of etcd"
  find_etcd
  read_etcd_status
  if ((size <= DEFRAGMENT_BYTES || 2 * used >= size)); then
    log "the database has $size bytes, and $used are in use: nothing to do"
    return
  fi
  # The new database is written next to the old one.
  need_free "$ETCD_DATA" "$used" "the defragmentation of etcd"
  take_turn "defragmentation of etcd" || return 0
  pass_leadership
  run etcdctl_in "$etcd" --command-timeout=600s defrag || die "etcd could not be defragmented: the reason is above"
  read_etcd_status
  log "the database has $size bytes now"
  end_turn
}

# read_etcd_status: sets `status`, `size` and `used`.
read_etcd_status() {
  status=$(etcdctl_in "$etcd" endpoint status --write-out=fields) || die "etcd does not answer: the reason is above"
  size=$(status_field DBSize) used=$(status_field DBSizeInUse)
  [[ -n $size && -n $used ]] || die "etcd does not say how large its database is"
}

status_field() {
  sed -n "s/^\"$1\" : //p" <<<"$status"
}

# pass_leadership: while a leader does not answer nothing can be written, so another one leads.
pass_leadership() {
  local members id state name learner
  [[ $(status_field Leader) == "$(status_field MemberID)" ]] || return 0
  members=$(etcdctl_in "$etcd" member list) || die "etcd does not list its members: the reason is above"
  while IFS=, read -r id state name _ _ learner; do
    [[ ${name# } != "$NODE_NAME" && ${state# } == started && ${learner# } != true ]] || continue
    etcdctl_in "$etcd" move-leader "$id" >/dev/null || die "${name# } does not take over the leadership: the reason is above"
    log "${name# } leads etcd now"
    return
  done <<<"$members"
}
