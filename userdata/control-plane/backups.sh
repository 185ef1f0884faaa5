#!/usr/bin/env bash
# The timer that takes snapshots of etcd, and the bucket that it copies them to. Sourced, never run.

BACKUP_UNIT=openstack-kubernetes-backup
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
  bucket_list "$(bucket_folder)/" >/dev/null || die_of_bucket
}

configure_backups() {
  local file service timer
  step "backups"
  for file in "${BUCKET_FILES[@]}"; do
    if [[ -e $FOLDER/$file ]]; then
      copy_file "$FOLDER/$file" "$CONF_DIR/$file" 0600
    else
      rm -f -- "$CONF_DIR/$file"
    fi
  done
  if [[ -z ${BACKUP_HOURS:-} ]]; then
    timer_remove "$BACKUP_UNIT"
    return
  fi
  service=$(render "$FILES/openstack-kubernetes-backup.service" SCRIPTS_DIR)
  timer=$(render "$FILES/openstack-kubernetes-backup.timer" BACKUP_HOURS)
  timer_apply "$BACKUP_UNIT" "$service" "$timer"
}

remove_backups() {
  timer_remove "$BACKUP_UNIT"
  rm -f -- "${BUCKET_FILES[@]/#/$CONF_DIR/}"
}
