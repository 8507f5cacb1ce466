/**
 * Programs of the system that a run calls, and what they print.
 */

/** Runs a program that has to succeed; returns what it prints. */
export async function run(command: string, ...args: string[]): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(command, { args, stdin: "null" }).output();
  if (!success) throw new Error(`${command} ${args.join(" ")}: ${new TextDecoder().decode(stderr).trim()}`);
  return new TextDecoder().decode(stdout);
}
