/** Promises of the listeners: who may ask the broker, and what it takes. */

import { tcpHostRule } from "../../lib/http/browser_guard.ts";
import type { CommonPromise } from "./context.ts";
import { FORWARDING_FIELDS, REMOTE_PEERS, strangeHosts, strangeOrigins, wrongBearers } from "./inputs/control.ts";
import type { StagedBroker } from "./staged_broker.ts";
import { beginSession, codeOf } from "../support/page_session.ts";

const LINES = ["GET /tasks", "GET /healthz", "GET /admin/pending", "GET /nowhere", "POST /tasks"];

/** An order that would begin a task, were it taken. */
function order(broker: StagedBroker): string {
  return JSON.stringify({ repo: broker.origin, instruction: "redteam" });
}

async function tokenOf(broker: StagedBroker): Promise<string> {
  return await beginSession(await broker.client.uiUrl());
}

async function tasksOf(broker: StagedBroker): Promise<number> {
  return (await broker.client.tasks({ limit: 200 })).tasks.length;
}

export const CONTROL_PROMISES: readonly CommonPromise[] = [
  {
    id: "control.dns_rebinding",
    promise: "A page whose name was rebound to this machine gets nothing: only the listener's own names are answered",
    attacks: "Other Hosts on every TCP listener and route, the token of the pages with them; on the socket too",
    async run(trial, context) {
      const broker = await context.broker();
      const token = await tokenOf(broker);
      const before = await tasksOf(broker);
      for (const port of [broker.ports.addr, broker.ports.ui]) {
        for (const host of strangeHosts(port)) {
          for (const line of LINES) {
            const fields = [`Host: ${host}`, `Authorization: Bearer ${token}`];
            const body = line.startsWith("POST") ? { body: order(broker) } : {};
            const status = await broker.status(line, fields, { port, ...body });
            trial.expect(`${line} for ${JSON.stringify(host)}`, status, 403);
          }
        }
        const own = await broker.status("GET /healthz", [`Authorization: Bearer ${token}`], { port });
        trial.controlEquals("the listener's own name", own, 200);
      }
      trial.expect("the socket for evil.example", await broker.status("GET /admin/ui", ["Host: evil.example"]), 403);
      trial.attempt("tasks that were begun", await tasksOf(broker) === before);
    },
  },
  {
    id: "control.cross_origin",
    promise: "A page of another origin can neither begin a task nor read one",
    attacks: "Other origins with every simple content type, preflights, Sec-Fetch-Site, on every listener",
    async run(trial, context) {
      const broker = await context.broker();
      const authorization = `Authorization: Bearer ${await tokenOf(broker)}`;
      const before = await tasksOf(broker);
      for (const port of [broker.ports.addr, broker.ports.ui]) {
        for (const origin of strangeOrigins(port)) {
          const fields = [authorization, `Origin: ${origin}`];
          for (const type of ["application/json", "text/plain", "application/x-www-form-urlencoded"]) {
            const options = { port, body: order(broker) };
            const verdict = await broker.verdict("POST /tasks", [...fields, `Content-Type: ${type}`], options);
            trial.expect(`POST of ${JSON.stringify(origin)} as ${type}`, verdict, "403 denied");
          }
          for (const line of ["GET /tasks", "OPTIONS /tasks"]) {
            trial.expect(`${line} of ${JSON.stringify(origin)}`, await broker.status(line, fields, { port }), 403);
          }
        }
        for (const site of ["cross-site", "same-site"]) {
          const field = `Sec-Fetch-Site: ${site}`;
          trial.expect(field, await broker.status("GET /tasks", [authorization, field], { port }), 403);
        }
        const own = [authorization, `Origin: http://127.0.0.1:${port}`, "Sec-Fetch-Site: same-origin"];
        trial.controlEquals("the listener's own origin", await broker.status("GET /tasks", own, { port }), 200);
      }
      for (const field of ["Origin: http://localhost", "Sec-Fetch-Site: same-origin"]) {
        trial.expect(`the socket with ${field}`, await broker.status("GET /tasks", [field]), 403);
      }
      trial.attempt("tasks that were begun", await tasksOf(broker) === before);
    },
  },
  {
    id: "control.page_token",
    promise: "The listener of the web pages answers no route without the token of a session",
    attacks: "No token, cut, lengthened, upper case, Basic, two, in the query; and asking for a code over TCP",
    async run(trial, context) {
      const broker = await context.broker();
      const token = await tokenOf(broker);
      const { addr, ui: port } = broker.ports;
      for (const bearer of wrongBearers(token)) {
        const fields = bearer === undefined ? [] : [`Authorization: ${bearer}`];
        for (const line of ["GET /tasks", "GET /admin/pending"]) {
          const what = bearer === undefined ? "nothing" : bearer.replaceAll(/[0-9a-z+/=]{16,}/gi, "...");
          trial.expect(`${line} with ${what}`, await broker.verdict(line, fields, { port }), "401 denied");
        }
      }
      const in_query = await broker.verdict(`GET /tasks?token=${token}`, [], { port });
      trial.expect("a token in the query", in_query, "401 denied");
      for (const [asked, more] of [[addr, []], [port, [`Authorization: Bearer ${token}`]]] as const) {
        const answer = await broker.ask("GET /admin/ui", more, { port: asked });
        trial.attempt("a code over TCP", !/#code=[0-9a-f]{64}/.test(answer.body), "the answer has it");
      }
      trial.attempt("the token in the log", !broker.lines.join("\n").includes(token));
      const own = await broker.status("GET /tasks", [`Authorization: Bearer ${token}`], { port });
      trial.controlEquals("the token itself", own, 200);
    },
  },
  {
    id: "control.page_code",
    promise: "An address of the web pages, as a browser's history keeps it, opens them once and is then worth nothing",
    attacks:
      "Its code twice, eight times at once, cut, lengthened, on other listeners and as a token; an ended session",
    async run(trial, context) {
      const broker = await context.broker();
      const { addr, ui: port } = broker.ports;
      const begin = (code: string, options: { port?: number }, more: readonly string[] = []) =>
        broker.status("POST /session", [`Authorization: Bearer ${code}`, ...more], options);
      const code = codeOf(await broker.client.uiUrl());
      for (const wrong of wrongBearers(code).filter((bearer) => bearer !== undefined)) {
        const status = await broker.status("POST /session", [`Authorization: ${wrong}`], { port });
        trial.expect(`a session with ${wrong.replaceAll(/\w{16,}/g, "...")}`, status, 401);
      }
      trial.expect("a code on broker.addr", await begin(code, { port: addr }), 403);
      trial.expect("a code on the socket", await begin(code, {}), 403);
      trial.expect("a code of another origin", await begin(code, { port }, ["Origin: http://evil.example"]), 403);
      const as_token = await broker.status("GET /tasks", [`Authorization: Bearer ${code}`], { port });
      trial.expect("a code as a token", as_token, 401);
      const at_once = await Promise.all(Array.from({ length: 8 }, () => begin(code, { port })));
      const begun = at_once.filter((status) => status === 200).length;
      trial.attempt("eight sessions of one code at once", begun <= 1, `${begun} were begun`);
      trial.expect("the code once more", await begin(code, { port }), 401);
      const token = [`Authorization: Bearer ${await tokenOf(broker)}`];
      trial.controlEquals("a session", await broker.status("GET /tasks", token, { port }), 200);
      trial.controlEquals("its end", await broker.status("POST /session/end", token, { port }), 204);
      trial.expect("a session that has ended", await broker.status("GET /tasks", token, { port }), 401);
      trial.control("a code that was not used before", begun > 0);
    },
  },
  {
    id: "control.remote_admin",
    promise: "/admin/* is for peers on this machine, and not by way of a proxy in between",
    attacks: "Addresses of other machines, mapped ones, every header by which a proxy names its client",
    async run(trial, context) {
      const listener = { kind: "addr", host: tcpHostRule({ hostname: "127.0.0.1", port: 1 }) } as const;
      const lets = (hostname: string, headers: Record<string, string> = {}) => {
        try {
          const request = new Request("http://127.0.0.1:1/admin/pending", { headers });
          context.surfaces.checkAdmin(request, listener, { transport: "tcp", hostname, port: 1 });
          return true;
        } catch {
          return false;
        }
      };
      for (const peer of REMOTE_PEERS) trial.attempt(`a peer at ${peer}`, !lets(peer), "it was let in");
      const broker = await context.broker();
      for (const name of FORWARDING_FIELDS) {
        trial.attempt(`a local peer with ${name}`, !lets("127.0.0.1", { [name]: "127.0.0.1" }), "it was let in");
        const fields = [`${name}: 127.0.0.1`];
        const status = await broker.status("GET /admin/pending", fields, { port: broker.ports.addr });
        trial.expect(`${name} to broker.addr`, status, 403);
      }
      trial.control("a local peer", lets("127.0.0.1") && lets("::1"));
    },
  },
  {
    id: "control.bodies",
    promise: "A body is one JSON object of known fields, of at most 1 MiB, and declared as one",
    attacks: "Unknown and doubled fields, wrong types, text, forms, encodings, UTF-16, 1 MiB + 1",
    async run(trial, context) {
      const broker = await context.broker();
      const before = await tasksOf(broker);
      const good = { repo: broker.origin, instruction: "redteam" };
      const bodies = [
        ...["auto_approve", "id", "stage", "__proto__", "constructor", "retry_of"].map((field) =>
          `{"repo":${JSON.stringify(broker.origin)},"instruction":"i",${JSON.stringify(field)}:{}}`
        ),
        `{"repo":"a","instruction":"i","repo":${JSON.stringify(broker.origin)}}`,
        `{"repo":"a","instruction":"i","\\u0072epo":${JSON.stringify(broker.origin)}}`,
        JSON.stringify({ ...good, draft: "yes" }),
        JSON.stringify({ ...good, egress_extra: [{ host: "h", ports: [65_536] }] }),
        JSON.stringify([good]),
        `${JSON.stringify(good)}{}`,
        `\ufeff${JSON.stringify(good)}`,
        "[".repeat(500),
        "",
      ];
      for (const body of bodies) {
        const verdict = await broker.verdict("POST /tasks", [], { body });
        trial.expect(JSON.stringify(body.slice(0, 100)), verdict, "400 invalid_request");
      }
      for (const field of ["Content-Type: text/plain", "Content-Type: ", "Content-Encoding: gzip"]) {
        trial.expect(field, await broker.status("POST /tasks", [field], { body: order(broker) }), 415);
      }
      const rest = (1 << 20) + 1 - JSON.stringify({ ...good, model: "" }).length;
      const long = JSON.stringify({ ...good, model: "x".repeat(rest) });
      trial.expect("1 MiB + 1", await broker.verdict("POST /tasks", [], { body: long }), "413 too_large");
      trial.attempt("tasks that were begun", await tasksOf(broker) === before);
      trial.controlEquals("the socket", await broker.status("GET /tasks"), 200);
    },
  },
  {
    id: "control.secrets",
    promise: "No key of a model's and no token of a task is in an answer, a record or a log",
    attacks: "Everything that the broker wrote and answered of a whole task, searched for its secrets",
    async run(trial, context) {
      const { broker, task: { id } } = await context.atGate();
      const answers: string[] = [];
      for (const path of ["", "/brief", "/diff", "/log"]) {
        answers.push((await broker.ask(`GET /tasks/${id}${path}`)).body);
      }
      for (const path of ["/admin/policy", "/metrics", "/admin/pending"]) {
        answers.push((await broker.ask(`GET ${path}`)).body);
      }
      const everything = [...answers, await broker.written()].join("\n");
      trial.attempt("the key of the model", !everything.includes(broker.key) && !everything.includes(btoa(broker.key)));
      trial.attempt("the task's token", !/taskd-[0-9a-f]{64}/.test(everything));
      trial.control("the record of the task", everything.includes(id));
    },
  },
];
