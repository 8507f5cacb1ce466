// As jsr:@std/fs@1 has it, without the option isReadable. deno-std has no fs.

/** What else must hold. */
export interface ExistsOptions {
  /** Whether it must be a directory. */
  isDirectory?: boolean;
  /** Whether it must be a file. */
  isFile?: boolean;
}

/** Whether `path`, its links followed, exists. */
export async function exists(path: string | URL, options?: ExistsOptions): Promise<boolean> {
  try {
    return matches(await Deno.stat(path), options);
  } catch (error) {
    return existsDespite(error, path);
  }
}

/** Whether `path`, its links followed, exists. */
export function existsSync(path: string | URL, options?: ExistsOptions): boolean {
  try {
    return matches(Deno.statSync(path), options);
  } catch (error) {
    return existsDespite(error, path);
  }
}

function matches(stat: Deno.FileInfo, options: ExistsOptions = {}): boolean {
  if (options.isDirectory && options.isFile) {
    throw new TypeError(
      "ExistsOptions.options.isDirectory and ExistsOptions.options.isFile must not be true together",
    );
  }
  return !(options.isDirectory && !stat.isDirectory) && !(options.isFile && !stat.isFile);
}

function existsDespite(error: unknown, path: string | URL): boolean {
  if (error instanceof Deno.errors.NotFound) return false;
  if (error instanceof Deno.errors.PermissionDenied) {
    if (Deno.permissions.querySync({ name: "read", path }).state === "granted") return true;
  }
  throw error;
}
