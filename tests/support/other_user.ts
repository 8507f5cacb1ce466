/**
 * Another user of the machine, who tries everything that a process listens on; and what that is.
 */

/** What listens, by what the kernel lists of the sockets that a process has open. */
export interface Listening {
  ports: number[];
  /** Paths of unix sockets; `(unnamed)` and `@...` for those without a file. */
  sockets: string[];
  /** Local ports of established connections: those of clients on this machine are among them. */
  peers: number[];
}

/** One attempt: a request from a source port of one's own choice, or of the system's. */
export interface Attempt {
  address: string;
  port: number;
  line: string;
  /** The source port, bound on 127.0.0.2, which another user may take while a client has it on 127.0.0.1. */
  source_port?: number;
}

/** Everything that `pid` listens on; requires root, or to be its user. */
export function listeningOf(pid: number): Listening {
  const inodes = new Set<string>();
  for (const { name } of Deno.readDirSync(`/proc/${pid}/fd`)) {
    try {
      inodes.add(/^socket:\[(\d+)\]$/.exec(Deno.readLinkSync(`/proc/${pid}/fd/${name}`))?.[1] ?? "");
    } catch {
      // It was closed meanwhile.
    }
  }
  const rows = (table: string) =>
    Deno.readTextFileSync(`/proc/${pid}/net/${table}`).split("\n").slice(1).map((line) => line.trim().split(/\s+/));
  const tcp = [...rows("tcp"), ...rows("tcp6")].filter((fields) => inodes.has(fields[9]!));
  const portOf = (address: string) => parseInt(address.split(":").at(-1)!, 16);
  return {
    ports: tcp.filter((fields) => fields[3] === "0A").map((fields) => portOf(fields[1]!)).sort((a, b) => a - b),
    // __SO_ACCEPTCON of net/unix/af_unix.c.
    sockets: rows("unix").filter((fields) => inodes.has(fields[6]!) && parseInt(fields[3]!, 16) & 0x10000)
      .map((fields) => fields[7] ?? "(unnamed)").sort(),
    peers: tcp.filter((fields) => fields[3] === "01").map((fields) => portOf(fields[2]!)),
  };
}

/** Paths at which either daemon might answer. */
export const ROUTES: readonly string[] = [
  "/healthz",
  "/tasks",
  "/metrics",
  "/events",
  "/rpc",
  "/debug/pprof/",
  "/admin/ui",
  "/admin/pending",
  "/ui/",
  "/v1/models",
];

/** Addresses at which a listener on 127.0.0.1 is not: another of loopback, IPv6, and the machine's own. */
export function elsewhere(): string[] {
  const own = Deno.networkInterfaces().filter(({ family, address }) =>
    family === "IPv4" && !address.startsWith("127.")
  );
  return ["127.0.0.2", "::1", ...own.map(({ address }) => address)];
}

/** A user who is neither root nor the owner; python3 binds source ports and connects to unix sockets. */
const OTHER_USER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all"];

/** Prints a status, or why there is none, for each attempt; then the same for each socket. */
const PROGRAM = `
import json, socket, sys
asked = json.load(sys.stdin)
def ask(conn, line, host):
    conn.settimeout(10)
    conn.sendall((line + " HTTP/1.1\\r\\nHost: " + host + "\\r\\nConnection: close\\r\\n\\r\\n").encode())
    answer = b""
    while b"\\n" not in answer:
        part = conn.recv(4096)
        if not part: break
        answer += part
    return answer.split(b"\\r\\n")[0].decode(errors="replace") or "nothing"
def tcp(a):
    conn = socket.socket(socket.AF_INET6 if ":" in a["address"] else socket.AF_INET)
    with conn:
        conn.settimeout(10)
        conn.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if "source_port" in a: conn.bind(("127.0.0.2", a["source_port"]))
        conn.connect((a["address"], a["port"]))
        return ask(conn, a["line"], "localhost:%d" % a["port"])
def unix(path):
    with socket.socket(socket.AF_UNIX) as conn:
        conn.connect("\\0" + path[1:] if path.startswith("@") else path)
        return ask(conn, "GET /healthz", "localhost")
def tried(attempt, what):
    try: return attempt(what)
    except ConnectionRefusedError: return "refused"
    except PermissionError: return "denied"
    except OSError as error: return type(error).__name__ if error.errno is None else str(error.strerror)
print(json.dumps([[tried(tcp, a) for a in asked["attempts"]], [tried(unix, s) for s in asked["sockets"]]]))
`;

/** What the other user gets: for each attempt the status line or why there is none, and for each socket. */
export async function asOtherUser(attempts: readonly Attempt[], sockets: readonly string[] = []) {
  const command = [...OTHER_USER, "/usr/bin/python3", "-c", PROGRAM];
  const child = new Deno.Command(command[0]!, {
    args: command.slice(1),
    cwd: "/",
    stdin: "piped",
    stdout: "piped",
  }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(JSON.stringify({ attempts, sockets })));
  await writer.close();
  const { stdout } = await child.output();
  const [answers, of_sockets] = JSON.parse(new TextDecoder().decode(stdout)) as [string[], string[]];
  return { answers, of_sockets };
}
