/**
 * A schema for values under names that others choose, such as columns.
 */

import * as v from "../packages/valibot.ts";

/** As `v.record(v.string(), value)`, which loses what is named `__proto__`, `prototype` or `constructor`. */
export function namedValues<T>(value: v.GenericSchema<unknown, T>): v.GenericSchema<unknown, Record<string, T>> {
  const record: v.GenericSchema<unknown, Record<string, T>> = v.record(v.string(), value);
  const run = record["~run"];
  return {
    ...record,
    "~run"(dataset, config) {
      const given = dataset.value;
      if (typeof given !== "object" || given === null || Array.isArray(given)) return run.call(this, dataset, config);
      const found = run.call(this, { value: renamed(given, (name) => `.${name}`) }, config);
      return { ...found, value: renamed(found.value as object, (name) => name.slice(1)) } as typeof found;
    },
  };
}

function renamed(values: object, rename: (name: string) => string): object {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [rename(name), value]));
}
