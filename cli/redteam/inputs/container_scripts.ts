/**
 * Programs that try the walls of a container from inside of it; `taskd redteam` and the sandbox's own tests share them.
 *
 * Each prints a row `{name, got}` for each attempt. What must not be possible is named `no: ...`, and its `got` begins
 * with `refused`: only what the system itself refused, or a timeout. Any other exception is an attack that is broken,
 * and its `got` says so.
 */

/** `attempt(name, function)` runs all at the same time: what is dropped is only noticed by waiting. */
export const ATTEMPTS_PRELUDE: string = `
import ctypes, errno, json, os, platform, resource, socket, subprocess, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
printing = threading.Lock()
running = []
def report(name, got):
    with printing:
        print(json.dumps({"name": name, "got": str(got)}), flush=True)
def attempt(name, action):
    def run():
        try:
            got = action()
            report(name, "DONE" if got is None else got)
        except (OSError, subprocess.TimeoutExpired) as error:
            code = errno.errorcode.get(getattr(error, "errno", None) or 0, "")
            report(name, ("refused " + type(error).__name__ + " " + code).strip())
        except Exception as error:
            report(name, "broken attack: " + repr(error))
    thread = threading.Thread(target=run)
    running.append(thread)
    thread.start()
def connect(host, port):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as it:
        it.settimeout(1.5)
        it.connect((host, port))
        return it.recv(100).decode()
def send(host, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as it:
        it.settimeout(1.5)
        it.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        it.sendto(b"x" * 40, (host, port))
        return it.recv(100).decode()
def call(name, *args):
    if getattr(libc, name)(*args) == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
def run(*command):
    try:
        done = subprocess.run(command, capture_output=True, timeout=20)
    except FileNotFoundError as error:
        raise RuntimeError("there is no " + command[0]) from error
    if done.returncode != 0:
        said = done.stderr.decode()[:200]
        if not any(os.strerror(code) in said for code in (errno.EPERM, errno.EACCES, errno.EROFS)):
            raise RuntimeError(said)
        raise PermissionError(errno.EPERM, said)
`;

/** A neighbour on the network, which reports when it was reached. */
export const SIBLING_SCRIPT = `
import socket, select
ports = [socket.create_server(("0.0.0.0", port)) for port in (8088, 3128, 9999)]
print("ready", flush=True)
ready = select.select(ports, [], [], 60)[0]
print("reached", flush=True)
`;

/** Places that a sandbox is to reach, and others that it must not. */
export interface NetworkPlaces {
  gateway: string;
  /** Where something else listens on the gateway's address. */
  other_port: number;
  /** The host by its own address, and a port where something listens on it. */
  host: string;
  host_port: number;
  sibling: string;
}

/** Everything of a network that is not the gateway's and the proxy's port. */
export function networkAttacks({ gateway, other_port, host, host_port, sibling }: NetworkPlaces): string {
  return `
gw, other, everywhere, lan, sibling = ${JSON.stringify([gateway, other_port, host_port, host, sibling])}
attempt("gateway", lambda: connect(gw, 8088))
attempt("proxy", lambda: connect(gw, 3128))
def own():
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()):
            return "own loopback"
attempt("its own loopback", own)
attempt("no: another port of the gateway's address", lambda: connect(gw, other))
attempt("no: port 22 of the gateway's address", lambda: connect(gw, 22))
attempt("no: the host by its own address", lambda: connect(lan, everywhere))
attempt("no: the host's gateway port by its own address", lambda: connect(lan, 8088))
for port in (8088, 3128, 9999):
    attempt("no: a sibling's port %d" % port, lambda port=port: connect(sibling, port))
for host, port in (("192.0.2.1", 443), ("1.1.1.1", 443), ("8.8.8.8", 53)):
    attempt("no: the internet, " + host, lambda host=host, port=port: connect(host, port))
for host in ("169.254.169.254", "169.254.170.2", "100.100.100.200", "192.0.0.192", "fd00:ec2::254"):
    attempt("no: metadata at " + host, lambda host=host: connect(host, 80))
attempt("no: the host's loopback mapped", lambda: connect("::ffff:" + gw, other))
attempt("no: docker's resolver", lambda: send("127.0.0.11", 53))
for host in (gw, "8.8.8.8", "127.0.0.53", "255.255.255.255", "224.0.0.251"):
    attempt("no: DNS at " + host, lambda host=host: send(host, 53))
attempt("no: DNS over TCP", lambda: connect(gw, 53))
attempt("no: a name", lambda: socket.getaddrinfo("example.com", 443))
attempt("no: a datagram to the gateway's port", lambda: send(gw, 8088))
def connect_from(port):
    with socket.socket() as it:
        it.bind(("", port))
        it.settimeout(1.5)
        it.connect((lan, everywhere))
        return "connected"
attempt("no: a source port of the gateway's", lambda: connect_from(8088))
attempt("no: a raw socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt("no: a packet socket", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
attempt("no: a ping", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1))
attempt("no: a vsock", lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).connect((2, 1)))
`;
}

