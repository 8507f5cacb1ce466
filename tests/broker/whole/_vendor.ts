/**
 * Two vendors with subscriptions: their APIs, which take one bearer each with the headers that belong to it, and their
 * token endpoint, which rotates.
 */

/** One request to an API. */
export interface VendorRequest {
  path: string;
  headers: Headers;
  status: number;
}

/** A subscription as a vendor knows it. */
class Account {
  access: string;
  refresh: string;
  /** Times it was renewed. */
  renewals = 0;
  /** Whether the token endpoint refuses. */
  refuses = false;

  constructor(readonly name: string) {
    this.access = `${name}-access-0`;
    this.refresh = `${name}-refresh-0`;
  }

  /** Every token that there was. */
  readonly tokens: string[] = [];

  /** What the credential file holds at first. */
  file(token_url: string, more: Record<string, unknown> = {}): string {
    this.tokens.push(this.access, this.refresh);
    const { access: access_token, refresh: refresh_token } = this;
    return JSON.stringify({ access_token, refresh_token, token_url, plan: "max", ...more });
  }

  renew(refresh_token: unknown): Response {
    if (this.refuses || refresh_token !== this.refresh) {
      return Response.json({ error: "invalid_grant", sent: refresh_token }, { status: 400 });
    }
    this.renewals++;
    this.access = `${this.name}-access-${this.renewals}`;
    this.refresh = `${this.name}-refresh-${this.renewals}`;
    this.tokens.push(this.access, this.refresh);
    return Response.json({ access_token: this.access, refresh_token: this.refresh, expires_in: 3_600 });
  }
}

/** Both vendors. */
export class Vendors implements AsyncDisposable {
  readonly a = new Account("oauth-a");
  readonly b = new Account("oauth-b");
  readonly requests: VendorRequest[] = [];
  readonly #server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    const { pathname } = new URL(request.url);
    const body = await request.json();
    if (pathname === "/a/token") return this.a.renew(body.refresh_token);
    if (pathname === "/b/token") return this.b.renew(body.refresh_token);
    const answer = this.#answer(pathname, request.headers);
    this.requests.push({ path: pathname, headers: request.headers, status: answer.status });
    return answer;
  });

  get url(): string {
    return `http://127.0.0.1:${this.#server.addr.port}`;
  }

  /** Requests that were answered with this status. */
  answered(status: number): number {
    return this.requests.filter((request) => request.status === status).length;
  }

  #answer(path: string, headers: Headers): Response {
    const authorization = headers.get("authorization");
    // An answer that quotes what it was sent must not carry it into the sandbox.
    const text = `you sent ${authorization}`;
    if (path === "/v1/messages") {
      const known = authorization === `Bearer ${this.a.access}` && !headers.has("x-api-key") &&
        headers.get("anthropic-beta")?.split(",").includes("oauth-2025-04-20");
      if (!known) return Response.json({ type: "error", error: { message: text } }, { status: 401 });
      return Response.json({
        id: "msg_1",
        type: "message",
        role: "assistant",
        model: "claude-sonnet-4-5",
        content: [{ type: "text", text }],
        stop_reason: "end_turn",
        usage: { input_tokens: 1_000, output_tokens: 100 },
      });
    }
    const known = authorization === `Bearer ${this.b.access}` && headers.get("chatgpt-account-id") === "acct-1";
    if (path !== "/v1/responses" || !known) return Response.json({ error: { message: text } }, { status: 401 });
    return Response.json({
      id: "resp_1",
      object: "response",
      status: "completed",
      model: "gpt-5",
      output: [{ type: "message", role: "assistant", content: [{ type: "output_text", text }] }],
      usage: { input_tokens: 1_000, output_tokens: 100, total_tokens: 1_100 },
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
  }
}
