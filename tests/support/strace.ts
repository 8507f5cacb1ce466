/**
 * Whether processes can be traced here, for tests that let single system calls fail or kill.
 */

/** Why they cannot, for a test's `ignore` and its name: `{ name: "..." + why, ignore: why !== "" }`. */
export async function whyNoStrace(): Promise<string> {
  try {
    const { success } = await new Deno.Command("strace", { args: ["-qq", "-o", "/dev/null", "true"] }).output();
    return success ? "" : " (ignored: strace may not trace here)";
  } catch {
    return " (ignored: strace is not installed)";
  }
}
