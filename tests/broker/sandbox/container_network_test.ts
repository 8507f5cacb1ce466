/**
 * What a container sandbox reaches, tried from inside of it: the gateway, the proxy, and nothing else, whatever the agent
 * does about it.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { firewallAttacks, networkAttacks, SIBLING_SCRIPT } from "../../../cli/redteam/inputs/container_scripts.ts";
import type { TestNetwork } from "../../support/networks.ts";
import { podman, podmanTest, testRuntime } from "../../support/podman.ts";
import { attempts, startIn } from "./_container.ts";
import { longTest } from "../../support/long.ts";

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
function lanAddress({ prefix }: TestNetwork): string {
  const found = Deno.networkInterfaces().find(({ family, address }) =>
    family === "IPv4" && !address.startsWith("127.") && !address.startsWith(prefix)
  );
  return found?.address ?? "127.0.0.1";
}

// conformance: b1.gateway_port b1.proxy_port b4.admin_unreachable b8.ports
podmanTest("of the network a sandbox reaches the gateway and the proxy alone", async () => {
  await using test = await testRuntime();
  const { listen } = await test.runtime.prepare();
  assertEquals(listen, { hostname: test.gateway_ip, gateway_port: 8088, proxy_port: 3128 });
  using _gateway = greeter({ hostname: listen.hostname, port: listen.gateway_port }, "the gateway");
  using _proxy = greeter({ hostname: listen.hostname, port: listen.proxy_port }, "the proxy");
  using other = greeter({ hostname: listen.hostname, port: 0 }, "another port");
  using everywhere = greeter({ hostname: "0.0.0.0", port: 0 }, "the host");
  const sibling = await startIn(test, [
    "python3",
    "-c",
    SIBLING_SCRIPT,
  ]);
  await sibling.line("ready");
  const { stdout } = await podman(
    "inspect",
    "--format={{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}",
    `taskd-${test.owner.slice(0, 12)}-${sibling.task_id}`,
  );
  const sibling_ip = stdout.trim();
  assertStringIncludes(sibling_ip, test.prefix);

  const got = await attempts(
    test,
    networkAttacks({
      gateway: listen.hostname,
      other_port: other.port,
      host: lanAddress(test),
      host_port: everywhere.port,
      sibling: sibling_ip,
    }),
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
  await using test = await testRuntime();
  const { listen } = await test.runtime.prepare();
  using other = greeter({ hostname: listen.hostname, port: 0 }, "another port");
  const got = await attempts(
    test,
    firewallAttacks({ gateway: listen.hostname, other_port: other.port }),
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
  await using test = await testRuntime();
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
}, longTest);