/** Ways to change what the firewall lets through, and what of them is left in the end. */
export function firewallAttacks({ gateway, other_port }: Pick<NetworkPlaces, "gateway" | "other_port">): string {
  return `
import time
attempt("read the rules", lambda: run("nft", "list", "ruleset"))
attempt("flush the rules", lambda: run("nft", "flush", "ruleset"))
attempt("delete the table", lambda: run("nft", "delete", "table", "inet", "taskd"))
attempt("add a rule", lambda: run("nft", "insert", "rule", "inet", "taskd", "output", "accept"))
attempt("as root of a namespace of its own", lambda: run("unshare", "--user", "--map-root-user", "nft", "flush", "ruleset"))
attempt("in a network of its own", lambda: run("unshare", "--net", "true"))
attempt("by the namespace of its first program", lambda: run("nsenter", "--target", "1", "--net", "nft", "flush", "ruleset"))
attempt("become root again", lambda: os.setuid(0))
attempt("become root's group again", lambda: os.setgid(0))
attempt("by the entrypoint again", lambda: run("/usr/local/libexec/taskd-entrypoint", "1.1.1.1", "443", "1000", "1000", "true"))
attempt("take a capability back", lambda: run("setpriv", "--ambient-caps=+net_admin", "--inh-caps=+net_admin", "true"))
attempt("turn forwarding on", lambda: open("/proc/sys/net/ipv4/ip_forward", "w").write("1"))
attempt("run before it is up", lambda: connect(${JSON.stringify(gateway)}, ${other_port}))
[thread.join() for thread in running]
attempt("and after all that", lambda: connect(${JSON.stringify(gateway)}, ${other_port}))
for line in open("/proc/self/status"):
    if line.startswith(("Cap", "NoNewPrivs")):
        report(*line.split())
`;
}

/** What a program could do to the host and to itself, and what it sees. */
export const WALL_ATTACKS = `
for path in ("/x", "/etc/passwd", "/usr/bin/x", "/usr/local/libexec/taskd-entrypoint", "/home/x", "/dev/x", "/run/x",
             "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/fs/cgroup/memory/memory.limit_in_bytes",
             "/sys/fs/cgroup/memory.max", "/sys/kernel/uevent_helper", "/proc/1/oom_score_adj_x"):
    attempt("no: write " + path, lambda path=path: open(path, "w").write("x"))
attempt("no: mount", lambda: call("mount", b"none", b"/tmp", b"tmpfs", 0, None))
attempt("no: unmount", lambda: call("umount2", b"/workspace", 2))
attempt("no: remount the root writable", lambda: call("mount", None, b"/", None, 32, None))
attempt("no: make a device", lambda: os.mknod("/tmp/disk", 0o60600, os.makedev(254, 0)))
attempt("no: chroot", lambda: os.chroot("/tmp"))
attempt("no: become root", lambda: os.setuid(0))
attempt("no: a mount namespace", lambda: run("unshare", "--mount", "true"))
attempt("no: give a file to root", lambda: os.chown("/workspace/attempts.py", 0, 0))
attempt("no: set the clock", lambda: __import__("time").clock_settime(0, 0))
attempt("no: the host's name", lambda: socket.sethostname("x"))
attempt("no: lower its niceness", lambda: os.nice(-5))
attempt("no: raise a limit", lambda: call("setrlimit", resource.RLIMIT_NOFILE, (ctypes.c_ulong * 2)(10**7, 10**7)))
attempt("no: the kernel's log", lambda: open("/dev/kmsg").read(1))
def memory():
    if not open("/proc/kcore", "rb").read(1):
        raise PermissionError(errno.EACCES, "something empty is in its place")
attempt("no: the memory of the host", memory)
# Where they are not as in the kernel's table for new machines.
finit_module, bpf = {"x86_64": (313, 321)}.get(platform.machine(), (273, 280))
def module():
    with open("/workspace/attempts.py") as file:
        try:
            call("syscall", finit_module, file.fileno(), b"", 0)
        except OSError as error:
            if error.errno == errno.ENOEXEC:
                return "the kernel read it"
            raise
attempt("no: a kernel module", module)
# An array of one number: what is malformed would be refused everywhere.
attempt("no: bpf", lambda: call("syscall", bpf, 0, (ctypes.c_uint * 4)(2, 4, 4, 1), 16))
[thread.join() for thread in running]
def suid():
    import shutil
    shutil.copy("/bin/sh", "/tmp/sh")
    os.chmod("/tmp/sh", 0o6755)
    return os.popen("/tmp/sh -p -c 'id -u'").read().strip()
attempt("uid of a program with the set-user-id bit", suid)
attempt("set-id programs", lambda: os.popen("find / -xdev -perm /6000 -type f -not -path '/tmp/*' 2>/dev/null").read().strip() or "none")
attempt("sockets", lambda: os.popen("find / -type s 2>/dev/null").read().strip() or "none")
attempt("uids of processes", lambda: " ".join(sorted({str(os.stat("/proc/" + pid).st_uid) for pid in os.listdir("/proc") if pid.isdigit()})))
attempt("folders of the host", lambda: " ".join(sorted(line.split()[1] for line in open("/proc/mounts") if line.startswith("/dev/"))))
attempt("environment", lambda: " ".join(sorted(os.environ)))
attempt("names", lambda: open("/etc/hosts").read() + open("/etc/resolv.conf").read())
attempt("host name", socket.gethostname)
attempt("writes its work tree", lambda: open("/workspace/made", "w").write("x"))
attempt("writes its home", lambda: open("/home/agent/made", "w").write("x"))
attempt("writes /tmp", lambda: open("/tmp/made", "w").write("x"))
`;

/** More processes than there may be; prints their number, and stays. */
export const FORK_BOMB = `
import os, time
count = 0
try:
    while True:
        if os.fork() == 0:
            time.sleep(600)
        count += 1
except BlockingIOError:
    print("made", count, flush=True)
time.sleep(600)
`;
