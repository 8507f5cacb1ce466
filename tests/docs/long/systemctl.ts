/**
 * Stands in for `systemctl` where no systemd runs: it reads units as they are written, has `systemd-analyze verify` look
 * at them, and runs them as their user with what `ProtectHome`, `ProtectSystem=strict` and `PrivateTmp` hide. It knows
 * what the documentation's units use, and refuses every other setting.
 *
 * `deno run -A systemctl.ts STATE daemon-reload | enable [--now] UNIT | start UNIT | stop UNIT | restart UNIT`
 */

const UNITS = "/etc/systemd/system";
/** How often a unit with `Restart=on-failure` is tried. */
const STARTS = 20;

/** Settings that change nothing here. */
const WITHOUT_EFFECT = new Set([
  ...["Description", "After", "WantedBy", "StateDirectoryMode", "TimeoutStopSec", "KillMode", "RestartSec"],
  ...["LimitNOFILE", "NoNewPrivileges", "UMask", "Group", "RemainAfterExit", "OnCalendar", "Persistent"],
]);

type Settings = Map<string, string[]>;

const [state = "", verb = "", ...words] = Deno.args;
const unit = words.find((word) => !word.startsWith("--")) ?? "";

/** The settings of a unit and its drop-ins; `%i` is its instance. */
function read(name: string): Settings {
  const [, prefix = "", instance = "", suffix = ""] = /^([^@]*)(@[^.]*)?(\..*)$/.exec(name) ?? [];
  const file = `${prefix}${instance === "" ? "" : "@"}${suffix}`;
  const drop_ins = (() => {
    try {
      return [...Deno.readDirSync(`${UNITS}/${file}.d`)].map((entry) => `${UNITS}/${file}.d/${entry.name}`);
    } catch {
      return [];
    }
  })();
  const settings: Settings = new Map();
  for (const path of [`${UNITS}/${file}`, ...drop_ins]) {
    for (const line of Deno.readTextFileSync(path).split("\n")) {
      const [, key, value] = /^(\w+)=(.*)$/.exec(line) ?? [];
      if (key === undefined || value === undefined) continue;
      const replaced = value.replaceAll("%i", instance.slice(1));
      settings.set(key, [...settings.get(key) ?? [], replaced]);
    }
  }
  return settings;
}

function run(program: string, ...args: string[]): boolean {
  return new Deno.Command(program, { args, stdin: "null", stdout: "inherit", stderr: "inherit" }).outputSync().success;
}

/** A shell script that makes what the unit may see, and then is the unit's command. */
function script(settings: Settings, command: string): string {
  const one = (key: string) => settings.get(key)?.at(-1);
  const known = [
    "User",
    "Type",
    "Restart",
    "Environment",
    "EnvironmentFile",
    "ExecStart",
    "ExecStartPost",
    "ExecStop",
    "StateDirectory",
  ];
  const hiding = ["CacheDirectory", "ProtectSystem", "ProtectHome", "PrivateTmp", "ReadWritePaths"];
  for (const key of settings.keys()) {
    if (WITHOUT_EFFECT.has(key) || ["Requires", "BindsTo", ...known, ...hiding].includes(key)) continue;
    throw new Error(`${key} is not known here`);
  }
  const user = one("User") ?? "root";
  const made = [["/var/lib", one("StateDirectory")], ["/var/cache", one("CacheDirectory")]]
    .flatMap(([parent, name]) => name === undefined ? [] : [`${parent}/${name}`]);
  const writable = [...made, ...(one("ReadWritePaths")?.split(" ") ?? [])];
  const files = (settings.get("EnvironmentFile") ?? []).map((path) => `set -a; . ${path}; set +a`);
  const variables = (settings.get("Environment") ?? []).flatMap((line) => line.split(" "));
  return [
    "set -e",
    ...made.map((path) => `mkdir -p -m 0700 ${path}; chown ${user}: ${path}`),
    ...files,
    ...writable.map((path) => `mount --rbind ${path} ${path}`),
    ...(one("ProtectHome") === "yes" ? ["for d in /home /root; do mount -t tmpfs -o mode=0755 none $d; done"] : []),
    ...(one("PrivateTmp") === "yes" ? ["for d in /tmp /var/tmp; do mount -t tmpfs -o mode=1777 none $d; done"] : []),
    ...(one("ProtectSystem") === "strict"
      ? [
        `cut -d' ' -f2 /proc/self/mounts | grep -vE '^(/proc|/sys|/dev|/tmp$|/var/tmp$|${
          writable.map((path) => `${path}$|${path}/`).join("|")
        })' | while read -r d; do mount -o remount,bind,ro "$d" 2> /dev/null || true; done`,
      ]
      : []),
    `exec runuser -u ${user} -- env -u HOME -u TMPDIR -u BASE PATH=/usr/local/bin:/usr/bin:/bin ` +
    `${variables.join(" ")} ${command}`,
  ].join("\n");
}

