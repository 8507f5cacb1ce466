import { assertEquals } from "@std/assert";
import { GATEWAY_PORT } from "../../../broker/egress/ports.ts";
import { configure, EMBEDDED, makeBrokerPlace, startBroker } from "../../cli/support/broker_place.ts";
import { elsewhere, listeningOf } from "../../support/other_user.ts";
import { podmanTest, testRuntime } from "../../support/podman.ts";
import { runIn } from "./_container.ts";

/** Prints each address and port at which a connection is taken. */
const CONNECT = `
import json, socket, sys
for address, port in json.loads(sys.argv[1]):
    try:
        socket.create_connection((address, port), 2).close()
        print("taken", address, port)
    except OSError: pass
print("tried")
`;

podmanTest("a container reaches no listener of a broker, on any address", async () => {
  await using test = await testRuntime();
  const { listen: { hostname } } = await test.runtime.prepare();
  await using place = await makeBrokerPlace();
  await configure(place, `${EMBEDDED}broker:\n  addr: 127.0.0.1:0\n`);
  await using broker = await startBroker(place);
  const { ports } = listeningOf(broker.hello.pid);
  // The interface, the pages, the gateway, the proxy.
  assertEquals(ports.length, 4);
  // A container that reaches nothing at all would prove nothing.
  using _gateway = Deno.listen({ hostname, port: GATEWAY_PORT });
  const places = [hostname, "127.0.0.1", ...elsewhere()].flatMap((address) => ports.map((port) => [address, port]));
  const asked = JSON.stringify([...places, [hostname, GATEWAY_PORT]]);
  const { out, end } = await runIn(test, ["python3", "-c", CONNECT, asked]);
  assertEquals(end.code, 0);
  assertEquals(out.map((line) => line.trim()), [`taken ${hostname} ${GATEWAY_PORT}`, "tried"]);
  await place.taskd("stop");
  await broker.ended();
});
