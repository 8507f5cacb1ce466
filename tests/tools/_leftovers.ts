/**
 * What a run has left on the machine: processes, mounts, network namespaces and bridges that were not there before it.
 *
 * In a house of its own a run sees its own processes and mounts alone; elsewhere those of others would count as well, so
 * only a house has an answer. See `house`.
 */

/** What is there, each as a line for people. */
export function machineState(): Set<string> {
  return new Set([...processes(), ...mounts(), ...namespaces(), ...bridges()]);
}

/** What is there and was not before. */
export function leftovers(before: ReadonlySet<string>): string[] {
  return [...machineState().difference(before)].sort();
}

function* processes(): Generator<string> {
  for (const { name } of Deno.readDirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const words = Deno.readTextFileSync(`/proc/${name}/cmdline`).replaceAll("\0", " ").trim();
      // Kernel threads have no words; what has ended and waits for its parent has none any more.
      if (words !== "") yield `process ${name}: ${words.slice(0, 200)}`;
    } catch {
      // It has ended meanwhile.
    }
  }
}

function* mounts(): Generator<string> {
  for (const line of Deno.readTextFileSync("/proc/self/mountinfo").trim().split("\n")) {
    const [, , , , place] = line.split(" ");
    // A namespace is listed below; podman makes a mount of its storage once.
    if (!place!.startsWith("/run/netns") && place !== "/var/lib/containers/storage/overlay") yield `mount ${place}`;
  }
}

function* namespaces(): Generator<string> {
  try {
    for (const { name } of Deno.readDirSync("/run/netns")) yield `network namespace ${name}`;
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

function* bridges(): Generator<string> {
  for (const { name } of Deno.readDirSync("/sys/class/net")) {
    if (name.startsWith("podman")) yield `bridge ${name}`;
  }
}
