import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { TaskdError } from "../../lib/errors.ts";
import { requireOwnRoots, ROOTS } from "./roots.ts";

async function withHome(test: (base: string, home: string) => void): Promise<void> {
  const base = Deno.realPathSync(await Deno.makeTempDir());
  try {
    Deno.mkdirSync(`${base}/home/.taskd`, { recursive: true, mode: 0o700 });
    test(base, `${base}/home`);
  } finally {
    await Deno.remove(base, { recursive: true });
  }
}

function settingsOf(home: string, changed: Record<string, string> = {}) {
  const roots = Object.fromEntries(ROOTS.map((name) => [name, `${home}/.taskd/${name}`]));
  return { ...roots, ...changed } as Parameters<typeof requireOwnRoots>[0];
}

for (const name of ROOTS) {
  Deno.test(`${name}: the system's, the home directory's and links are refused`, () =>
    withHome((base, home) => {
      requireOwnRoots(settingsOf(home), home);
      requireOwnRoots(settingsOf(home, { [name]: `${base}/new/one` }), home);
      Deno.mkdirSync(`${base}/own`, { mode: 0o700 });
      requireOwnRoots(settingsOf(home, { [name]: `${base}/own` }), home);
      Deno.symlinkSync(`${base}/own`, `${home}/.taskd/${name}`);
      Deno.symlinkSync(home, `${base}/alias`);
      const roots = ["/", base, home, `${home}/.taskd`, `${base}/alias`, `${home}/.taskd/${name}`];
      for (const path of roots) {
        const error = assertThrows(() => requireOwnRoots(settingsOf(home, { [name]: path }), home), TaskdError);
        assertEquals(error.code, "denied", path);
      }
      Deno.chmodSync(`${base}/own`, 0o722);
      assertThrows(() => requireOwnRoots(settingsOf(home, { [name]: `${base}/own` }), home), TaskdError, "change");
      if (Deno.uid() !== 0) return;
      Deno.chmodSync(`${base}/own`, 0o700);
      Deno.chownSync(`${base}/own`, 65_534, 65_534);
      assertThrows(
        () => requireOwnRoots(settingsOf(home, { [name]: `${base}/own` }), home),
        TaskdError,
        "another user",
      );
    }));
}

for (const name of ["audit_root", "cache_root"] as const) {
  Deno.test(`${name}: a directory that is in use and open to others is refused and left as it is`, () =>
    withHome((base, home) => {
      const settings = settingsOf(home, { [name]: `${base}/etc` });
      Deno.mkdirSync(`${base}/etc`);
      Deno.chmodSync(`${base}/etc`, 0o755);
      requireOwnRoots(settings, home);
      Deno.writeTextFileSync(`${base}/etc/passwd`, "");
      const error = assertThrows(() => requireOwnRoots(settings, home), TaskdError);
      assertStringIncludes(error.message, "open to other users");
      assertEquals(Deno.statSync(`${base}/etc`).mode! & 0o777, 0o755);
      assertThrows(() => requireOwnRoots(settingsOf(home, { [name]: "/etc" }), home), TaskdError);
    }));
}
