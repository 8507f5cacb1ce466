import { assert, assertEquals } from "@std/assert";
import { Validator } from "@seriousme/openapi-schema-validator";
import { Ajv2020 } from "ajv/dist/2020.js";
import * as v from "valibot";
import { TASK_EVENTS } from "../../../broker/api/wire.ts";
import { openApi } from "../../../broker/http/openapi.ts";
import { ROUTES } from "../../../broker/http/routes.ts";
import { headerOf, RawHttp } from "../../support/raw_http.ts";
import { OPENAPI_FILE } from "../../tools/openapi.ts";
import { BrokerBench } from "../engine/bench.ts";
import { withBroker } from "./_broker.ts";
import { longTest } from "../../support/long.ts";

Deno.test("docs/openapi.json says what the table of routes and the schemas say", async () => {
  const written = JSON.parse(await Deno.readTextFile(OPENAPI_FILE));
  assertEquals(written, JSON.parse(JSON.stringify(openApi(ROUTES))), "run: deno run -A tests/tools/openapi.ts");
});

Deno.test("docs/openapi.json is valid OpenAPI 3.1 and has every route", async () => {
  const document = JSON.parse(await Deno.readTextFile(OPENAPI_FILE));
  const validator = new Validator();
  assertEquals(await validator.validate(document), { valid: true });
  assertEquals(validator.version, "3.1");
  const listed = Object.entries<object>(document.paths).flatMap(([path, operations]) =>
    Object.keys(operations).filter((name) => name !== "description").map((method) =>
      `${method.toUpperCase()} ${path.replace("{id}", "<id>")}`
    )
  );
  assertEquals(listed.sort(), ROUTES.map(({ method, path }) => `${method} ${path}`).sort());
});

Deno.test("/openapi.json is served on every listener, with the token where the others need one", () =>
  withBroker(async (broker) => {
    const written = JSON.parse(await Deno.readTextFile(OPENAPI_FILE));
    for (const port of [undefined, broker.port]) {
      const host = port === undefined ? [] : [`Host: 127.0.0.1:${port}`];
      const { status, body } = await broker.ask("GET /openapi.json", host, port === undefined ? {} : { port });
      assertEquals([status, JSON.parse(body)], [200, written]);
    }
    assertEquals(
      (await broker.ask("GET /openapi.json", [`Host: 127.0.0.1:${broker.ui_port}`], { port: broker.ui_port })).status,
      401,
    );
  }, { addr: "127.0.0.1:0" }));

Deno.test("a method that a path does not have is refused as openapi.json says of the path", () =>
  withBroker(async (broker) => {
    const document = JSON.parse(await Deno.readTextFile(OPENAPI_FILE));
    const ajv = new Ajv2020({ strict: false, validateFormats: false });
    ajv.addSchema(document, "openapi");
    for (const [path, { description }] of Object.entries<{ description: string }>(document.paths)) {
      const answer = await broker.ask(`DELETE ${path.replace("{id}", "ab".repeat(16))}`);
      assertEquals(answer.status, 405, path);
      assertEquals(
        description,
        `Any other method is refused with 405, a Problem, and \`Allow: ${headerOf(answer, "allow")}\`.`,
      );
      assert(ajv.validate("openapi#/components/schemas/Problem", JSON.parse(answer.body)), ajv.errorsText());
    }
  }));

longTest("every JSON answer and event of a running broker is what openapi.json says", async () => {
  await using bench = await BrokerBench.start({ config: "max_concurrent_tasks: 8\n" });
  const done = await bench.pushed();
  const { id } = await bench.submit({ sensitive: true, draft: true });
  await bench.reaches(id, "awaiting_approval");
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  ajv.addSchema(JSON.parse(await Deno.readTextFile(OPENAPI_FILE)), "openapi");

  const ask = async (line: string, body?: object) => {
    using raw = new RawHttp(await Deno.connect({ transport: "unix", path: bench.broker.socket }));
    await raw.request(line, [], body && JSON.stringify(body));
    return (await raw.response())!;
  };
  const order = { repo: bench.git.origin, instruction: "Say hello" };
  const bodies: Record<string, object> = {
    "POST /tasks": order,
    "POST /queue": order,
    "POST /admin/tokens": { role: "read", ttl_ms: 60_000 },
    "POST /admin/prune": { before: "2026-01-01T00:00:00Z" },
  };
  for (const { method, path, answer, required, pages } of ROUTES) {
    // Rows of databases, which these tasks do not have, are held to it where there are some; the socket has no sessions.
    if (!("schema" in answer) || required !== undefined || pages !== undefined) continue;
    for (const task_id of path.includes("<id>") ? [done.id, id] : [id]) {
      const line = `${method} ${path.replace("<id>", task_id)}`;
      const { status, body } = await ask(line, bodies[`${method} ${path}`]);
      assertEquals(status, answer.status, line);
      const value = JSON.parse(body);
      // Strictly: the broker sends no field that the schema does not have.
      const parsed = v.safeParse(answer.schema, value);
      assert(
        parsed.success,
        `${line}: ${JSON.stringify(parsed.issues?.map((issue) => [v.getDotPath(issue), issue.message]))}`,
      );
      const pointer = `paths/${
        path.replace("<id>", "{id}").replaceAll("/", "~1").replaceAll("{", "%7B").replaceAll("}", "%7D")
      }`;
      const schema = `openapi#/${pointer}/${method.toLowerCase()}/responses/${status}/content/application~1json/schema`;
      assert(ajv.validate(schema, value), `${line}: ${ajv.errorsText()}`);
    }
  }
  const refused = await ask("GET /tasks/ffff");
  assert(ajv.validate("openapi#/components/schemas/Problem", JSON.parse(refused.body)), ajv.errorsText());

  using raw = new RawHttp(await Deno.connect({ transport: "unix", path: bench.broker.socket }));
  await raw.request(`GET /tasks/${done.id}/events`);
  const events = [await raw.until("event: result\n"), `${await raw.until("\n\n")}`].join("").split("\n\n");
  const seen = new Set<string>();
  for (const text of events) {
    const [, event, data] = /^event: (\w+)\ndata: (.*)$/m.exec(text) ?? [];
    if (event === undefined) continue;
    seen.add(event);
    const value = { event, data: JSON.parse(data!) };
    assert(v.is(TASK_EVENTS[event as keyof typeof TASK_EVENTS], value.data), text);
    assert(ajv.validate("openapi#/components/schemas/TaskEvent", value), `${text}: ${ajv.errorsText()}`);
  }
  assert(seen.has("stage") && seen.has("evidence") && seen.has("spend") && seen.has("result"), [...seen].join());
});
