/**
 * The images without any registry: a script that makes their root file systems with debootstrap and npm, on a Debian or
 * Ubuntu host as root.
 *
 * It is a shell script because each of its lines is what a person would type; it is run with its settings as
 * variables, never with values in its text.
 */

/** Steps that it announces on its standard output, each as `== <text>`. */
export const ROOT_FILE_SYSTEM_SCRIPT: string = String.raw`set -eu
umask 022
say() { echo "== $1"; }

say "Debian $SUITE"
debootstrap --variant=minbase --include="$DEBIAN" "$SUITE" "$ROOT" $MIRROR >&2

say "Node.js and the agents"
agents=$ROOT/usr/local/lib/taskd-agents
mkdir -p "$agents"
# Not one by one: npm would remove what it does not list. They are a list of pinned versions.
npm install --prefix "$agents" --no-audit --no-fund --loglevel=error $PACKAGES >&2
for program in "$agents"/node_modules/.bin/*; do
  ln -s "../lib/taskd-agents/node_modules/.bin/$(basename "$program")" "$ROOT/usr/local/bin/"
done

say "the entrypoint and the user"
install -D -m 0755 "$ENTRYPOINT_FILE" "$ROOT$ENTRYPOINT"
chroot "$ROOT" useradd --uid "$AGENT_ID" --create-home agent
mkdir -p "$ROOT/workspace" "$ROOT/deps"
printf '127.0.0.1 localhost\n::1 localhost\n' >"$ROOT/etc/hosts"
: >"$ROOT/etc/resolv.conf"
rm -rf "$ROOT"/var/cache/apt/* "$ROOT"/var/lib/apt/lists/* "$ROOT"/usr/share/doc "$ROOT"/usr/share/man
find "$ROOT" -xdev -perm /6000 \( -type f -o -type d \) -exec chmod ug-s {} +

say "the anchor"
mkdir -p "$ANCHOR_ROOT/bin"
for file in /bin/sleep $(chroot "$ROOT" ldd /bin/sleep | grep -o '/[^ ]*'); do
  mkdir -p "$ANCHOR_ROOT$(dirname "$file")"
  cp -L "$ROOT$file" "$ANCHOR_ROOT$file"
done
`;
