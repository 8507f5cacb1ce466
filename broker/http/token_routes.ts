/** Handlers of the routes by which the owner of the unix socket makes, lists and revokes the tokens of `broker.api_addr`. */

import type { CREATE_TOKEN_REQUEST, CreatedToken, TokenList } from "../api/wire.ts";
import { json, nothing } from "./answers.ts";
import type { Call } from "./call.ts";
import type { ReadBody } from "./route.ts";

export function list({ context: { tokens, api_addr } }: Call): Response {
  return json({ tokens: tokens.list(), api_addr: api_addr ?? null } satisfies TokenList);
}

export async function create(
  { context: { tokens, api_addr } }: Call,
  body: ReadBody<typeof CREATE_TOKEN_REQUEST>,
): Promise<Response> {
  return json({ ...await tokens.create(await body()), api_addr: api_addr ?? null } satisfies CreatedToken);
}

export async function revoke({ id, context: { tokens } }: Call): Promise<Response> {
  await tokens.revoke(id);
  return nothing();
}
