/**
 * What a container sandbox reaches, tried from inside of it: the gateway, the proxy, and nothing else, whatever the agent
 * does about it.
 *
 * @module
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { podman, podmanTest, testRuntime } from "../../support/podman.ts";
import { attempts, startIn } from "./_container.ts";

/** Answers each connection with a word. */
function greeter(address: Deno.TcpListenOptions, word: string): { port: number; accepted: () => number } & Disposable {
  const listener = Deno.listen(address);
  let count = 0;
  const serve = async () => {
    for await (const connection of listener) {
      count++;
      await connection.write(new TextEncoder().encode(word)).catch(() => {});
      connection.close();
    }
  };
  void serve();
  return { port: listener.addr.port, accepted: () => count, [Symbol.dispose]: () => listener.close() };
}

/** An address of the host that other machines know. */
function lanAddress(): string {
  const found = Deno.networkInterfaces().find(({ family, address }) =>
    family === "IPv4" && !address.startsWith("127.") && !address.startsWith("10.213.")
  );
  return found?.address ?? "127.0.0.1";
}

// conformance: b1.gateway_port b1.proxy_port b4.admin_unreachable b8.ports
podmanTest("of the network a sandbox reaches the gateway and the proxy alone", async () => {
  await using test = await testRuntime(11);
  const { listen } = await test.runtime.prepare();
  assertEquals(listen, { hostname: test.gateway_ip, gateway_port: 8088, proxy_port: 3128 });
  using _gateway = greeter({ hostname: listen.hostname, port: listen.gateway_port }, "the gateway");
  using _proxy = greeter({ hostname: listen.hostname, port: listen.proxy_port }, "the proxy");
  using other = greeter({ hostname: listen.hostname, port: 0 }, "another port");
  using everywhere = greeter({ hostname: "0.0.0.0", port: 0 }, "the host");
  const sibling = await startIn(test, [
    "python3",
    "-c",
    `
import socket, select
ports = [socket.create_server(("0.0.0.0", port)) for port in (8088, 3128, 9999)]
print("ready", flush=True)
ready = select.select(ports, [], [], 60)[0]
print("reached", flush=True)
`,
  ]);
  await sibling.line("ready");
  const { stdout } = await podman(
    "inspect",
    "--format={{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}",
    `taskd-${test.owner.slice(0, 12)}-${sibling.task_id}`,
  );
  const sibling_ip = stdout.trim();
  assertStringIncludes(sibling_ip, "10.213.11.");

  const got = await attempts(
    test,
    `
gw, other, everywhere, lan, sibling = ${
      JSON.stringify([listen.hostname, other.port, everywhere.port, lanAddress(), sibling_ip])
    }
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
attempt("no: a source port of the gateway's", lambda: connect_from(8088))
def connect_from(port):
    with socket.socket() as it:
        it.bind(("", port))
        it.settimeout(1.5)
        it.connect((lan, everywhere))
        return "connected"
attempt("no: a raw socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt("no: a packet socket", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
attempt("no: a ping", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1))
attempt("no: a vsock", lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).connect((2, 1)))
`,
  );
  assertEquals(got.get("gateway"), "the gateway");
  assertEquals(got.get("proxy"), "the proxy");
  assertEquals(got.get("its own loopback"), "own loopback");
  const refused = [...got].filter(([name]) => name.startsWith("no: "));
  assertEquals(refused.length, 30);
  assertEquals(refused.filter(([, what]) => !what.startsWith("refused ")), []);
  assertEquals([other.accepted(), everywhere.accepted()], [0, 0]);
  assertEquals((await sibling.sandbox.stop()).reason, "stopped");
  assert(!sibling.lines.some(({ text }) => text === "reached"), "the sibling was reached");
});

podmanTest("an agent cannot change the firewall of its sandbox", async () => {
  await using test = await testRuntime(12);
  const { listen } = await test.runtime.prepare();
  using other = greeter({ hostname: listen.hostname, port: 0 }, "another port");
  const got = await attempts(
    test,
    `
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
attempt("run before it is up", lambda: connect(${JSON.stringify(listen.hostname)}, ${other.port}))
[thread.join() for thread in running]
attempt("and after all that", lambda: connect(${JSON.stringify(listen.hostname)}, ${other.port}))
for line in open("/proc/self/status"):
    if line.startswith(("Cap", "NoNewPrivs")):
        report(*line.split())
`,
  );
  const state = (name: string) => Number.parseInt(got.get(name)!, 16);
  for (const set of ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"]) assertEquals(state(set), 0, set);
  assertEquals(got.get("NoNewPrivs:"), "1");
  const attacks = [...got].filter(([name]) => !name.endsWith(":"));
  assertEquals(attacks.length, 14);
  assertEquals(attacks.filter(([, what]) => !what.startsWith("refused ")), []);
  assertEquals(other.accepted(), 0);
});

podmanTest("a setup command reaches the proxy and not the gateway", async () => {
  await using test = await testRuntime(13);
  const { listen } = await test.runtime.prepare();
  using gateway = greeter({ hostname: listen.hostname, port: listen.gateway_port }, "the gateway");
  using _proxy = greeter({ hostname: listen.hostname, port: listen.proxy_port }, "the proxy");
  const got = await attempts(
    test,
    `
attempt("gateway", lambda: connect("${listen.hostname}", 8088))
attempt("proxy", lambda: connect("${listen.hostname}", 3128))
`,
    { reach: "proxy" },
  );
  assertEquals(got.get("proxy"), "the proxy");
  assertStringIncludes(got.get("gateway")!, "refused");
  assertEquals(gateway.accepted(), 0);
});
