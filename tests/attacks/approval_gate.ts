/**
 * Promises of the approval gate: exactly what was read is what leaves, once, and only when everything was acknowledged.
 */

import type { CommonPromise } from "./context.ts";

export const GATE_PROMISES: readonly CommonPromise[] = [
  {
    id: "control.stale_diff",
    promise: "An approval names the digest of the change that was read, and every category; any other approves nothing",
    attacks: "Another digest, none, a prefix, upper case; categories left out or made up; further fields",
    async run(trial, context) {
      const { broker, task } = await context.atGate();
      const { diff_sha256, second_look: acknowledge } = task.gate!;
      const path = `POST /admin/tasks/${task.id}/approve`;
      const approve = (body: object) => broker.verdict(path, [], { body: JSON.stringify(body) });
      trial.control("categories to acknowledge", acknowledge.length > 0, "the hostile change has none");
      const prefix = diff_sha256.slice(0, 16);
      trial.expect("another digest", await approve({ diff_sha256: "0".repeat(64), acknowledge }), "409 stale_diff");
      trial.expect("no digest", await approve({ acknowledge }), "400 invalid_request");
      trial.expect("a prefix", await approve({ diff_sha256: prefix, acknowledge }), "400 invalid_request");
      const upper = diff_sha256.toUpperCase();
      if (upper !== diff_sha256) trial.expect("upper case", await approve({ diff_sha256: upper, acknowledge }), /^4/);
      trial.expect("no category", await approve({ diff_sha256, acknowledge: [] }), "422 not_acknowledged");
      const few = acknowledge.slice(1);
      trial.expect("one too few", await approve({ diff_sha256, acknowledge: few }), "422 not_acknowledged");
      trial.expect("a field more", await approve({ diff_sha256, acknowledge, force: true }), "400 invalid_request");
      trial.expect("the task afterwards", (await broker.client.task(task.id)).stage, "awaiting_approval");
    },
  },
  {
    id: "control.double_approval",
    promise: "A task is approved or denied once; what was pushed is the tree that was approved, on a branch of its own",
    attacks: "Four approvals and a denial at once, and again afterwards; what the repository then has",
    async run(trial, context) {
      const { broker, task: { id, gate } } = await context.atGate();
      const body = JSON.stringify({ diff_sha256: gate!.diff_sha256, acknowledge: gate!.second_look });
      const main = await broker.head("refs/heads/main");
      const approve = () => broker.status(`POST /admin/tasks/${id}/approve`, [], { body });
      const deny = () => broker.status(`POST /admin/tasks/${id}/deny`);
      const answers = await Promise.all([approve(), approve(), deny(), approve(), approve()]);
      const taken = answers.filter((status) => status === 204).length;
      trial.attempt("five decisions at once", taken === 1, `${taken} were taken: ${answers.join(", ")}`);
      const done = await broker.reaches(id, "done");
      trial.expect("approving again", await approve(), 409);
      trial.expect("denying afterwards", await deny(), 409);
      trial.attempt("the default branch", await broker.head("refs/heads/main") === main, "it has moved");
      if (done.outcome !== "pushed") {
        // The denial was the first.
        trial.expect("a task that was denied", done.outcome ?? "-", "denied");
        return;
      }
      const tree = await broker.head(`refs/heads/${done.pushed?.branch}^{tree}`);
      trial.expect("the tree that was pushed", tree, await broker.collectedTree(id));
      trial.expect("its parent", await broker.head(`refs/heads/${done.pushed?.branch}^`), main);
    },
  },
  {
    id: "control.altered_diff",
    promise: "A diff that was altered on the disk after it was collected is not shown",
    attacks: "Another content in the kept diff of a task at the gate",
    async run(trial, context) {
      const broker = await context.broker();
      const { id } = await broker.taskAtGate();
      const shown = await broker.ask(`GET /tasks/${id}/diff`);
      const collected = shown.status === 200 && shown.body.includes("hello.txt");
      trial.control("the diff as it was collected", collected, String(shown.status));
      const path = `${broker.audit}/${id}.diff`;
      await Deno.writeTextFile(path, (await Deno.readTextFile(path)).replaceAll("hello.txt", "other.txt"));
      const altered = await broker.ask(`GET /tasks/${id}/diff`);
      trial.attempt("an altered diff", altered.status >= 400 && !altered.body.includes("other.txt"), "it is shown");
      await broker.ask(`POST /admin/tasks/${id}/deny`);
    },
  },
  {
    id: "control.forged_trace",
    promise: "A row of a task's trace that was changed, removed, added or moved is found",
    attacks: "One letter, a row less, a row more, two rows exchanged, an outcome of the forger's, on a real trace",
    async run(trial, context) {
      const { broker, task: { id } } = await context.atGate();
      const text = await Deno.readTextFile(`${broker.audit}/${id}.jsonl`);
      const rows = text.trimEnd().split("\n");
      const [first = "", second = "", third = ""] = rows;
      const last = JSON.parse(rows.at(-1) ?? "{}");
      const forged: Record<string, string[]> = {
        "a letter of a row": [first, second.replace(/"ts":"2/, '"ts":"1'), ...rows.slice(2)],
        "a row less": [first, ...rows.slice(2)],
        "two rows exchanged": [first, third, second, ...rows.slice(3)],
        "a row twice": [first, second, second, ...rows.slice(2)],
        "a row more": [
          ...rows,
          JSON.stringify({ ...last, seq: rows.length + 1, type: "stage", from: "awaiting_approval", to: "pushing" }),
        ],
        "another order": [first.replace("Say hello", "Say other"), ...rows.slice(1)],
      };
      const folder = await context.folder();
      const intact = async (lines: readonly string[]) => {
        await Deno.writeTextFile(`${folder}/${id}.jsonl`, `${lines.join("\n")}\n`, { mode: 0o600 });
        return context.surfaces.verifyTrace(folder, id).intact;
      };
      trial.control("the trace as it was written", await intact(rows));
      for (const [what, lines] of Object.entries(forged)) {
        trial.attempt(what, !await intact(lines), "it counts as intact");
      }
    },
  },
];
