import { assertEquals, assertMatch } from "@std/assert";
import { parentOf } from "../../lib/real_path.ts";
import { TRUST_RULES } from "../../lib/trusted_path.ts";
import { loadSettings, taskdHome } from "./load.ts";
import { type OwnPlace, ownPlaces, type UntrustedPlace, untrustedPlaces } from "./own_places.ts";
import { ROOTS } from "./roots.ts";
import type { Settings } from "./settings.ts";

const IS_ROOT = Deno.uid() === 0;
const STRANGER = 65_534;

interface Place {
  base: string;
  home: string;
  settings: Settings;
  found: () => UntrustedPlace[];
}

/** A home in which everything is there, as it should be. */
async function withHome(test: (place: Place) => void): Promise<void> {
  const base = Deno.realPathSync(await Deno.makeTempDir());
  using stack = new DisposableStack();
  stack.defer(() => Deno.removeSync(base, { recursive: true }));
  const home = `${base}/home`;
  Deno.mkdirSync(taskdHome(home), { recursive: true, mode: 0o700 });
  const env = (name: string) => name === "TMPDIR" ? base : undefined;
  const { settings } = await loadSettings({ home, env });
  for (const name of ROOTS) Deno.mkdirSync(settings[name], { recursive: true, mode: 0o700 });
  for (const { path, rule } of ownPlaces({ home, settings })) {
    const { type } = TRUST_RULES[rule];
    if (type === "directory") {
      Deno.mkdirSync(path, { recursive: true, mode: 0o700 });
    } else if (type === "file") {
      Deno.writeTextFileSync(path, "", { mode: 0o600 });
    } else {
      Deno.mkdirSync(parentOf(path), { recursive: true, mode: 0o700 });
      stack.adopt(Deno.listen({ transport: "unix", path }), (listener) => listener.close());
      Deno.chmodSync(path, 0o600);
    }
  }
  test({ base, home, settings, found: () => untrustedPlaces({ home, settings }) });
}

/** Every place with the roots, which have a rule of their own. */
function all({ home, settings }: Place): OwnPlace[] {
  return [...ownPlaces({ home, settings }), ...ROOTS.map((name): OwnPlace => ({ path: settings[name], rule: "root" }))];
}

function only(found: UntrustedPlace[], path: string, problem: RegExp): void {
  const [first] = found.filter((one) => one.problem.includes(`${path}:`));
  assertMatch(first?.problem ?? `nothing about ${path} in ${JSON.stringify(found)}`, problem);
  assertEquals(first!.remedy === "", false);
}

Deno.test("nothing is wrong with what is as it should be, nor with what is not there", () =>
  withHome((place) => {
    assertEquals(place.found(), []);
    Deno.removeSync(place.home, { recursive: true });
    assertEquals(place.found(), []);
  }));

Deno.test("each place that others can change is named, with what to do", () =>
  withHome((place) => {
    for (const { path } of all(place)) {
      const { mode } = Deno.lstatSync(path);
      Deno.chmodSync(path, mode! & 0o777 | 0o002);
      only(place.found(), path, /\(mode 0\d{3}\)$/);
      Deno.chmodSync(path, mode! & 0o777);
      assertEquals(place.found(), [], path);
    }
  }));

Deno.test({
  name: "each place of another owner is named" + (IS_ROOT ? "" : ": ignored, only root can make one"),
  ignore: !IS_ROOT,
  fn: () =>
    withHome((place) => {
      for (const { path } of all(place)) {
        Deno.chownSync(path, STRANGER, STRANGER);
        only(place.found(), path, /belongs to another user \(65534\)/);
        Deno.chownSync(path, 0, 0);
      }
    }),
});

Deno.test("a link is refused, or followed to what passes the same rule", () =>
  withHome((place) => {
    for (const { path, rule } of all(place)) {
      Deno.renameSync(path, `${place.base}/aside`);
      Deno.symlinkSync(`${place.base}/aside`, path);
      if (!TRUST_RULES[rule].link) {
        only(place.found(), path, /is a link/);
      } else {
        assertEquals(place.found(), [], path);
        // The advice is about what the link leads to, which is what has to change.
        Deno.chmodSync(path, TRUST_RULES[rule].type === "directory" ? 0o777 : 0o666);
        only(place.found(), `${place.base}/aside`, /other users/);
        assertMatch(place.found()[0]!.remedy, /^Run: chmod \d+ \S+\/aside/);
        Deno.chmodSync(path, TRUST_RULES[rule].type === "directory" ? 0o700 : 0o600);
      }
      Deno.removeSync(path);
      Deno.renameSync(`${place.base}/aside`, path);
    }
  }));

Deno.test("a home directory that others can change is named once", () =>
  withHome(({ home, found }) => {
    Deno.chmodSync(home, 0o777);
    const [first, ...others] = found();
    assertEquals(others, []);
    assertMatch(first!.problem, /\/home: other users can change it \(mode 0777\)$/);
    assertMatch(first!.remedy, /^Run: chmod 755 /);
  }));

Deno.test("roots that hold the home directory, or serve another purpose, are named", () =>
  withHome(({ home, settings }) => {
    for (const name of ROOTS) {
      const [found] = untrustedPlaces({ home, settings: { ...settings, [name]: "/" } });
      assertMatch(found!.problem, new RegExp(`^Cannot use / as ${name}: it holds this home directory$`));
    }
    for (const name of ["audit_root", "cache_root"]) {
      const [found] = untrustedPlaces({ home, settings: { ...settings, [name]: "/etc" } });
      assertMatch(found!.problem, IS_ROOT ? /is in use, and open to other users$/ : /belongs to another user \(0\)/);
    }
  }));
