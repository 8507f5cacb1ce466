import { assert, assertEquals, assertMatch } from "@std/assert";
import { type Reason, REASONS, refusalResponse, Refused } from "./reasons.ts";

const TARGET = { host: "example.com", port: 443 };
const answered = (Object.keys(REASONS) as Reason[]).filter((reason) =>
  reason !== "allowed" && reason !== "client_gone"
);

Deno.test("every refusal is a whole response: status line, problem details and the right length", () => {
  for (const reason of answered) {
    const text = new TextDecoder().decode(refusalResponse(new Refused(reason as "internal", "detail"), TARGET, true));
    const [head, body] = text.split("\r\n\r\n") as [string, string];
    const { status, phrase } = REASONS[reason];
    assertEquals(head.split("\r\n")[0], `HTTP/1.1 ${status} ${phrase}`);
    assertMatch(head, new RegExp(`\r\nContent-Length: ${body.length}\r\n`));
    assertMatch(head, /\r\nProxy-Status: taskd; error=[a-z_]+; details="[a-z_]+"\r\n/);
    assertMatch(text, /^[\x20-\x7e\r\n]*$/);
    const problem = JSON.parse(body);
    assertEquals([problem.status, problem.code, problem.host, problem.port], [status, reason, "example.com", 443]);
    assert(problem.detail.startsWith("Cannot reach example.com port 443: ") && problem.detail.endsWith("(detail)"));
  }
});

Deno.test("a 407 names the scheme, and a temporary refusal has Retry-After", () => {
  for (const reason of answered) {
    const text = new TextDecoder().decode(refusalResponse(new Refused(reason as "internal"), undefined, false));
    const { status } = REASONS[reason];
    assertEquals([reason, text.includes("Proxy-Authenticate: Basic")], [reason, status === 407]);
    assertEquals([reason, text.includes("Retry-After: 1")], [reason, status === 429 || status === 503]);
  }
});

Deno.test("whatever the egress list decides, the answer names the setting to change", () => {
  for (const reason of ["not_listed", "port_not_listed", "too_many_names", "address_literal"] as const) {
    assertMatch(REASONS[reason].hint ?? "", /egress\.yaml/);
  }
});
