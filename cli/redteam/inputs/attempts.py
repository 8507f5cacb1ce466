# What the scripts of attempts begin with. Each attempt prints a row {name, got}; got begins with "refused" only for what
# the system itself refused, or a timeout. Any other exception is an attack that is broken, and got says so.
# attempt(name, function) runs all at the same time: what is dropped is only noticed by waiting.
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
