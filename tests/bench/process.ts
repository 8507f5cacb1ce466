/**
 * Small helpers round other programs.
 */

/** The main module of the program that is measured. */
export const TASKD_ENTRY: string = import.meta.resolve("../../cli/main.ts");

// As Linux counts processor time, on every architecture Deno runs on.
const TICKS_PER_SECOND = 100;

/** Runs a program to its end; throws with its stderr when it fails. */
export async function run(program: string, args: readonly string[], cwd?: string): Promise<string> {
  const command = new Deno.Command(program, {
    args: [...args],
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
    ...(cwd === undefined ? {} : { cwd }),
  });
  const { success, code, stdout, stderr } = await command.output();
  if (success) return new TextDecoder().decode(stdout);
  throw new Error(`${program} ${args.join(" ")} ended with ${code}: ${new TextDecoder().decode(stderr).trim()}`);
}

/** A program's stdout, or undefined when it is missing or fails. */
export async function output(program: string, args: readonly string[]): Promise<string | undefined> {
  try {
    return (await run(program, args)).trim();
  } catch {
    return undefined;
  }
}

/** A port of loopback that nothing listens on, for a program that needs one by number. */
export function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}

/** What a process has in memory. */
export async function residentBytes(pid: number): Promise<number> {
  const status = await Deno.readTextFile(`/proc/${pid}/status`);
  return Number(status.match(/^VmRSS:\s+(\d+) kB$/m)![1]) * 1_024;
}

/** The share of one core, in percent, that a process takes over so many seconds. */
export async function processorShare(pid: number, seconds: number): Promise<number> {
  const before = await processorSeconds(pid);
  await pause(seconds * 1_000);
  return 100 * (await processorSeconds(pid) - before) / seconds;
}

/** The processor time that a process has taken so far. */
export async function processorSeconds(pid: number): Promise<number> {
  const stat = await Deno.readTextFile(`/proc/${pid}/stat`);
  // The name, field 2, may hold anything; what follows its last parenthesis begins with field 3.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}

/** Lets processes come to rest. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
