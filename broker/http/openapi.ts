/**
 * The broker's interface as OpenAPI 3.1, from the table of routes and the schemas of what travels.
 *
 * Requests refuse fields that they do not have. Answers may get more in a later version, so a reader has to pass over
 * what it does not know.
 */

import * as v from "valibot";
import { VERSION } from "../../lib/version.ts";
import type { SchemaInside } from "../api/readable.ts";
import * as wire from "../api/wire.ts";
import type { ApiRole } from "../api/wire.ts";
import { mayUse, ROLES } from "./listener_policy.ts";
import { isAdmin } from "./rights.ts";
import type { HttpRoute } from "./route.ts";

type JsonObject = Record<string, unknown>;

/** The inside of a schema, with what only a description of it needs. */
interface DescribedSchema extends SchemaInside {
  default?: unknown;
  literal?: unknown;
}

/** The exported schemas, by the names of their components: `TASK_LIST` is `TaskList`. */
const COMPONENTS: ReadonlyMap<v.GenericSchema, string> = new Map(
  Object.entries(wire).flatMap(([name, value]): [v.GenericSchema, string][] =>
    typeof value === "object" && "~run" in value ? [[value, componentName(name)]] : []
  ),
);

function componentName(name: string): string {
  return name.toLowerCase().replace(/(?:^|_)(\w)/g, (_, letter: string) => letter.toUpperCase());
}

/** What checks are in JSON Schema, by their types; others, such as that of the bytes of a text, it cannot express. */
const CONSTRAINTS: Readonly<Record<string, (requirement: unknown, size: "Items" | "Length") => JsonObject>> = {
  min_length: (requirement, size) => ({ [`min${size}`]: requirement }),
  max_length: (requirement, size) => ({ [`max${size}`]: requirement }),
  min_value: (minimum) => ({ minimum }),
  max_value: (maximum) => ({ maximum }),
  integer: () => ({ type: "integer" }),
  safe_integer: () => ({ type: "integer" }),
  regex: (requirement) => ({ pattern: requirement instanceof RegExp ? requirement.source : String(requirement) }),
  iso_timestamp: () => ({ format: "date-time" }),
};

function constraint(type: unknown, { type: check, requirement }: { type: string; requirement?: unknown }): JsonObject {
  return CONSTRAINTS[check]?.(requirement, type === "array" ? "Items" : "Length") ?? {};
}

/** Makes JSON Schema of schemas, and keeps the components that they name. */
class Describer {
  readonly components: JsonObject = {};
  readonly #closed: boolean;

  /** @param closed Whether objects refuse unknown fields. */
  constructor({ closed }: { closed: boolean }) {
    this.#closed = closed;
  }

  /** A reference where the schema is a component. */
  describe(schema: v.GenericSchema): JsonObject {
    const name = COMPONENTS.get(schema);
    if (name === undefined) return this.#inside(schema);
    this.components[name] ??= this.#inside(schema);
    return { $ref: `#/components/schemas/${name}` };
  }

  #inside(schema: v.GenericSchema): JsonObject {
    const inside: DescribedSchema = schema;
    const { type, pipe, options = [] } = inside;
    if (pipe !== undefined) {
      const [base, ...checks] = pipe;
      return checks.reduce<JsonObject>(
        (made, check) => ({ ...made, ...constraint(made.type, check) }),
        this.describe(base),
      );
    }
    const described = () => options.map((option) => this.describe(option as v.GenericSchema));
    switch (type) {
      case "literal":
        return { const: inside.literal };
      case "picklist":
        return { enum: [...options] };
      case "array":
        return { type, items: this.describe(inside.item!) };
      case "record":
        return { type: "object", additionalProperties: this.describe(inside.value!) };
      case "object":
      case "strict_object":
        return this.#object(inside.entries!);
      case "union":
        return { anyOf: described() };
      case "variant":
        return { oneOf: described() };
      case "nullable":
        return { anyOf: [this.describe(inside.wrapped!), { type: "null" }] };
      case "optional":
        return { ...this.describe(inside.wrapped!), default: inside.default };
      case "exact_optional":
      case "non_optional":
        return this.describe(inside.wrapped!);
      case "lazy":
        return { description: "Any JSON" };
      default:
        return { type };
    }
  }

  #object(entries: Record<string, v.GenericSchema>): JsonObject {
    const fields = Object.entries(entries);
    const required = fields.filter(([, { type }]) => !["optional", "exact_optional"].includes(type)).map(([name]) =>
      name
    );
    return {
      type: "object",
      properties: Object.fromEntries(fields.map(([name, schema]) => [name, this.describe(schema)])),
      ...(required.length === 0 ? {} : { required }),
      ...(this.#closed ? { additionalProperties: false } : {}),
    };
  }
}

const ID = { name: "id", in: "path", required: true, description: "The id, or a beginning of it that no other has" };

