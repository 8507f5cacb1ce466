/** Promises about what a person reads: nothing that an agent wrote takes hold of the terminal or of the page. */

import type { CommonPromise } from "./context.ts";
import { HOSTILE_MARKUP, HOSTILE_SUMMARY, isHarmful, TERMINAL_SEQUENCES } from "./inputs/display.ts";

const POLICY: readonly string[] = [
  "default-src 'none'",
  "script-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
];

/** Paths by which a file of the host, or what is no page, would be served. */
const NO_PAGES = ["/ui/../tasks", "/ui/pages/../../serve.ts", "/ui/pages/_x.ts", "/ui/tasks/<script>", "/etc/passwd"];

export const DISPLAY_PROMISES: readonly CommonPromise[] = [
  {
    id: "display.terminal",
    promise: "Text of unknown origin is printed with every control and direction character as a visible escape",
    attacks: Object.keys(TERMINAL_SEQUENCES).join(", "),
    run(trial, { surfaces }) {
      for (const [what, text] of Object.entries(TERMINAL_SEQUENCES)) {
        const printed = surfaces.sanitizeText(text);
        trial.attempt(what, !isHarmful(printed), JSON.stringify(printed));
      }
      const plain = "Ünïcode, 漢字 and\ttabs";
      trial.control("ordinary text", surfaces.sanitizeText(plain) === plain);
    },
  },
  {
    id: "display.records",
    promise: "What an agent prints is kept and served without a character that a terminal acts on",
    attacks: "An agent that prints every such sequence, in its record, its events and its log",
    async run(trial, context) {
      const { broker, task: { id } } = await context.atGate();
      const trace = await Deno.readTextFile(`${broker.audit}/${id}.jsonl`);
      trial.attempt("the trace on the disk", !isHarmful(trace.replaceAll("\n", "")));
      let log = "";
      for await (const part of broker.client.log(id)) log += part;
      trial.attempt("the log", !isHarmful(log), JSON.stringify(log.slice(0, 200)));
      for (const path of [`/tasks/${id}`, `/tasks/${id}/brief`, "/admin/pending", "/tasks"]) {
        trial.attempt(`GET ${path}`, !isHarmful((await broker.ask(`GET ${path}`)).body.replaceAll("\n", "")));
      }
      trial.attempt("broker's own log", !broker.lines.some(isHarmful));
      const word = HOSTILE_SUMMARY.slice(-17);
      trial.control("what the agent printed", log.includes("onerror") && log.includes(word.trim()), log.slice(0, 200));
    },
  },
  {
    id: "display.page_policy",
    promise: "A page runs its own scripts and no others, makes no markup of text, and cannot be framed",
    attacks: "Each directive of the policy, types that could be guessed, scripts in the shell, sinks in the scripts",
    async run(trial, { surfaces }) {
      const paths = ["/ui/", "/ui/history", `/ui/tasks/${"a".repeat(32)}`];
      for (const path of paths) {
        const page = surfaces.webResponse(path);
        const policy = page?.headers.get("content-security-policy") ?? "";
        for (const part of POLICY) trial.attempt(`${path}: ${part}`, policy.split("; ").includes(part), policy);
        trial.attempt(`${path}: unsafe-inline`, !policy.includes("unsafe"), policy);
        trial.expect(`${path}: nosniff`, page?.headers.get("x-content-type-options") ?? "-", "nosniff");
        const html = await page?.text() ?? "";
        trial.attempt(`${path}: a script in the page`, !/<script(?![^>]*\bsrc=)|\son[a-z]+=|javascript:/i.test(html));
        for (const source of scriptsOf(html)) {
          const script = await surfaces.webResponse(source)?.text() ?? "";
          const makes_markup = /\.(innerHTML|outerHTML)\s*=|insertAdjacentHTML|document\.write/.test(script);
          trial.attempt(`${source}: markup from text`, !makes_markup);
        }
        trial.control(path, page?.status === 200 && scriptsOf(html).length > 0);
      }
      for (const path of NO_PAGES) {
        trial.attempt(path, surfaces.webResponse(path) === undefined, "there is a page");
      }
    },
  },
  {
    id: "display.api_types",
    promise: "No answer of the interface can be taken for a page, even if an agent put markup into it",
    attacks: "A diff, a log and a record full of markup, opened as a page",
    async run(trial, context) {
      const { broker, task: { id } } = await context.atGate();
      const paths = ["", "/diff", "/log", "/brief"].map((part) => `/tasks/${id}${part}`);
      for (const path of [...paths, "/nowhere/<b>"]) {
        const { head } = await broker.ask(`GET ${path}`);
        const field = (name: string) => new RegExp(`^${name}: (.*)\\r$`, "im").exec(head)?.[1] ?? "-";
        const type = field("content-type");
        trial.attempt(`${path} as ${type}`, /^(application\/(problem\+)?json|text\/(plain|x-diff))\b/.test(type));
        trial.expect(`${path}: nosniff`, field("x-content-type-options"), "nosniff");
      }
      const diff = await broker.ask(`GET /tasks/${id}/diff`);
      trial.control("the markup in the diff", diff.body.includes(HOSTILE_MARKUP.slice(0, 20)));
    },
  },
];

function scriptsOf(html: string): string[] {
  return [...html.matchAll(/<script[^>]*\bsrc="([^"]+)"/g)].map((match) => match[1] ?? "");
}
