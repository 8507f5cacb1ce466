/** The commands of tokens for `broker.api_addr`: token create, list, revoke. The running broker keeps them. */

import type { ApiRole } from "../../broker/api/wire.ts";
import { systemClock } from "../../lib/clock.ts";
import { brokerCommand } from "../plan/command_module.ts";
import { textTable } from "../text/text_table.ts";
import { age } from "./_task_text.ts";

const NOT_LISTENING = "Nothing asks for it yet: set broker.api_addr in config.yaml, then run taskd start";

/** Makes a token; prints it alone, for scripts. */
export const create = brokerCommand({
  async run(args, io, broker) {
    const name = args.text("name");
    const created = await broker.createApiToken({
      role: args.choice<ApiRole>("role")!,
      ttl_ms: args.numberOf("ttl"),
      ...(name === undefined ? {} : { name }),
    });
    io.note(`Token ${created.name} of the role ${created.role}, until ${created.expires_at}; it is not shown again`);
    if (created.api_addr === null) io.note(NOT_LISTENING);
    return created;
  },
  render: ({ token }) => token,
});

export const list = brokerCommand({
  run: (_args, _io, broker) => broker.apiTokens(),
  async render({ tokens }, { columns }) {
    if (tokens.length === 0) return "There are no tokens";
    const now_ms = systemClock.now();
    const rows = tokens.map(({ name, role, fingerprint, created_at, expires_at, expired }) => [
      name,
      role,
      age(created_at, now_ms),
      expired ? "expired" : expires_at,
      fingerprint,
    ]);
    return await textTable(rows, { head: ["NAME", "ROLE", "AGE", "UNTIL", "SHA256"], right: [2], names: [0], columns });
  },
});

export const revoke = brokerCommand({
  async run(args, _io, broker) {
    const name = args.positional("name");
    await broker.revokeApiToken(name);
    return { name };
  },
  render: ({ name }) => `Revoked ${name}: the next request with it is refused`,
});
