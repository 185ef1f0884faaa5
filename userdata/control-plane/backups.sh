#!/usr/bin/env bash
# The timers that take snapshots of etcd and prove them, and the bucket that has their copies. Sourced,
# never run.

BACKUP_UNIT=openstack-kubernetes-backup
PROOF_UNIT=openstack-kubernetes-backup-proof
BUCKET_FILES=(bucket.env bucket-ca.crt)

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
  refuse_earlier_key
  for file in $(backup_files "$FOLDER"); do
    copy_file "$FOLDER/$file" "$CONF_DIR/$file" 0600
  done
  for file in $(backup_files "$CONF_DIR"); do
    [[ -e $FOLDER/$file ]] || rm -f -- "$CONF_DIR/$file"
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

# Before the state forgets the key that the newest snapshots need.
refuse_earlier_key() {
  local key
  [[ -e $FOLDER/backup.key ]] || return 0
  for key in "$CONF_DIR"/backup-*.key; do
    [[ ! -e $key ]] || ! cmp -s -- "$key" "$FOLDER/backup.key" ||
      die "the key of the backups is that of an earlier generation: rotation.backupKey must never go back; set it to what it was"
  done
}

# backup_files FOLDER: those in it that say where the bucket is, and what closes and opens its objects.
backup_files() {
  (cd -- "$1" && existing "${BUCKET_FILES[@]}" backup.crt backup.key backup-*.key)
}

remove_backup_timers() {
  timer_remove "$BACKUP_UNIT"
  timer_remove "$PROOF_UNIT"
}

remove_backups() {
  remove_backup_timers
  rm -f -- "${BUCKET_FILES[@]/#/$CONF_DIR/}" "$CONF_DIR"/backup.{crt,key} "$CONF_DIR"/backup-*.key
}
