# Ways to change what the network lets through, and what of them is left in the end; gw, other and tools are defined
# before it. Of a sandbox without a firewall of its own, tools has the programs that are there.
import time
def attempt_by(name, *command):
    if tools is None or command[0] in tools:
        attempt(name, lambda: run(*command))
attempt_by("read the rules", "nft", "list", "ruleset")
attempt_by("flush the rules", "nft", "flush", "ruleset")
attempt_by("delete the table", "nft", "delete", "table", "inet", "taskd")
attempt_by("add a rule", "nft", "insert", "rule", "inet", "taskd", "output", "accept")
attempt("as root of a namespace of its own", lambda: run("unshare", "--user", "--map-root-user", "nft" if tools is None else "true", "flush", "ruleset"))
attempt("in a network of its own", lambda: run("unshare", "--net", "true"))
attempt_by("by the namespace of its first program", "nsenter", "--target", "1", "--net", "nft", "flush", "ruleset")
attempt("become root again", lambda: os.setuid(0))
attempt("become root's group again", lambda: os.setgid(0))
attempt_by("by the entrypoint again", "/usr/local/libexec/taskd-entrypoint", "1.1.1.1", "443", "1000", "1000", "true")
attempt("take a capability back", lambda: run("setpriv", "--ambient-caps=+net_admin", "--inh-caps=+net_admin", "true"))
attempt("turn forwarding on", lambda: open("/proc/sys/net/ipv4/ip_forward", "w").write("1"))
attempt("run before it is up", lambda: connect(gw, other))
[thread.join() for thread in running]
attempt("and after all that", lambda: connect(gw, other))
for line in open("/proc/self/status"):
    if line.startswith(("Cap", "NoNewPrivs")):
        report(*line.split())
