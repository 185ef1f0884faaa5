#!/bin/bash
# A program of a machine of the tests (conftest.py): records its call, and answers by the first rule
# whose pattern is found in "program argument argument ...". Bash, because scripts call hundreds.

LC_ALL=C
here=${0%/*}
name=${0##*/}
line=$name${1+ $*}
arguments=("$@")

# record STDIN: one write, because programs in the background append to the same file.
record() {
  local field entry='' separator='{"line": "'
  for field in "$line" "$1"; do
    field=${field//\\/\\\\}
    field=${field//\"/\\\"}
    entry+=$separator${field//$'\n'/\\n}
    separator='", "stdin": "'
  done
  entry+='"}'
  if ((${#entry} < 4096)); then # what is longer leaves printf in pieces
    printf '%s\n' "$entry"
  else
    cat <<<"$entry"
  fi >>"$here/calls"
}

# rule NUMBER PATTERN TIMES STATUS PRINTS COMPLAINS [INTERPRETER]
# shellcheck disable=SC2329 # the rules call it
rule() {
  local used=$here/used-$1 past=''
  [[ $line =~ $2 ]]
  case $? in
    1) return ;;
    2) printf '%s is no regular expression\n' "$2" >>"$here/invalid" && return ;;
  esac
  if (($3 > 0)); then
    [[ ! -e $used ]] || read -r past <"$used"
    ((${#past} < $3)) || return 0
    printf x >>"$used"
  fi
  [[ -z ${7:-} ]] || exec "$7" -IS "$here/does-$1" "${arguments[@]}"
  printf '%s' "$6" >&2
  trap '' PIPE # its reader may have seen enough
  printf '%s' "$5" 2>/dev/null
  exit "$4"
}

text=''
if [[ $name == ssh || $line == *' -f -' ]]; then
  text=$(cat && printf .) # the dot keeps the last newlines
  text=${text%.}
fi
record "$text"
# shellcheck source=/dev/null
source "$here/rules"
exit 0
