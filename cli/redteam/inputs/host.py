# Ways to what is the host's and its user's; the same script runs in a sandbox, where all of it has to be refused, and
# beside it as the control. Harmless where it works. places is defined before it.
import ctypes, stat
def readable(path):
    with open(path) as file:
        return file.read()
def processes():
    found = []
    for pid in os.listdir("/proc"):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as file:
                if places["victim"].encode() in file.read().split(b"\0"):
                    found.append(pid)
        except OSError:
            pass
    if not found:
        raise ProcessLookupError(errno.ESRCH, "not there")
    return found
def through(form):
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            try:
                return readable(form % pid + places["key"])
            except OSError:
                pass
    raise PermissionError(errno.EACCES, "by none")
def unix(address):
    with socket.socket(socket.AF_UNIX) as it:
        it.settimeout(1.5)
        it.connect(address)
        return it.recv(100).decode()
def set_id():
    path = os.path.join(places["writable"], "set-id")
    with open(path, "w"):
        os.chmod(path, 0o4755)
attempt("read a key", lambda: readable(places["key"]))
attempt("list the folder of the key", lambda: os.listdir(os.path.dirname(places["key"])))
attempt("see a process", processes)
attempt("a socket of the host", lambda: unix(places["socket"]))
attempt("an abstract socket of the host", lambda: unix("\0" + places["abstract"]))
attempt("a port of the host's loopback", lambda: connect("127.0.0.1", places["port"]))
attempt("a set-user-id file", set_id)
if places["inside"]:
    attempt("read a key by /proc/*/root", lambda: through("/proc/%s/root"))
    attempt("read a key by /proc/*/cwd", lambda: through("/proc/%s/cwd/../../../../../../../../.."))
    attempt("the memory of the first process", lambda: open("/proc/1/mem", "r+b").close())
    attempt("the memory of its thread", lambda: open("/proc/1/task/1/mem", "r+b").close())
    attempt("the program of the first process", lambda: open("/proc/1/exe", "r+b").close())
    attempt("remove the gateway's socket", lambda: os.unlink("/run/taskd/gateway"))
    attempt("a link to a file of the system in the work tree", lambda: os.link("/usr/bin/env", "/workspace/env"))
    attempt("trace the first process", lambda: call("ptrace", 16, 1, None, None))
    attempt("a namespace", lambda: run("unshare", "--user", "true"))
    attempt("a sandbox of its own", lambda: call("unshare", 0x10000000))
    attempt("the journal of the system", lambda: os.listdir("/var/log"))
    attempt("devices", lambda: [os.stat("/dev/" + name) for name in ("mem", "kmsg", "kvm", "fuse", "sda", "vda")])
    numbers = {"x86_64": {"keyctl": 250, "add_key": 248, "userfaultfd": 323, "perf_event_open": 298, "io_uring_setup": 425,
                          "open_by_handle_at": 304, "syslog": 103, "mount": 165, "setns": 308, "kexec_load": 246},
               "aarch64": {"keyctl": 219, "add_key": 217, "userfaultfd": 282, "perf_event_open": 241, "io_uring_setup": 425,
                           "open_by_handle_at": 265, "syslog": 116, "mount": 40, "setns": 268, "kexec_load": 104}}
    for name, number in numbers[platform.machine()].items():
        attempt("the call " + name, lambda number=number: call("syscall", number, 6, -5, 0, 0, 0))
    setup = {"x86_64": 206, "aarch64": 0}[platform.machine()]
    attempt("a context of asynchronous I/O", lambda: call("syscall", setup, 1, ctypes.byref(ctypes.c_ulong(0))))
    for family in (17, 31, 38, 40):
        attempt("sockets of the family %d" % family, lambda family=family: socket.socket(family, socket.SOCK_STREAM))
[thread.join() for thread in running]