const inNamespace = (text: string) => ["--mount", "--propagation", "private", "sh", "-c", text];
const pidFile = (name: string) => `${state}/${name}.pid`;
const activeFile = (name: string) => `${state}/${name}.active`;

function isActive(name: string): boolean {
  try {
    return Deno.statSync(activeFile(name)).isFile;
  } catch {
    return false;
  }
}

function start(name: string): void {
  if (isActive(name)) return;
  const settings = read(name);
  for (const needed of [...settings.get("Requires") ?? [], ...settings.get("BindsTo") ?? []]) start(needed);
  const commands = settings.get("ExecStart") ?? [];
  if (settings.get("Type")?.at(-1) === "oneshot") {
    for (const command of commands) {
      let tries = settings.has("Restart") ? STARTS : 1;
      while (!run("unshare", ...inNamespace(script(settings, command)))) {
        if (--tries === 0) {
          for (const bound of settings.get("BindsTo") ?? []) run("tail", "-n", "20", `${state}/${bound}.log`);
          throw new Error(`${name} failed: ${command}`);
        }
        run("sleep", "1");
      }
    }
  } else {
    for (const command of commands) {
      const log = `${state}/${name}.log`;
      const text = `setsid unshare --mount --propagation private sh -c "$1" >> ${log} 2>&1 & echo $! > ${
        pidFile(name)
      }`;
      if (!run("sh", "-c", text, "sh", script(settings, command))) throw new Error(`${name} failed`);
    }
    for (const command of settings.get("ExecStartPost") ?? []) {
      if (run("unshare", ...inNamespace(script(settings, command)))) continue;
      run("tail", "-n", "20", `${state}/${name}.log`);
      throw new Error(`${name} failed: ${command}`);
    }
  }
  Deno.writeTextFileSync(activeFile(name), "");
  for (const wanting of dependents("WantedBy", name)) if (isEnabled(wanting)) start(wanting);
}

function stop(name: string): void {
  for (const bound of [...dependents("BindsTo", name), ...dependents("Requires", name)]) {
    if (isActive(bound)) stop(bound);
  }
  if (!isActive(name)) return;
  const settings = read(name);
  for (const command of settings.get("ExecStop") ?? []) {
    run("unshare", ...inNamespace(script(settings, command.replace(/^-/, ""))));
  }
  try {
    const pid = Number(Deno.readTextFileSync(pidFile(name)));
    run(
      "sh",
      "-c",
      `kill -TERM ${pid}; for n in $(seq 600); do kill -0 ${pid} 2>/dev/null || exit 0; sleep 0.1; done; exit 1`,
    );
    Deno.removeSync(pidFile(name));
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  Deno.removeSync(activeFile(name));
}

function isEnabled(name: string): boolean {
  try {
    return Deno.statSync(`${state}/${name}.enabled`).isFile;
  } catch {
    return false;
  }
}

/** Units that were enabled or started and that name `name` in `key`. */
function dependents(key: string, name: string): string[] {
  const names = [...Deno.readDirSync(state)].map((entry) => entry.name)
    .filter((file) => /\.(active|enabled)$/.test(file)).map((file) => file.replace(/\.(active|enabled)$/, ""));
  return [...new Set(names)].filter((each) => read(each).get(key)?.includes(name));
}

function reload(): void {
  for (const { name, isFile } of Deno.readDirSync(UNITS)) {
    if (!isFile || !/\.(service|timer)$/.test(name)) continue;
    const { success, stderr } = new Deno.Command("systemd-analyze", { args: ["verify", `${UNITS}/${name}`] })
      .outputSync();
    const text = new TextDecoder().decode(stderr);
    if (!success || text.includes(name)) throw new Error(`systemd-analyze verify ${name}: ${text}`);
  }
}

switch (verb) {
  case "daemon-reload":
    reload();
    break;
  case "enable":
    Deno.writeTextFileSync(`${state}/${unit}.enabled`, "");
    if (words.includes("--now")) start(unit);
    break;
  case "start":
    start(unit);
    break;
  case "stop":
    stop(unit);
    break;
  case "restart": {
    const bound = [...dependents("BindsTo", unit), ...dependents("Requires", unit)].filter(isActive);
    const both = [...bound, ...bound.flatMap((each) => dependents("Requires", each))];
    const were = [...new Set(both)].filter(isActive);
    stop(unit);
    start(unit);
    for (const each of were) start(each);
    break;
  }
  default:
    throw new Error(`${verb} is not known here`);
}
