/**
 * Programs that tests write for themselves to run.
 */

/**
 * Writes an executable, by a process of its own: a file that this process had open for writing may be inherited by a
 * program that another thread is just starting, and cannot be run while it is ("Text file busy").
 */
export async function writeProgram(path: string, text: string): Promise<void> {
  const child = new Deno.Command("sh", {
    args: ["-c", 'cat > "$1" && chmod 755 "$1"', "sh", path],
    stdin: "piped",
    stdout: "null",
    stderr: "piped",
  }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(text));
  await writer.close();
  const { success, stderr } = await child.output();
  if (!success) throw new Error(`Cannot write ${path}: ${new TextDecoder().decode(stderr).trim()}`);
}
