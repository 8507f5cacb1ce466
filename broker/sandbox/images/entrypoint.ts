/**
 * The first program of every sandbox, a POSIX shell script that both ways of building put into the image. It agrees with
 * broker/sandbox/container_arguments.ts about its path, its arguments and its exit codes.
 */

export const ENTRYPOINT_SCRIPT: string = String.raw`#!/bin/sh
# The first program of a sandbox: leaves two destinations of the network, drops every
# privilege for good and becomes the agent. Whatever fails here ends the sandbox before the
# agent has begun.
#
#   taskd-entrypoint <gateway> <port,port> <uid> <gid> <program> [argument...]
#
# Exit codes of its own: 121 before the agent has begun, 122 when it was out of memory.
set -eu

# The second part, already without privileges: runs the agent and reports whether the kernel
# ended it. Signals reach the agent directly; this shell only must not end before it.
if [ "$1" = --run ]; then
  shift
  trap : TERM INT HUP
  set +e
  "$@"
  code=$?
  # Of the second version of control groups, and of the first.
  kills=0
  for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
    [ -r "$file" ] || continue
    while read -r key value; do
      if [ "$key" = oom_kill ]; then kills=$value; fi
    done <"$file"
  done
  if [ "$code" -eq 137 ] && [ "$kills" -gt 0 ]; then exit 122; fi
  exit "$code"
fi

PATH_BEFORE=$PATH
PATH=/usr/sbin:/usr/bin:/sbin:/bin

fail() {
  echo "taskd-entrypoint: $1" >&2
  exit 121
}

[ $# -ge 5 ] || fail "it is started by the broker, with the gateway, ports, user and program"
gateway=$1 ports=$2 uid=$3 gid=$4
shift 4
case $gateway in
*[!0-9a-fA-F.:]*) fail "the gateway is no address" ;;
*:*) family=ip6 ;;
*) family=ip ;;
esac
case $ports in *[!0-9,]* | '') fail "the ports are no numbers" ;; esac
for id in "$uid" "$gid"; do
  case $id in *[!0-9]* | '' | 0*) fail "the user is not one without privileges" ;; esac
done

# Docker's own resolver is on a loopback address, so it is named before loopback is let through.
# Without connection tracking: it is a module that not every kernel has.
nft -f - <<RULES || fail "the firewall cannot be set up; the sandbox needs nftables of its kernel"
table inet taskd {
  chain input {
    type filter hook input priority 0; policy drop;
    iif lo accept
    $family saddr $gateway tcp sport { $ports } accept
  }
  chain forward { type filter hook forward priority 0; policy drop; }
  chain output {
    type filter hook output priority 0; policy drop;
    ip daddr 127.0.0.11 drop
    oif lo accept
    $family daddr $gateway tcp dport { $ports } accept
  }
}
RULES

PATH=$PATH_BEFORE
export PATH
unset PATH_BEFORE id
# tini collects the processes that the agent leaves behind, as the agent's own user.
exec /usr/bin/setpriv --reuid="$uid" --regid="$gid" --clear-groups --no-new-privs \
  --bounding-set=-all --inh-caps=-all --ambient-caps=-all \
  -- /usr/bin/tini -g -- "$0" --run "$@"
`;
