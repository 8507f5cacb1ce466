# What becomes bwrap, run by bash on the host; start_script.ts says why, and gives the arguments:
#
#   <filter in base64> <first program's text> <forwarder's text, or nothing> <file of bwrap's report, or nothing>
#   <number of files of /etc> <text>... <number of sources> <source>... <command>...
#
# Numbers of files are those of DESCRIPTORS in bubblewrap_arguments.ts.
set -u
umask 077
fail() { echo "taskd: cannot start the sandbox: $1" >&2; exit 121; }
exec 9<&0 </dev/null
# Whatever else the broker was started with.
for at in /proc/self/fd/*; do
  case ${at##*/} in 0 | 1 | 2 | 9) ;; *) eval "exec ${at##*/}>&-" ;; esac
done
if [[ -n $4 ]]; then
  : >"$4" || fail "$4 cannot be written"
  exec 7>>"$4" 8>>"$4"
fi
exec 10< <(base64 -d <<<"$1") 11<<<"$2"
if [[ -n $3 ]]; then exec 12<<<"$3"; fi
count=$5
shift 5
for ((i = 0; i < count; i++)); do
  eval "exec $((20 + i))<<<\"\$1\""
  shift
done
sources=$1
shift
if ((sources > 0)); then
  # Bound by root, before it stops being root: the sandbox's user cannot walk the broker's private folders.
  mount -t tmpfs -o mode=0711,size=1m sandbox /mnt || fail "nothing can be mounted"
  folders=() table=
  for ((i = 0; i < sources; i++)); do
    source=$1
    shift
    if [[ -d $source ]]; then folders+=("/mnt/$i"); else : >"/mnt/$i"; fi
    source=${source//\\/\\134} source=${source// /\\040} source=${source//$'\t'/\\011} source=${source//$'\n'/\\012}
    table+="$source /mnt/$i none bind 0 0"$'\n'
  done
  ((${#folders[@]} == 0)) || mkdir -- "${folders[@]}" || fail "nothing can be mounted"
  printf %s "$table" >/mnt/table
  mount --all --fstab /mnt/table || fail "its folders cannot be mounted"
fi
exec "$@"
