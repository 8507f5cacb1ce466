/**
 * Schemas for a reader: another version of the program may have written what is read, so fields that this version does
 * not know are left out, where the schema itself refuses them. All else is checked as it stands.
 */

import * as v from "valibot";

/** The inside of a schema, as far as records, requests and answers have one. */
export interface SchemaInside {
  type: string;
  entries?: Record<string, v.GenericSchema>;
  item?: v.GenericSchema;
  value?: v.GenericSchema;
  wrapped?: v.GenericSchema;
  options?: readonly v.GenericSchema[] | readonly string[];
  pipe?: readonly [v.GenericSchema, ...v.GenericPipeAction[]];
}

const MADE = new WeakMap<v.GenericSchema, v.GenericSchema>();

/** `schema` without its refusal of unknown fields, at any depth. */
export function readable<S extends v.GenericSchema>(schema: S): S {
  let made = MADE.get(schema);
  if (made === undefined) MADE.set(schema, made = widened(schema));
  return made as S;
}

function widened(schema: v.GenericSchema): v.GenericSchema {
  const { pipe, entries, options, ...inside }: SchemaInside = schema;
  if (pipe !== undefined) return v.pipe(readable(pipe[0]), ...pipe.slice(1) as v.GenericPipeAction[]);
  if (entries !== undefined) {
    return v.object(Object.fromEntries(Object.entries(entries).map(([name, entry]) => [name, readable(entry)])));
  }
  const copy: Partial<SchemaInside> = {};
  for (const name of ["item", "value", "wrapped"] as const) {
    if (inside[name] !== undefined) copy[name] = readable(inside[name]);
  }
  if (options !== undefined) {
    copy.options = options.map((option) => typeof option === "string" ? option : readable(option)) as v.GenericSchema[];
  }
  // A schema finds its parts on itself.
  return { ...schema, ...copy };
}
