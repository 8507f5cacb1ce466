import { assertEquals } from "@std/assert";
import { ROUTES } from "../../../broker/http/routes.ts";
import { verdictOf, withBroker } from "./_broker.ts";

// conformance: b5.addr b2.effect.broker.addr
Deno.test("a listener on every address answers to each, and to no name that can be rebound", async () => {
  for (const addr of ["0.0.0.0:0", "[::]:0"]) {
    await withBroker(async (broker) => {
      const { port } = broker;
      const status = async (host: string) => (await broker.ask("GET /healthz", [`Host: ${host}`], { port })).status;
      for (const host of ["10.0.0.5", "192.0.2.7", "[2001:db8::1]", "[2001:DB8:0:0::1]", "localhost", "[::1]"]) {
        assertEquals(await status(`${host}:${port}`), 200, `${addr} ${host}`);
      }
      for (
        const host of [
          `10.0.0.5:${port === 65_535 ? 1 : port + 1}`,
          "10.0.0.5",
          `10.0.0.5.:${port}`,
          `10.5:${port}`,
          `evil.example:${port}`,
          `10.0.0.5.evil.example:${port}`,
          `broker:${port}`,
          `:${port}`,
        ]
      ) {
        assertEquals(await status(host), 403, `${addr} ${host}`);
      }
      const origin = await broker.ask("GET /tasks", [`Host: 10.0.0.5:${port}`, "Origin: http://evil.example"], {
        port,
      });
      assertEquals(verdictOf(origin), [403, "denied"]);
    }, { addr });
  }
});

Deno.test("a listener on one address answers to no other", () =>
  withBroker(async (broker) => {
    const { port } = broker;
    const answer = await broker.ask("GET /healthz", [`Host: 10.0.0.5:${port}`], { port });
    assertEquals(verdictOf(answer), [403, "denied"]);
  }, { addr: "127.0.0.1:0" }));

/** An address of this machine that is not loopback: what another machine's connection looks like from here. */
const outward = Deno.networkInterfaces().find(({ family, address }) =>
  family === "IPv4" && !address.startsWith("127.")
);

// conformance: b5.addr b5.admin b4.admin_listener
Deno.test({
  name: "over a listener on every address, who does not come over loopback submits tasks and administers nothing" +
    (outward === undefined ? ": ignored, this machine has no other address" : ""),
  ignore: outward === undefined,
  fn: () =>
    withBroker(async (broker) => {
      const ask = async (method: string, path: string, body?: string) => {
        const response = await fetch(`http://${outward!.address}:${broker.port}${path}`, {
          method,
          ...(body === undefined ? {} : { body, headers: { "content-type": "application/json" } }),
        });
        await response.body?.cancel();
        return response.status;
      };
      const order = JSON.stringify({ repo: "https://example.com/o/r.git", instruction: "Fix the test" });
      assertEquals(await ask("POST", "/tasks", order), 202);
      for (const { method, path } of ROUTES) {
        if (path.startsWith("/admin/")) assertEquals(await ask(method, path.replace("<id>", "a1")), 403, path);
      }
    }, { addr: "0.0.0.0:0" }),
});
