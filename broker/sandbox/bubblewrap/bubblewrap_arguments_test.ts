import { assert, assertEquals, assertThrows } from "@std/assert";
import { TaskdError } from "../../../lib/errors.ts";
import { bubblewrapArgs, type BubblewrapOrder } from "./bubblewrap_arguments.ts";
import { EMPTY_VIEW } from "./host_view.ts";

const ORDER: BubblewrapOrder = {
  work_dir: "/stage/work",
  workload: { env: { TOKEN: "a 'b' $c" }, mounts: [] },
  memory_bytes: 1 << 30,
  view: EMPTY_VIEW,
  sockets: { gateway: "/run/g", proxy: "/run/p" },
  deno_path: "/opt/deno",
  reports: true,
};

const args = (changes: Partial<BubblewrapOrder> = {}) => bubblewrapArgs({ ...ORDER, ...changes }, (path) => path);

/** What is bound, and where; `--bind` can be written. */
function bound(words: readonly string[]): string[] {
  return words.flatMap((word, at) =>
    word === "--bind" || word === "--ro-bind" ? [`${word.slice(2)} ${words[at + 1]} ${words[at + 2]}`] : []
  );
}

Deno.test("a sandbox has namespaces of its own, and can make none, and no capability", () => {
  const words = args();
  for (const word of ["--unshare-user", "--unshare-all", "--disable-userns", "--assert-userns-disabled"]) {
    assert(words.includes(word), word);
  }
  for (const word of ["--die-with-parent", "--clearenv", "--new-session"]) assert(words.includes(word), word);
  assertEquals(words.slice(words.indexOf("--cap-drop")).slice(0, 2), ["--cap-drop", "ALL"]);
  assertEquals(words.slice(words.indexOf("--seccomp")).slice(0, 2), ["--seccomp", "10"]);
  assert(!words.includes("--share-net") && !words.includes("--dev-bind"));
});

Deno.test("only the order's own folders can be written", () => {
  const mounts = [
    { source: "/stage/home", target: "/home/agent", writable: true },
    { source: "/cache/deps", target: "/deps", writable: false },
  ];
  const writable = bound(args({ workload: { env: {}, mounts } })).filter((line) => line.startsWith("bind"));
  assertEquals(writable, ["bind /stage/work /workspace", "bind /stage/home /home/agent"]);
  assert(bound(args({ workload: { env: {}, mounts } })).includes("ro-bind /cache/deps /deps"));
});

Deno.test("memory in the place of disks has a size, each time", () => {
  const words = args();
  for (const [at, word] of words.entries()) {
    if (word === "--tmpfs") assertEquals(words[at - 4], "--size", words[at + 1]);
  }
  assertEquals(words.filter((word) => word === "--tmpfs").length, 3);
  // Both are tmpfs without a bound of bwrap's own.
  assertEquals(words.filter((_, at) => words[at - 1] === "--remount-ro").sort(), ["/", "/dev"]);
});

Deno.test("a setup command has the proxy's socket, and not the gateway's", () => {
  const lines = (reach?: "proxy") =>
    bound(args({ workload: { env: {}, mounts: [], ...(reach ? { reach } : {}) } }))
      .filter((line) => line.includes("/run/taskd/"));
  assertEquals(lines("proxy"), ["ro-bind /run/p /run/taskd/proxy", "ro-bind /opt/deno /run/taskd/deno"]);
  assertEquals(lines().length, 3);
  const { sockets: _sockets, ...without } = ORDER;
  assert(!bubblewrapArgs(without, (path) => path).join(" ").includes("/run/taskd/deno"));
});

Deno.test("variables go in as they are, after nothing of the broker's", () => {
  const words = args();
  const set = words.flatMap((word, at) => word === "--setenv" ? [[words[at + 1], words[at + 2]]] : []);
  assertEquals(Object.fromEntries(set), {
    HOME: "/home/agent",
    PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    LANG: "C.UTF-8",
    TOKEN: "a 'b' $c",
  });
  assertThrows(() => args({ workload: { env: { "A=B": "" }, mounts: [] } }), TaskdError, "that is no name");
  assertThrows(() => args({ workload: { env: { A: "\0--bind\0/" }, mounts: [] } }), TaskdError, "NUL");
});

Deno.test("what is seen of the host keeps its path, links are links", () => {
  const view = {
    folders: ["/home/a/.nvm/v20"],
    links: [["/home/a/bin/claude", "../x"] as const],
    path: ["/home/a/bin"],
  };
  const words = args({ view });
  assert(bound(words).includes("ro-bind /home/a/.nvm/v20 /home/a/.nvm/v20"));
  assertEquals(words.slice(words.indexOf("--symlink")).slice(0, 3), ["--symlink", "../x", "/home/a/bin/claude"]);
  assert(words.some((word) => word.startsWith("/home/a/bin:/usr/local/sbin:")));
  const mapped = bubblewrapArgs({ ...ORDER, view }, () => "/mnt/0");
  assert(bound(mapped).includes("ro-bind /mnt/0 /home/a/.nvm/v20"));
});
