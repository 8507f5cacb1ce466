# What a program could do to the host and to itself, and what it sees.
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
def without_nosuid():
    found = os.popen("find / -xdev -perm /6000 -type f 2>/dev/null; find /usr -perm /6000 -type f 2>/dev/null").read().split("\n")
    return " ".join(path for path in found if path and not os.statvfs(path).f_flag & os.ST_NOSUID) or "none"
attempt("set-id programs without nosuid", without_nosuid)
attempt("sockets", lambda: os.popen("find / -type s 2>/dev/null").read().strip() or "none")
attempt("uids of processes", lambda: " ".join(sorted({str(os.stat("/proc/" + pid).st_uid) for pid in os.listdir("/proc") if pid.isdigit()})))
attempt("folders of the host", lambda: " ".join(sorted(line.split()[1] for line in open("/proc/mounts") if line.startswith("/dev/"))))
attempt("environment", lambda: " ".join(sorted(os.environ)))
attempt("names", lambda: open("/etc/hosts").read() + open("/etc/resolv.conf").read())
attempt("host name", socket.gethostname)
attempt("writes its work tree", lambda: open("/workspace/made", "w").write("x"))
attempt("writes its home", lambda: open("/home/agent/made", "w").write("x"))
attempt("writes /tmp", lambda: open("/tmp/made", "w").write("x"))
