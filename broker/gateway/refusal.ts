/**
 * Requests that the gateway answers itself. The body is a problem of RFC 9457; the member
 * `error` repeats it in the form that the vendors' clients print. It states what to do,
 * and nothing of what the request carried that could be a secret.
 */

const REFUSALS = {
  bad_request: [400, "The request is malformed"],
  unauthorized: [401, "The token is unknown or its task has ended"],
  budget_exhausted: [402, "The task's budget is spent"],
  route_refused: [403, "The route is not offered"],
  vendor_tool_refused: [403, "The request would have the vendor act for the agent"],
  field_refused: [403, "The request has a field that is not known"],
  tier_refused: [403, "The request asks for what cannot be metered"],
  too_large: [413, "The request is too large"],
  unsupported_media: [415, "The body's type or encoding is not accepted"],
  upgrade_refused: [426, "Only plain HTTP requests are served"],
  in_flight_cap: [429, "Too many requests of this task are running"],
  request_cap: [429, "The task has used up its requests"],
  stopping: [503, "The gateway is stopping"],
  overloaded: [503, "The gateway is at a limit"],
  internal: [500, "The gateway met a defect of its own"],
  upstream_failed: [502, "The vendor's API cannot be reached"],
  credential_failed: [502, "The vendor's credential cannot be renewed"],
  upstream_timeout: [504, "The vendor's API does not answer"],
} as const satisfies Record<string, readonly [number, string]>;

export type RefusalCode = keyof typeof REFUSALS;

/** Clients of the vendors repeat a 402, 429 or 502 by themselves; this header stops that. */
const FINAL = { "x-should-retry": "false" };
const EXTRA_HEADERS: Readonly<Partial<Record<RefusalCode, Record<string, string>>>> = {
  budget_exhausted: FINAL,
  request_cap: FINAL,
  credential_failed: FINAL,
  in_flight_cap: { "retry-after": "1" },
  overloaded: { "retry-after": "1" },
  upgrade_refused: { upgrade: "HTTP/1.1", connection: "close" },
  unauthorized: { "www-authenticate": 'Bearer realm="taskd"' },
};

export class Refusal extends Error {
  override name = "Refusal";
  readonly code: RefusalCode;
  /** The field of the request that is refused, such as `tools[2].type`. */
  readonly field: string | undefined;

  /** Refuses with `code`; `detail` is a sentence for the person who reads the agent's log. */
  constructor(code: RefusalCode, detail: string, field?: string) {
    super(detail);
    this.code = code;
    this.field = field;
  }

  answer(): { status: number; headers: Record<string, string>; body: string } {
    const [status, title] = REFUSALS[this.code];
    const body = `${
      JSON.stringify({
        type: `urn:taskd:problem:${this.code}`,
        title,
        status,
        detail: this.message,
        code: this.code,
        ...(this.field === undefined ? {} : { field: this.field }),
        error: { type: this.code, code: this.code, message: this.message },
      })
    }\n`;
    return {
      status,
      headers: {
        "content-type": "application/problem+json",
        "content-length": String(new TextEncoder().encode(body).length),
        "cache-control": "no-store",
        ...EXTRA_HEADERS[this.code],
      },
      body,
    };
  }
}