function bearer(description: string): JsonObject {
  return { type: "http", scheme: "bearer", description };
}

export function openApi(routes: readonly HttpRoute[]): JsonObject {
  const [requests, answers] = [new Describer({ closed: true }), new Describer({ closed: false })];
  const paths: Record<string, JsonObject> = {};
  for (const route of routes) {
    const path = paths[route.path.replace("<id>", "{id}")] ??= { description: otherMethods(routes, route.path) };
    path[route.method.toLowerCase()] = operation(route, requests, answers);
  }
  const events = Object.entries(wire.TASK_EVENTS).map(([name, data]) =>
    answers.describe(v.strictObject({ event: v.literal(name), data }))
  );
  return {
    openapi: "3.1.1",
    info: {
      title: "taskd, the task broker",
      version: VERSION,
      license: { name: "MIT", identifier: "MIT" },
      description:
        "Served on the unix socket, beside the web pages, and on broker.addr, broker.api_addr and, as far as it " +
        "is metrics, broker.metrics_addr where they are set.",
    },
    servers: [{ url: "http://localhost", description: "Over the unix socket" }],
    security: [{}, { session_token: [] }, { api_token: [] }],
    tags: [
      { name: "tasks" },
      { name: "admin", description: "For peers on the broker's machine" },
      { name: "pages", description: "On the listener of the web pages alone" },
    ],
    paths,
    components: {
      schemas: { ...requests.components, ...answers.components, TaskEvent: { oneOf: events } },
      securitySchemes: {
        api_token: bearer(
          "On broker.api_addr: `taskd token create` makes one. Its role says which operations are for it",
        ),
        metrics_token: bearer("On broker.metrics_addr, where broker.metrics_token_env names one"),
        session_token: bearer("The token of a session of the web pages: `POST /session` answers it"),
        page_code: bearer(
          "The code in the fragment of the pages' address: `GET /admin/ui` answers it, `taskd ui` prints it",
        ),
      },
    },
  };
}

/** OpenAPI has no place for the answer to a method that a path does not have, but the path's own text. */
function otherMethods(routes: readonly HttpRoute[], path: string): string {
  const methods = routes.filter((route) => route.path === path).map(({ method }) => method);
  return `Any other method is refused with 405, a Problem, and \`Allow: ${methods.join(", ")}\`.`;
}

function operation(route: HttpRoute, requests: Describer, answers: Describer): JsonObject {
  const { method, path, query = {}, required = [], body, doc } = route;
  const words = path.replaceAll(/<id>|[^a-z]+/g, " ").trim().split(" ");
  const parameters = [
    ...(path.includes("<id>") ? [{ ...ID, schema: { type: "string", minLength: 1, maxLength: 64 } }] : []),
    ...Object.entries(query).map(([name, schema]) => ({
      name,
      in: "query",
      ...(required.includes(name) ? { required: true } : {}),
      schema: requests.describe(schema),
    })),
  ];
  return {
    operationId: [method.toLowerCase(), ...words, ...(path.endsWith("<id>") ? ["one"] : [])].join("_"),
    summary: doc,
    tags: [route.pages !== undefined ? "pages" : isAdmin(route) ? "admin" : "tasks"],
    security: security(route),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined ? {} : {
      requestBody: {
        required: route.body_optional !== true,
        content: { "application/json": { schema: requests.describe(body) } },
      },
    }),
    responses: {
      [route.answer.status]: success(route, answers),
      default: {
        description: "A refusal, or a failure",
        content: { "application/problem+json": { schema: answers.describe(wire.PROBLEM) } },
      },
    },
  };
}

/** What a client may come in with: nothing, on a listener that asks for nothing; each role that is good for the route. */
function security(route: HttpRoute): JsonObject[] {
  if (route.pages !== undefined) return [route.pages === "code" ? { page_code: [] } : { session_token: [] }];
  const roles = (Object.keys(ROLES) as ApiRole[]).filter((role) => mayUse("api", role, route));
  return [
    {},
    ...(mayUse("ui", undefined, route) ? [{ session_token: [] }] : []),
    ...(roles.length > 0 ? [{ api_token: roles }] : []),
    ...(route.right === "metrics" ? [{ metrics_token: [] }] : []),
  ];
}

function success({ answer }: HttpRoute, answers: Describer): JsonObject {
  if ("schema" in answer) {
    return { description: "JSON", content: { "application/json": { schema: answers.describe(answer.schema) } } };
  }
  if (!("type" in answer)) return { description: "Done" };
  const events = answer.type === "text/event-stream"
    ? "Server-sent events: `event` and `data` are those of TaskEvent"
    : "";
  const schema = answer.type === "application/json" ? { type: "object" } : { type: "string" };
  return { description: events || answer.type, content: { [answer.type]: { schema } } };
}
