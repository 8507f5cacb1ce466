# Everything of a network that is not the gateway's and the proxy's port: gw, other, everywhere, lan and sibling are
# defined before it. What must not be possible is named "no: ...".
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
