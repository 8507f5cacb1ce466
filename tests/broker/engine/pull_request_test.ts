import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { titleOf } from "../../../broker/engine/change_text.ts";
import { openPullRequest } from "../../../broker/engine/pull_request.ts";
import { parseRepo } from "../../../broker/git/repo_url.ts";
import { Gh } from "../../../broker/git/gh.ts";
import type { Task } from "../../../broker/task/task.ts";
import { TaskStore } from "../../../broker/task/task_store.ts";
import { writeProgram } from "../../support/programs.ts";

const URL_OF_REPO = "https://git.example.com/acme/app";

/** A task, and a program in gh's place that answers with `script`. */
async function withGh(
  script: string,
  test: (host: { gh: Gh; task: Task; called: () => Promise<string>; notes: () => string[] }) => Promise<void>,
  order: { draft?: boolean; instruction?: string } = {},
): Promise<void> {
  const root = await Deno.makeTempDir();
  try {
    await Deno.mkdir(`${root}/empty`);
    const text = `#!/bin/bash\nprintf '%s\\n' "$@" > ${root}/args\n/bin/cat >> ${root}/args\n${script}\n`;
    await writeProgram(`${root}/gh`, text);
    const tasks = await TaskStore.open(`${root}/audit`);
    const task = await tasks.create({ repo: URL_OF_REPO, instruction: "Fix it", agent: "agent_a", ...order });
    await test({
      gh: new Gh({ path: `${root}/gh`, cwd: `${root}/empty`, env: {} }),
      task,
      called: () => Deno.readTextFile(`${root}/args`).catch(() => ""),
      notes: () =>
        Deno.readTextFileSync(`${root}/audit/${task.id}.jsonl`).split("\n").filter((line) => line.includes('"note"')),
    });
    await tasks.close();
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

const log = () => {};
const NEVER = new AbortController().signal;
const OPENED = `echo ${URL_OF_REPO}/pull/7`;

// conformance: b1.pull_request
Deno.test("a pull request targets the branch that the work started from, as a draft if asked", () =>
  withGh(OPENED, async ({ gh, task, called }) => {
    const branch = { url: parseRepo(URL_OF_REPO), branch: "agent/x", base: "main", signal: NEVER };
    assertEquals(await openPullRequest({ code_host: gh, log }, task, branch), `${URL_OF_REPO}/pull/7`);
    const args = await called();
    for (const word of ["--head=agent/x", "--base=main", "--title=Fix it", "--draft", task.id]) {
      assertStringIncludes(args, word);
    }
  }, { draft: true }));

Deno.test("a pull request that cannot be opened is noted in the task and fails nothing", () =>
  withGh("echo 'HTTP 403: Resource not accessible' >&2; exit 1", async ({ gh, task, notes }) => {
    const branch = { url: parseRepo(URL_OF_REPO), branch: "agent/x", base: "main", signal: NEVER };
    assertEquals(await openPullRequest({ code_host: gh, log }, task, branch), undefined);
    assertStringIncludes(notes()[0]!, "no pull request was opened");
  }));

Deno.test("a path, a server on loopback, a tag and a host without gh get no pull request", () =>
  withGh(OPENED, async ({ gh, task, called, notes }) => {
    const open = (repo: string, code_host: Gh | undefined, base: string | undefined) =>
      openPullRequest({ ...(code_host ? { code_host } : {}), log }, task, {
        url: parseRepo(repo),
        branch: "b",
        base,
        signal: NEVER,
      });
    assertEquals(await open("/srv/git/app", gh, "main"), undefined);
    assertEquals(await open("http://127.0.0.1:8080/acme/app", gh, "main"), undefined);
    assertEquals(await open(URL_OF_REPO, undefined, "main"), undefined);
    assertEquals(notes(), []);
    assertEquals(await open(URL_OF_REPO, gh, undefined), undefined);
    assertEquals(notes().length, 1);
    assertEquals(await called(), "");
  }));

Deno.test("a title is the first line of the instruction, bounded and sanitised", () =>
  withGh(OPENED, ({ task }) => {
    const title = (instruction: string) => titleOf({ ...task.record, instruction });
    assertEquals(title("\n\n  Fix the \u001b[2J window \nand more"), "Fix the \\x1b[2J window");
    assert(title("x".repeat(500)).length <= 72);
    assertStringIncludes(title(" \n "), task.id.slice(0, 12));
    return Promise.resolve();
  }));
