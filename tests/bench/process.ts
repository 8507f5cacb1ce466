/**
 * Small helpers round other programs.
 *
 * @module
 */

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
