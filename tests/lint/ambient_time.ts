/**
 * Rule `taskd/ambient-time`: modules under lib/ take time and randomness as
 * values ({@linkcode Clock} and {@linkcode RandomBytes} of lib/clock.ts), so that a
 * test can stage every moment and a simulation replays from a seed.
 */

import { memberName } from "./_member.ts";
import { isTestCode, projectPath } from "./_project_path.ts";

const MEMBERS = new Set([
  "Date.now",
  "performance.now",
  "Math.random",
  "crypto.randomUUID",
  "crypto.getRandomValues",
]);
const TIMERS = new Set(["setTimeout", "setInterval"]);
const HINT = "Take a Clock or RandomBytes of lib/clock.ts as an option";

/** The rule. */
export const ambientTime: Deno.lint.Rule = {
  create(context) {
    const path = projectPath(context.filename);
    if (!path.startsWith("lib/") || path === "lib/clock.ts" || isTestCode(path)) return {};
    const report = (what: string, node: Deno.lint.Node) =>
      context.report({ node, message: `${what} cannot be staged in a test`, hint: HINT });
    return {
      MemberExpression(node) {
        if (node.object.type !== "Identifier") return;
        const name = memberName(node);
        if (name === undefined) return;
        const full = `${node.object.name}.${name}`;
        if (MEMBERS.has(full)) report(full, node);
        if (node.object.name === "globalThis" && TIMERS.has(name)) report(name, node);
      },
      CallExpression(node) {
        if (node.callee.type === "Identifier" && TIMERS.has(node.callee.name)) report(node.callee.name, node);
      },
      NewExpression(node) {
        const isDate = node.callee.type === "Identifier" && node.callee.name === "Date";
        if (isDate && node.arguments.length === 0) report("new Date()", node);
      },
    };
  },
};
