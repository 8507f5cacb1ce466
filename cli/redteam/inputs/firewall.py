# Ways to change what the firewall lets through, and what of them is left in the end; gw and other are defined before it.
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
attempt("run before it is up", lambda: connect(gw, other))
[thread.join() for thread in running]
attempt("and after all that", lambda: connect(gw, other))
for line in open("/proc/self/status"):
    if line.startswith(("Cap", "NoNewPrivs")):
        report(*line.split())
