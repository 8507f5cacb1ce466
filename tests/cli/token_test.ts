import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { ROLE_NAMES } from "../../cli/table/broker_admin.ts";
import { ROLES } from "../../broker/http/listener_policy.ts";
import { makeBrokerHost } from "./support/broker.ts";

Deno.test("token create prints the token alone on stdout; list never shows it, and revoke ends it", async () => {
  await using host = await makeBrokerHost();
  const made = await host.taskd("token", "create", "--role", "submit", "--ttl", "30d", "--name", "ci");
  assertEquals(made.code, 0);
  assertMatch(made.stdout, /^taskd_[0-9a-f]{64}\n$/);
  assertStringIncludes(made.stderr, "Token ci of the role submit, until ");
  assertStringIncludes(made.stderr, "set broker.api_addr");
  const listed = await host.taskd("token", "list");
  assertMatch(listed.stdout, /^NAME +ROLE .*\nci +submit .*\n$/);
  assertEquals(listed.stdout.includes(made.stdout.trim()), false);
  const again = await host.taskd("token", "create", "--role", "read", "--name", "ci");
  assertEquals([again.code === 0, again.stdout], [false, ""]);
  assertStringIncludes(again.stderr, "taskd token revoke ci");
  assertEquals((await host.taskd("token", "revoke", "ci")).stdout, "Revoked ci: the next request with it is refused\n");
  assertEquals((await host.taskd("token", "list")).stdout, "There are no tokens\n");
  assertEquals((await host.taskd("token", "revoke", "ci")).code === 0, false);
});

Deno.test("token create needs a role, one of those that the broker knows", async () => {
  await using host = await makeBrokerHost();
  assertEquals([...ROLE_NAMES], Object.keys(ROLES));
  for (const words of [[], ["--role", "root"]]) {
    const { code, stdout } = await host.taskd("token", "create", ...words);
    assertEquals([code, stdout], [2, ""], words.join(" "));
  }
});
