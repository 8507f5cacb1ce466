/**
 * What `policy explain` shows: every setting with its value and where it comes from, and
 * whether the running broker works with the same.
 */

import { canonicalJson } from "../../lib/text/canonical_json.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import type { ShownValue } from "./value_schemas.ts";
import { isCompared, type ResolvedSettings } from "./load.ts";
import type { PolicyField, PolicyView } from "./policy_view.ts";

/** The comparison, as `policy explain --json` prints it; `live` and `in_sync` are null when no broker answers. */
export interface Comparison {
  local: PolicyView;
  live: PolicyView | null;
  in_sync: boolean | null;
}

/** Each as its name, its value and its source. */
export function explainTable(fields: readonly PolicyField[]): string[][] {
  return fields.map(({ setting, value, source }) => [setting, showValue(value), source].map(sanitizeLine));
}

function showValue(value: ShownValue): string {
  return typeof value === "string" && value !== "" ? value : JSON.stringify(value);
}

export function policyView(resolved: ResolvedSettings): PolicyView {
  return { fields: resolved.fields(), hash: resolved.hash };
}

/** Compares the local resolution with the running broker's; `live` is null when no broker answers. */
export function compareWithLive(local: ResolvedSettings, live: PolicyView | null): Comparison {
  return { local: policyView(local), live, in_sync: live === null ? null : live.hash === local.hash };
}

export function verdictLine({ local, live, in_sync }: Comparison): string {
  if (live === null || in_sync === null) return "daemon: not reachable";
  if (in_sync) return "daemon: in sync";
  const names = differingSettings(local, live);
  // Another version of the program may have settings that this one does not know.
  const what = names.length === 0 ? "its settings are those of another version" : names.map(sanitizeLine).join(", ");
  return `daemon: divergent: ${what} (start again to apply the configuration)`;
}

/** Names of the compared settings that differ, in the order of the local table; those only the broker has come last. */
function differingSettings(local: PolicyView, live: PolicyView): string[] {
  const texts = ({ fields }: PolicyView) =>
    new Map<string, string>(fields.map(({ setting, value }) => [setting, canonicalJson(value)]));
  const [here, there] = [texts(local), texts(live)];
  const names = [...new Set([...here.keys(), ...there.keys()])];
  return names.filter((name) => isCompared(name) && here.get(name) !== there.get(name));
}
