# Tries to get out of a sandbox, from inside of it: examine.ts runs it where a sandbox is to be trusted, and expects the
# lines that it prints, each a name and a result. Whatever it tries is harmless where it works.
while read -r key value; do
  case $key in Uid: | Cap*: | NoNewPrivs: | Seccomp:) echo "$key ${value%%[!0-9a-f]*}" ;; esac
done </proc/self/status
interfaces=
while read -r name rest; do
  case $name in *:*) interfaces="$interfaces${name%%:*} " ;; esac
done </proc/net/dev
echo "interfaces $interfaces"
tried() { if "$@" >/dev/null 2>&1; then echo done; else echo refused; fi; }
echo "namespace $(tried unshare --user true)"
echo "first $(tried sh -c ': <>/proc/1/mem')"
# Only the filter refuses it.
cp /bin/true /tmp/probe && echo "filter $(tried chmod 4755 /tmp/probe)"
writable=
for at in / /usr /etc /dev /run /home /proc/sys/kernel/core_pattern /proc/sysrq-trigger; do
  if [ -w "$at" ]; then writable="$writable$at "; fi
done
echo "writable $writable"
# The sandbox's own work tree, home and memory.
for at in /workspace /home/agent /tmp; do
  if ! (: >"$at/probe") 2>/dev/null; then echo "unwritable $at"; fi
done
seen=
for at in /sys/kernel /root /var /run/user /run/dbus /home/*; do
  case $at in /home/agent | '/home/*') continue ;; esac
  if [ -e "$at" ]; then seen="$seen$at "; fi
done
echo "seen $seen"
set -- /proc/[0-9]*
echo "processes $#"
(
  for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32; do sleep 9 & done
  echo "bomb done"
) 2>/dev/null || echo "bomb refused"
echo end
