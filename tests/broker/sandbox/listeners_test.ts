import { assertEquals, assertMatch } from "@std/assert";
import { EgressProxy } from "../../../broker/egress/proxy.ts";
import { GATEWAY_PORT, PROXY_PORT } from "../../../broker/egress/ports.ts";
import { Gateway } from "../../../broker/gateway/gateway.ts";
import { PriceBook } from "../../../broker/gateway/prices.ts";
import { systemClock, systemRandom } from "../../../lib/clock.ts";
import { configure, EMBEDDED, makeBrokerPlace, startBroker } from "../../cli/support/broker_place.ts";
import { elsewhere, listeningOf, ROUTES } from "../../support/other_user.ts";
import { podmanTest, testRuntime } from "../../support/podman.ts";
import { runIn } from "./_container.ts";

/** Prints each address and port at which a connection is taken, and what is answered there to each route. */
const ASK = `
import json, socket, sys
places, routes = json.loads(sys.argv[1])
def ask(address, port, route):
    with socket.create_connection((address, port), 2) as conn:
        conn.settimeout(10)
        conn.sendall(("GET %s HTTP/1.1\\r\\nHost: localhost:%d\\r\\nConnection: close\\r\\n\\r\\n" % (route, port)).encode())
        return conn.recv(4096).split(b"\\r\\n")[0].decode(errors="replace")
for address, port in places:
    try: socket.create_connection((address, port), 2).close()
    except OSError: continue
    for route in routes:
        try: print("answer", address, port, route, ask(address, port, route))
        except OSError as error: print("answer", address, port, route, type(error).__name__)
print("tried")
`;

podmanTest("a container gets from a broker what asks for its task's credentials, and reaches no more", async () => {
  await using test = await testRuntime();
  const { listen: { hostname } } = await test.runtime.prepare();
  await using place = await makeBrokerPlace();
  // On every address of the machine, that of the sandboxes' network among them.
  await configure(place, `${EMBEDDED}broker:\n  addr: 0.0.0.0:0\n`);
  await using broker = await startBroker(place);
  const { ports } = listeningOf(broker.hello.pid);
  // The interface, the pages; the gateway and the proxy of a runtime without containers.
  assertEquals(ports.length, 4);
  await using stack = new AsyncDisposableStack();
  const gateway = Gateway.start({ hostname, upstreams: {}, prices: new PriceBook({ now: () => 0 }) });
  stack.defer(() => gateway.close());
  const proxy = EgressProxy.listen({ hostname, port: PROXY_PORT }, {
    clock: systemClock,
    random: systemRandom,
    egress: { entries: [] },
    log_dir: place.base,
  });
  stack.defer(() => proxy.close());
  const addresses = new Set([hostname, "127.0.0.1", ...elsewhere()]);
  const places = [...addresses].flatMap((address) =>
    [...ports, GATEWAY_PORT, PROXY_PORT].map((port) => [address, port])
  );
  const { out, end, err } = await runIn(test, ["python3", "-c", ASK, JSON.stringify([places, ROUTES])]);
  assertEquals(end.code, 0, err.join("\n"));
  const lines = out.map((line) => line.trim());
  assertEquals(lines.pop(), "tried");
  for (const line of lines) {
    const [, address, port, route, ...answer] = line.split(" ");
    assertEquals(address, hostname, line);
    assertMatch(port!, new RegExp(`^(?:${GATEWAY_PORT}|${PROXY_PORT})$`), line);
    assertMatch(answer.join(" "), /^HTTP\/1\.1 40[0137] /, `${line} (${route})`);
  }
  // A container that reaches nothing at all would prove nothing.
  assertEquals(lines.length, 2 * ROUTES.length);
  await place.taskd("stop");
  await broker.ended();
});
