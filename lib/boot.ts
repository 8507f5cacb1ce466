/**
 * Which start of the machine this is, and how long ago that was: after another one its power may have failed, and what a
 * file system had not written is gone; within one it says what time has passed, whatever the wall clock shows.
 */

/** Where Linux says it, random for each start; https://man7.org/linux/man-pages/man4/random.4.html. */
const BOOT_ID = "/proc/sys/kernel/random/boot_id";
/** Seconds since the start, sleep included; https://man7.org/linux/man-pages/man5/proc_uptime.5.html. */
const UPTIME = "/proc/uptime";
/** This process may not read there, but run cp: one spelling, because a grant matches only that. */
const CP = "/usr/bin/cp";

/** The id of this start of the machine; undefined where the system does not tell. */
export function bootId(): Promise<string | undefined> {
  return content(BOOT_ID);
}

/** Milliseconds since the machine was started; undefined where the system does not tell. */
export async function uptimeMs(): Promise<number | undefined> {
  const seconds = Number.parseFloat(await content(UPTIME) ?? "");
  return Number.isFinite(seconds) ? Math.round(seconds * 1000) : undefined;
}

async function content(path: string): Promise<string | undefined> {
  try {
    const { stdout } = await new Deno.Command(CP, {
      args: ["--", path, "/dev/stdout"],
      env: { LC_ALL: "C" },
      stdin: "null",
      stdout: "piped",
      stderr: "null",
    }).output();
    return new TextDecoder().decode(stdout).trim() || undefined;
  } catch {
    return undefined;
  }
}
