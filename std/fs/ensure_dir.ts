// As jsr:@std/fs@1 has it. deno-std has no fs.

/** Makes the directory `dir` and its parents, unless it exists. */
export async function ensureDir(dir: string | URL): Promise<void> {
  if (await Deno.stat(dir).then(isDirectory, orMissing)) return;
  await Deno.mkdir(dir, { recursive: true });
}

/** Makes the directory `dir` and its parents, unless it exists. */
export function ensureDirSync(dir: string | URL): void {
  try {
    if (isDirectory(Deno.statSync(dir))) return;
  } catch (error) {
    orMissing(error);
  }
  Deno.mkdirSync(dir, { recursive: true });
}

function isDirectory(stat: Deno.FileInfo): boolean {
  if (stat.isDirectory) return true;
  throw new Error(`Failed to ensure directory exists: expected 'dir', got '${stat.isFile ? "file" : "symlink"}'`);
}

function orMissing(error: unknown): false {
  if (error instanceof Deno.errors.NotFound) return false;
  throw error;
}
