/**
 * Checks requests against the table of operations.
 */

import * as v from "../packages/valibot.ts";
import { hasCode, TaskdError } from "../errors.ts";
import type { AnyFields, Field } from "./_fields.ts";
import type { OpArgs, OpName } from "./messages.ts";
import { OPS } from "./operations.ts";

export function isOpName(name: string): name is OpName {
  return Object.hasOwn(OPS, name);
}

/**
 * Checks the fields of a request to `op`: all that are required, none unknown, each of its type.
 *
 * @throws {TaskdError} `invalid_request` or `invalid_name`, naming the field.
 */
export function parseArgs<O extends OpName>(op: O, given: Readonly<Record<string, unknown>>): OpArgs<O> {
  const fields = OPS[op].fields as AnyFields;
  const hint = `Fields of ${op}: ${Object.keys(fields).join(", ") || "none"}`;
  const args: Record<string, unknown> = {};
  for (const name of Object.keys(given)) {
    if (!Object.hasOwn(fields, name)) {
      throw new TaskdError("invalid_request", `Cannot run ${op}: unknown field ${JSON.stringify(name.slice(0, 100))}`, {
        hint,
      });
    }
  }
  for (const [name, field] of Object.entries(fields)) {
    if (Object.hasOwn(given, name)) args[name] = parseField(op, name, field, given[name]);
    else if (field.required) {
      throw new TaskdError("invalid_request", `Cannot run ${op}: missing field "${name}"`, { hint });
    }
  }
  return args as OpArgs<O>;
}

function parseField(op: OpName, name: string, field: Field<unknown>, value: unknown): unknown {
  try {
    const result = v.safeParse(field.schema, value, { abortEarly: true, abortPipeEarly: true });
    if (result.success) return result.output;
    const message = `Cannot run ${op}: field "${name}" ${result.issues[0].message}`;
    throw new TaskdError("invalid_request", message, { hint: `"${name}" is ${field.doc} (${field.type})` });
  } catch (error) {
    if (!hasCode(error, "invalid_name")) throw error;
    throw new TaskdError("invalid_name", `Cannot run ${op}: field "${name}": ${error.message}`, { hint: error.hint });
  }
}
