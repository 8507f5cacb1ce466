/**
 * Rule `taskd/process-state`: no code changes what all threads of a process share: its umask, its directory and its
 * environment.
 *
 * A change that is put back a moment later is not harmless. Two threads that do so at once put back each other's values,
 * and what begins in between, a file or a program, has the wrong ones for good.
 */

import { memberName } from "./_member.ts";
import { projectPath } from "./_project_path.ts";

/** Who may, and why. */
const ALLOWED: Readonly<Record<string, string>> = {
  "tests/attacks/_try_files.ts": "reads the umask that its caller set, in a process of its own",
  "tests/cli/support/probe.ts": "attempts of a process whose permissions are tried",
};

const CHANGES = new Set(["Deno.umask", "Deno.chdir", "process.umask", "process.chdir"]);
const ENVIRONMENT = new Set(["set", "delete"]);
const HINT = "Pass a mode, a path or env to what needs it, or do it in a process of its own";

/** The rule. */
export const processState: Deno.lint.Rule = {
  create(context) {
    if (Object.hasOwn(ALLOWED, projectPath(context.filename))) return {};
    const report = (what: string, node: Deno.lint.Node) =>
      context.report({ node, message: `${what} changes every thread of the process`, hint: HINT });
    return {
      MemberExpression(node) {
        const name = memberName(node);
        if (name === undefined) return;
        const { object } = node;
        if (object.type === "Identifier" && CHANGES.has(`${object.name}.${name}`)) {
          report(`${object.name}.${name}`, node);
        }
        const isEnvironment = object.type === "MemberExpression" && object.object.type === "Identifier" &&
          object.object.name === "Deno" && memberName(object) === "env";
        if (isEnvironment && ENVIRONMENT.has(name)) report(`Deno.env.${name}`, node);
      },
    };
  },
};
