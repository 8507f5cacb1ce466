import { assertEquals, assertRejects } from "@std/assert";
import { TaskdError } from "../../lib/errors.ts";
import {
  type CommandRequest,
  type CommandResult,
  encodeCall,
  encodeCommand,
  MAX_ANSWER_BYTES,
  MAX_CALL_BYTES,
} from "../agent/calls.ts";
import { CallRelay } from "./_call_relay.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

const CONFIGS = { agent: "agent's\n", files: "files'\n" };

/** A relay between an agent that is given as what it prints and a process that answers by `answer`. */
class Relayed {
  readonly calls: string[] = [];
  readonly answers: string[] = [];
  #files!: ReadableStreamDefaultController<Uint8Array>;
  readonly relay: CallRelay;

  constructor(
    answer: (call: string) => string | undefined,
    max_calls = 100,
    runCommand?: (request: CommandRequest) => Promise<CommandResult | undefined>,
  ) {
    const stdout = new ReadableStream<Uint8Array>({ start: (controller) => void (this.#files = controller) });
    const stdin = new WritableStream<Uint8Array>({
      write: (bytes) => {
        const call = decoder.decode(bytes);
        if (call === CONFIGS.files) return;
        this.calls.push(call);
        const line = answer(call);
        if (line === undefined) this.#files.close();
        else this.#files.enqueue(encoder.encode(line));
      },
    });
    const agent = new WritableStream<Uint8Array>({
      write: (bytes) => {
        const answer = decoder.decode(bytes);
        if (answer !== CONFIGS.agent) this.answers.push(answer);
      },
    });
    const start = () => ({ stdin, stdout });
    this.relay = new CallRelay({ agent: { stdin: agent }, start, configs: CONFIGS, max_calls, runCommand });
  }

  /** What is left of the agent's output, which comes in those chunks. */
  async output(...chunks: (string | Uint8Array)[]): Promise<string> {
    const bytes = chunks.map((chunk) => typeof chunk === "string" ? encoder.encode(chunk) : chunk);
    const left = await Array.fromAsync(this.relay.output(ReadableStream.from(bytes)));
    await this.relay.close();
    return left.map((part) => decoder.decode(part)).join("");
  }
}

const echo = (call: string) => `answer to ${call}`;

Deno.test("calls leave the output, are done in order, and each gets its answer", async () => {
  const whole = "row 1\n\x1ecall 1\nrow 2\nro\x1ew 3\n\x1ecall 2\n\x1ecall 3\nrow 4";
  const rest = "row 1\nrow 2\nro\x1ew 3\nrow 4";
  for (let size = 1; size <= whole.length; size++) {
    const relayed = new Relayed(echo);
    const chunks = whole.match(new RegExp(`[^]{1,${size}}`, "g"))!;
    assertEquals(await relayed.output(...chunks), rest, String(size));
    assertEquals(relayed.calls, ["call 1\n", "call 2\n", "call 3\n"]);
    assertEquals(relayed.answers, relayed.calls.map(echo));
  }
});

Deno.test("a call is passed on only once the one before it is answered", async () => {
  const order: string[] = [];
  const answered = Promise.withResolvers<void>();
  const files = new TransformStream<Uint8Array, Uint8Array>({
    async transform(bytes, controller) {
      if (decoder.decode(bytes) === CONFIGS.files) return;
      order.push(`done: ${decoder.decode(bytes).trim()}`);
      await answered.promise;
      controller.enqueue(bytes);
    },
  });
  const agent = new WritableStream<Uint8Array>({
    write: (bytes) => void order.push(`answered: ${decoder.decode(bytes).trim()}`),
  });
  const relay = new CallRelay({
    agent: { stdin: agent },
    start: () => ({ stdin: files.writable, stdout: files.readable }),
    configs: CONFIGS,
    max_calls: 2,
  });
  const output = Array.fromAsync(relay.output(ReadableStream.from([encoder.encode("\x1ea\n\x1eb\nrow\n")])));
  answered.resolve();
  assertEquals((await output).map((part) => decoder.decode(part)), ["row\n"]);
  assertEquals(order, ["answered: agent's", "done: a", "answered: a", "done: b", "answered: b"]);
  await relay.close();
});

Deno.test("a call that is cut off is no call, and no row", async () => {
  const relayed = new Relayed(echo);
  assertEquals(await relayed.output("row\n\x1ecall without its end"), "row\n");
  assertEquals(relayed.calls, []);
});

Deno.test("calls are bounded in bytes and in number, and answers in bytes", async () => {
  const refused = async (relayed: Relayed, says: string, ...chunks: (string | Uint8Array)[]) => {
    const error = await assertRejects(() => relayed.output(...chunks), TaskdError, says);
    assertEquals(error.code, "sandbox_failed");
  };
  const largest = encodeCall({ name: "x".repeat(100), arguments: "\0".repeat(3 << 20) });
  const relayed = new Relayed(() => `${"x".repeat(MAX_ANSWER_BYTES - 1)}\n`);
  assertEquals(await relayed.output(largest), "");
  assertEquals(relayed.answers[0]!.length, MAX_ANSWER_BYTES);
  const endless = new Uint8Array(1 << 20).fill(0x1e);
  const many = Array.from({ length: MAX_CALL_BYTES / endless.length + 1 }, () => endless);
  await refused(new Relayed(echo), "a call of more than", ...many);
  await refused(new Relayed(echo, 2), "more than 2 calls", "\x1e\n\x1e\n\x1e\n");
  await refused(new Relayed(() => `${"x".repeat(MAX_ANSWER_BYTES)}\n`), "invalid answer", "\x1e\n");
  await refused(new Relayed(() => "one\ntwo\n"), "invalid answer", "\x1e\n");
});

Deno.test("when no answer comes any more the output goes on, without its calls", async () => {
  const relayed = new Relayed(() => undefined);
  assertEquals(await relayed.output("\x1ea\nrow 1\n\x1eb\nrow 2\n"), "row 1\nrow 2\n");
  assertEquals([relayed.calls, relayed.answers], [["a\n"], []]);
});

Deno.test("what does the calls is started once, with the first output, and never after the end", async () => {
  let started = 0;
  const relayed = (start: () => undefined) =>
    new CallRelay({ agent: { stdin: new WritableStream() }, start, configs: CONFIGS, max_calls: 1 });
  const start = () => void started++ as undefined;
  const relay = relayed(start);
  const left = await Array.fromAsync(
    relay.output(ReadableStream.from(["row\n", "\x1ecall\n", "row\n"].map((text) => encoder.encode(text)))),
  );
  assertEquals([started, left.length], [1, 2]);
  await Array.fromAsync(relayed(start).output(ReadableStream.from([])));
  assertEquals(started, 1);
});

Deno.test("before its answer a call may ask for a command, and is given its result", async () => {
  const asked = { command: "make test", timeout_s: 3 };
  const result: CommandResult = { reason: "exited", code: 0, duration_ms: 5, output: "fine\n", links: [] };
  const run: CommandRequest[] = [];
  const answer = (line: string) => line === "call\n" ? decoder.decode(encodeCommand(asked)) : `got ${line}`;
  const relayed = new Relayed(answer, 100, (request) => (run.push(request), Promise.resolve(result)));
  await relayed.output("\x1ecall\n");
  assertEquals([run, relayed.answers], [[asked], [`got ${JSON.stringify(result)}\n`]]);

  const ended = new Relayed(answer, 100, () => Promise.resolve(undefined));
  await ended.output("\x1ecall\n", "\x1ecall\n");
  assertEquals([ended.calls.length, ended.answers], [1, []]);
});

Deno.test("an invalid command, and one where there is no sandbox for it, end the agent", async () => {
  const lines = [
    "{}",
    "not JSON",
    JSON.stringify({ command: 1, timeout_s: 1 }),
    JSON.stringify({ command: "x".repeat((16 << 10) + 1), timeout_s: 1 }),
    JSON.stringify({ command: "a\0b", timeout_s: 1 }),
    ...[0, 1.5, 901, "1", null].map((timeout_s) => JSON.stringify({ command: "id", timeout_s })),
  ];
  const never = () => Promise.reject(new Error("it was run"));
  for (const line of lines) {
    const relayed = new Relayed(() => `\x1d${line}\n`, 100, never);
    await assertRejects(() => relayed.output("\x1ecall\n"), TaskdError, "invalid answer", line);
  }
  const without = new Relayed(() => decoder.decode(encodeCommand({ command: "id", timeout_s: 1 })));
  await assertRejects(() => without.output("\x1ecall\n"), TaskdError, "invalid answer");
});
