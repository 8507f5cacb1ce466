import { assertEquals, assertMatch } from "@std/assert";
import { BackendError } from "../../lib/backend/backend.ts";
import { TaskdError } from "../../lib/errors.ts";
import { reportFailure } from "./failure.ts";
import { Io } from "./io.ts";

function report(error: unknown, options: { json?: boolean; aborted?: boolean } = {}) {
  const texts = { stdout: "", stderr: "" };
  const sink = (name: "stdout" | "stderr") => ({
    writeSync: (bytes: Uint8Array) => {
      // A pipe may take less than it is given.
      const taken = bytes.subarray(0, 7);
      texts[name] += String.fromCharCode(...taken);
      return taken.length;
    },
    isTerminal: () => false,
  });
  const controller = new AbortController();
  if (options.aborted) controller.abort(error);
  const io = new Io({
    stdout: sink("stdout"),
    stderr: sink("stderr"),
    json: options.json ?? false,
    quiet: true,
    no_color: true,
    signal: controller.signal,
    now: () => 0,
  });
  return { code: reportFailure(error, io), ...texts };
}

Deno.test("reportFailure() prints what failed, why, and what to do", () => {
  const cause = new Error("No space left on device");
  const error = new TaskdError("no_space", "Cannot write /s/x", { cause, hint: "Free some space" });
  assertEquals(report(error), {
    code: 1,
    stdout: "",
    stderr: "taskd: Cannot write /s/x\n  cause: No space left on device\n  Free some space\n",
  });
});

Deno.test("reportFailure() gives programs one object on stdout and nothing else", () => {
  const error = new TaskdError("not_found", "No branch x", { hint: "Look" });
  const { code, stdout, stderr } = report(error, { json: true });
  assertEquals([code, stderr], [1, ""]);
  assertEquals(stdout, '{"ok":false,"code":"not_found","error":"No branch x","hint":"Look"}\n');
});

Deno.test("reportFailure() lets no escape sequence through", () => {
  const error = new TaskdError("not_found", "No \x1b[2Jbranch\nx", { hint: "\u009b1m" });
  assertEquals(report(error).stderr, "taskd: No \\x1b[2Jbranch\\nx\n  \\x9b1m\n");
});

Deno.test("reportFailure() prints no cause of an interrupt", () => {
  const cause = new Error("Cannot read x: it was cut");
  const error = new TaskdError("interrupted", "The operation was interrupted", { cause });
  assertEquals(report(error).stderr, "taskd: The operation was interrupted\n");
});

Deno.test("reportFailure() exits with the documented statuses", () => {
  assertEquals(report(new TaskdError("usage", "x")).code, 2);
  assertEquals(report(new TaskdError("invalid_name", "x")).code, 2);
  assertEquals(report(new TaskdError("interrupted", "x")).code, 130);
  assertEquals(report(new DOMException("x", "AbortError"), { aborted: true }).code, 130);
  assertEquals(report(new DOMException("x", "AbortError")).code, 1);
  assertEquals(report(new Deno.errors.BrokenPipe("x")), { code: 0, stdout: "", stderr: "" });
});

Deno.test("reportFailure() gives a backend's failure its code", () => {
  const error = new BackendError("denied", "", "Cannot open the store /x: it is not a directory");
  const { code, stdout } = report(error, { json: true });
  assertEquals([code, JSON.parse(stdout)], [1, { ok: false, code: "denied", error: error.message }]);
});

Deno.test("reportFailure() names a defect as one, with its place", () => {
  const { code, stderr } = report(new TypeError("x is not a function"));
  assertEquals(code, 1);
  assertMatch(stderr, /^taskd: Unexpected failure: TypeError: x is not a function \(at .*failure_test\.ts/);
});

Deno.test("reportFailure() reports that a permission stopped the work", () => {
  assertMatch(report(new Deno.errors.NotCapable("Requires read access")).stderr, /edge of its permissions/);
});
