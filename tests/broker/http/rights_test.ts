import { assertEquals } from "@std/assert";
import type { ApiRole } from "../../../broker/api/wire.ts";
import { type ListenerKind, LISTENERS, mayUse, ROLES } from "../../../broker/http/listener_policy.ts";
import { isAdmin } from "../../../broker/http/rights.ts";
import { ROUTES } from "../../../broker/http/routes.ts";
import { type TestBroker, verdictOf, withBroker } from "./_broker.ts";
import { beginSession } from "../../support/page_session.ts";

const READING = "socket addr ui api:read api:submit api:approve";
const SUBMITTING = "socket addr ui api:submit api:approve";
const APPROVING = "socket addr ui api:approve";
const WATCHING = "socket addr metrics ui api:read api:submit api:approve";

/** Every route, and every client that may use it: what the table of routes says, said once more. */
const EXPECTED: Record<string, string> = {
  "POST /tasks": SUBMITTING,
  "GET /tasks": READING,
  "GET /tasks/<id>": READING,
  "GET /tasks/<id>/events": READING,
  "GET /tasks/<id>/diff": READING,
  "GET /tasks/<id>/brief": READING,
  "GET /tasks/<id>/database-diff": READING,
  "GET /tasks/<id>/verification": READING,
  "GET /tasks/<id>/log": READING,
  "POST /tasks/<id>/retry": SUBMITTING,
  "POST /queue": SUBMITTING,
  "GET /queue": READING,
  "POST /queue/<id>/cancel": APPROVING,
  "GET /admin/pending": READING,
  "GET /admin/tasks/<id>/bases": APPROVING,
  "POST /admin/tasks/<id>/approve": APPROVING,
  "POST /admin/tasks/<id>/deny": APPROVING,
  "POST /admin/tasks/<id>/push": APPROVING,
  "POST /admin/tasks/<id>/kill": APPROVING,
  "POST /admin/tasks/<id>/egress": APPROVING,
  "POST /admin/prune": APPROVING,
  "GET /admin/policy": APPROVING,
  "GET /admin/ceiling": READING,
  "GET /admin/stats": READING,
  "GET /admin/ui": "socket",
  "GET /admin/tokens": "socket",
  "POST /admin/tokens": "socket",
  "POST /admin/tokens/<id>/revoke": "socket",
  "POST /session": "ui",
  "POST /session/end": "ui",
  "GET /healthz": WATCHING,
  "GET /metrics": WATCHING,
  "GET /openapi.json": READING,
};

const KINDS = Object.keys(LISTENERS) as ListenerKind[];
const ROLE_NAMES = Object.keys(ROLES) as ApiRole[];

Deno.test("each route is for exactly the listeners and roles that are listed for it", () => {
  for (const route of ROUTES) {
    const able = KINDS.flatMap((kind) => {
      if (kind !== "api") return [undefined, ...ROLE_NAMES].every((role) => mayUse(kind, role, route)) ? [kind] : [];
      assertEquals(mayUse(kind, undefined, route), false, route.path);
      return ROLE_NAMES.filter((role) => mayUse(kind, role, route)).map((role) => `${kind}:${role}`);
    });
    const expected = EXPECTED[`${route.method} ${route.path}`];
    assertEquals(able.sort(), expected?.split(" ").sort(), `${route.method} ${route.path}`);
  }
  assertEquals(Object.keys(EXPECTED).length, ROUTES.length);
});

Deno.test("the role read changes nothing, and each role may what the one before it may", () => {
  for (const { method, right } of ROUTES) if (method === "POST") assertEquals(ROLES.read.includes(right), false);
  for (const [less, more] of [["read", "submit"], ["submit", "approve"]] as const) {
    assertEquals(ROLES[less].every((right) => ROLES[more].includes(right)), true);
  }
  for (const role of ROLE_NAMES) assertEquals(ROLES[role].some((right) => ["own", "session"].includes(right)), false);
});

/** Where each client asks, and with which header. */
async function clients(broker: TestBroker): Promise<Record<string, { port?: number; more: string[] }>> {
  const bearer = (port: number, token: string) => ({
    port,
    more: [`Host: 127.0.0.1:${port}`, `Authorization: Bearer ${token}`],
  });
  const of_roles = await Promise.all(ROLE_NAMES.map(async (role) => {
    const { token } = await broker.client.createApiToken({ role, ttl_ms: 60_000 });
    return [`api:${role}`, bearer(broker.api_port, token)] as const;
  }));
  return {
    socket: { more: [] },
    addr: { port: broker.port, more: [`Host: 127.0.0.1:${broker.port}`] },
    metrics: { port: broker.metrics_port, more: [`Host: 127.0.0.1:${broker.metrics_port}`] },
    ui: bearer(broker.ui_port, await beginSession(await broker.client.uiUrl())),
    ...Object.fromEntries(of_roles),
  };
}

Deno.test("over the listeners themselves, each route refuses with 403 exactly whom it is not for", () =>
  withBroker(async (broker) => {
    const asking = await clients(broker);
    for (const { method, path, pages } of ROUTES) {
      const allowed = EXPECTED[`${method} ${path}`]!.split(" ");
      // What would be let in is asked for what is not there, so that the next client finds the same.
      const line = `${method} ${path.replace("<id>", "f".repeat(32))}`;
      for (const [name, { more, port }] of Object.entries(asking)) {
        if (path === "/session/end" && name === "ui" || pages === "code" && name === "ui") continue;
        const answer = await broker.ask(line, more, {
          ...(port && { port }),
          ...(method === "POST" && { body: "[]" }),
        });
        assertEquals(answer.status === 403, !allowed.includes(name), `${line} of ${name}: ${answer.status}`);
        if (answer.status === 403) assertEquals(verdictOf(answer), [403, "denied"]);
        assertEquals(answer.status === 401, false, `${line} of ${name}`);
      }
    }
  }, { addr: "127.0.0.1:0", api_addr: "127.0.0.1:0", metrics_addr: "127.0.0.1:0" }));

Deno.test("what only operators may is of the routes that every listener over TCP checks the peer for", () => {
  const operators = ROUTES.filter(({ right }) => right === "approve" || right === "own");
  assertEquals(operators.every(isAdmin), true);
  assertEquals(LISTENERS.addr.operators, "peers of this machine, without a proxy");
  assertEquals(LISTENERS.api.operators, "peers of this machine");
});
