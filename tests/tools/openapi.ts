/**
 * Writes docs/openapi.json: the broker's interface, from its table of routes and its schemas.
 * `deno run -A tests/tools/openapi.ts` brings it up to date; a test fails while it is not.
 */

import { openApi } from "../../broker/http/openapi.ts";
import { ROUTES } from "../../broker/http/routes.ts";

/** The document. */
export const OPENAPI_FILE = new URL("../../docs/openapi.json", import.meta.url);

if (import.meta.main) {
  await Deno.writeTextFile(OPENAPI_FILE, `${JSON.stringify(openApi(ROUTES), null, 2)}\n`);
  await new Deno.Command(Deno.execPath(), { args: ["fmt", "--quiet", OPENAPI_FILE.pathname] }).output();
}
