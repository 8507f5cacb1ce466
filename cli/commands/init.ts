/**
 * The command `taskd init`.
 */

import { type Seeded, seedHome } from "../../broker/settings/seed.ts";
import type { Args } from "../plan/args.ts";

export async function run(args: Args): Promise<Seeded> {
  return await seedHome(args.broker.home);
}

export function render({ directory, created, kept }: Seeded): string {
  return [
    ...created.map((path) => `Wrote ${path}`),
    ...kept.map((path) => `Kept ${path}, which was there`),
    created.length === 0 ? `${directory} was set up already` : "Next: taskd setup",
  ].join("\n");
}
