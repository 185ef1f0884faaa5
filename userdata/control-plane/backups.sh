#!/usr/bin/env bash
# The timers that take snapshots of etcd and prove them, and the bucket that has their copies. Sourced,
# never run.

BACKUP_UNIT=openstack-kubernetes-backup
PROOF_UNIT=openstack-kubernetes-backup-proof
BUCKET_FILES=(bucket.env bucket-ca.crt)
BACKUP_KEYS=(backup.crt backup.key)

# A bucket that was in use before is not asked: a store that is down must not keep a cluster from
# being repaired.
refuse_wrong_bucket() {
  local file new=''
  has_bucket || return 0
  for file in "${BUCKET_FILES[@]}"; do
    [[ ! -e $FOLDER/$file ]] || cmp -s -- "$FOLDER/$file" "$CONF_DIR/$file" || new=$file
  done
  [[ -n $new ]] || return 0
  step "list the new bucket"
  bucket_list "$BUCKET_FOLDER/" >/dev/null || die_of_bucket
}

configure_backups() {
  local file service timer
  step "backups"
  for file in "${BUCKET_FILES[@]}" "${BACKUP_KEYS[@]}"; do
    if [[ -e $FOLDER/$file ]]; then
      copy_file "$FOLDER/$file" "$CONF_DIR/$file" 0600
    else
      rm -f -- "$CONF_DIR/$file"
    fi
  done
  if [[ -z ${BACKUP_HOURS:-} ]]; then
    remove_backup_timers
    return
  fi
  service=$(render "$FILES/openstack-kubernetes-backup.service" SCRIPTS_DIR)
  timer=$(render "$FILES/openstack-kubernetes-backup.timer" BACKUP_HOURS)
  timer_apply "$BACKUP_UNIT" "$service" "$timer"
  service=$(render "$FILES/openstack-kubernetes-backup-proof.service" SCRIPTS_DIR)
  timer=$(<"$FILES/openstack-kubernetes-backup-proof.timer")
  timer_apply "$PROOF_UNIT" "$service" "$timer"
}

remove_backup_timers() {
  timer_remove "$BACKUP_UNIT"
  timer_remove "$PROOF_UNIT"
}

remove_backups() {
  remove_backup_timers
  rm -f -- "${BUCKET_FILES[@]/#/$CONF_DIR/}" "${BACKUP_KEYS[@]/#/$CONF_DIR/}"
}
