#!/usr/bin/env bash
# Files that are written only when they differ, and never by halves, also where no error ends the
# script. Sourced by lib.sh.

# write_file PATH MODE CONTENT
write_file() {
  local path=$1 mode=$2 content=$3 new
  [[ -d ${path%/*} ]] || mkdir -p -- "${path%/*}"
  new=$(mktemp -- "${path%/*}/.new.XXXXXXXX")
  printf '%s\n' "$content" >"$new" &&
    put_in_place "$new" "$path" "$mode"
}

# copy_file SOURCE PATH MODE
copy_file() {
  local source=$1 path=$2 mode=$3 new
  [[ -d ${path%/*} ]] || mkdir -p -- "${path%/*}"
  new=$(mktemp -- "${path%/*}/.new.XXXXXXXX")
  cat -- "$source" >"$new" &&
    put_in_place "$new" "$path" "$mode"
}

# remove_file PATH...
remove_file() {
  local path
  for path; do
    [[ -e $path ]] || continue
    note_change "$path"
    rm -f -- "$path"
    log "removed $path"
  done
}

# existing FILE...: prints those that there are; a pattern without a match is none.
existing() {
  local file
  for file; do
    [[ ! -e $file ]] || printf '%s\n' "$file"
  done
}

# render TEMPLATE KEY[=VALUE]...: its text, with the value, or that of the variable, for each @KEY@.
# Call it in an assignment: bash does not notice that it fails in a command's argument.
render() {
  local template=$1 text key
  shift
  text=$(<"$template")
  for key; do
    [[ $key == *=* ]] || key="$key=${!key}"
    text=${text//"@${key%%=*}@"/"${key#*=}"}
  done
  [[ ! $text =~ @[A-Z_]+@ ]] || die "$template needs a value for ${BASH_REMATCH[0]}"
  printf '%s\n' "$text"
}

put_in_place() {
  local new=$1 path=$2 mode=$3
  chmod -- "$mode" "$new"
  if cmp -s -- "$new" "$path"; then
    rm -f -- "$new"
    chmod -- "$mode" "$path"
  else
    note_change "$path"
    mv -f -- "$new" "$path" &&
      log "wrote $path"
  fi
}
