/* @ts-self-types="./mod.d.mts" */
/**
 * A client of the task broker: submit tasks to coding agents, follow them, read what they did, approve or deny it.
 *
 * It speaks to a broker that runs (`taskd start`), over its unix socket (`taskd doctor` names it) or over TCP, and does
 * what the commands do. Every failure is a `TaskdError` with a code to act on.
 *
 * @example Ask a broker, or learn that none runs
 * ```ts
 * import { BrokerClient } from "@taskd/taskd/broker";
 * import { hasCode } from "@taskd/taskd";
 *
 * const broker = new BrokerClient({ socket: "/run/user/1000/taskd/taskd.sock" });
 * try {
 *   const { tasks } = await broker.tasks({ limit: 10 });
 *   for (const { id, stage } of tasks) console.log(id, stage);
 * } catch (error) {
 *   if (!hasCode(error, "broker_unreachable")) throw error;
 *   console.log("no broker runs: taskd start");
 * }
 * ```
 *
 * @example A task from its submission to its push, on a broker of its own
 * ```ts
 * import { BrokerClient } from "@taskd/taskd/broker";
 *
 * // A model that writes a file and is done; any OpenAI-compatible server can stand here.
 * const calls = [
 *   { name: "write", arguments: JSON.stringify({ path: "hello.txt", content: "hello\n" }) },
 *   { name: "finish", arguments: JSON.stringify({ summary: "It says hello" }) },
 * ];
 * const model = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, () => {
 *   const tool_calls = [{ id: "call", type: "function", function: calls.shift() }];
 *   return Response.json({
 *     choices: [{ message: { role: "assistant", content: null, tool_calls }, finish_reason: "tool_calls" }],
 *     usage: { prompt_tokens: 100, completion_tokens: 10 },
 *   });
 * });
 *
 * // A repository of one commit.
 * const home = await Deno.makeTempDir();
 * const repo = `${home}/repo`;
 * const author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"];
 * await new Deno.Command("git", { args: ["init", "--initial-branch=main", repo] }).output();
 * await new Deno.Command("git", { args: ["-C", repo, ...author, "commit", "--allow-empty", "-m", "First"] }).output();
 *
 * // A home directory with settings, and a broker in it: it prints one line as soon as it serves.
 * const settings = {
 *   runtime: "deno",
 *   default_agent: "agent_d",
 *   broker: { socket: `${home}/run/taskd.sock` },
 *   compat: { base_url: `http://127.0.0.1:${model.addr.port}`, model: "scripted" },
 * };
 * await Deno.mkdir(`${home}/.taskd`, { mode: 0o700 });
 * await Deno.writeTextFile(`${home}/.taskd/config.yaml`, JSON.stringify(settings));
 * const process = new Deno.Command(Deno.execPath(), {
 *   args: [
 *     ...["run", "--quiet", "-A", "--no-prompt", "--unstable-worker-options"],
 *     ...[import.meta.resolve("@taskd/taskd/cli"), "start", "--json"],
 *   ],
 *   env: { HOME: home, DENO_DIR: Deno.env.get("DENO_DIR") ?? `${Deno.env.get("HOME")}/.cache/deno` },
 *   stdout: "piped",
 *   stderr: "null",
 * }).spawn();
 * const reader = process.stdout.getReader();
 * await reader.read();
 *
 * try {
 *   const broker = new BrokerClient(settings.broker);
 *   const { id } = await broker.submit({ repo, instruction: "Say hello in a file" });
 *   for await (const { event, data } of broker.events(id)) {
 *     if (event === "result") console.log(data.outcome, data.pushed?.branch); // pushed agent/…
 *     if (event !== "stage" || data.gate === undefined) continue;
 *     console.log(new TextDecoder().decode((await broker.diff(id)).bytes)); // … +hello
 *     await broker.approve(id, { diff_sha256: data.gate.diff_sha256, acknowledge: data.gate.second_look });
 *   }
 *   console.log((await broker.stats()).tasks, (await broker.health()).ok); // 1 true
 * } finally {
 *   process.kill();
 *   await process.status;
 *   await reader.cancel();
 *   await model.shutdown();
 *   await Deno.remove(home, { recursive: true });
 * }
 * ```
 *
 * @module
 */

export { BrokerClient } from "./client.ts";
