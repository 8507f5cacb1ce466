/**
 * Takes the stand-ins under std/ out of the workspace, so that `jsr:@std/...` resolves to the real JSR, and drops
 * deno.lock, which names them: the public CI builds once that way.
 *
 *     deno run -A --no-lock tests/tools/drop_stand_ins.ts
 */

import { join } from "node:path";

const root = join(import.meta.dirname!, "../..");
const file = join(root, "deno.json");
const { workspace, ...config }: { workspace: string[] } = JSON.parse(await Deno.readTextFile(file));
const kept = workspace.filter((member) => !member.startsWith("./std/"));
await Deno.writeTextFile(file, JSON.stringify({ ...config, workspace: kept }, null, 2) + "\n");
await Deno.remove(join(root, "deno.lock"));
