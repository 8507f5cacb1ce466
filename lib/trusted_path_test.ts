import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import { TaskdError } from "./errors.ts";
import { requireTrusted, TRUST_RULES, type TrustRuleName } from "./trusted_path.ts";

const STRANGER = 65_534;
const IS_ROOT = Deno.uid() === 0;
const NAMES = Object.keys(TRUST_RULES) as TrustRuleName[];

/** Something that passes the rule `name`, in a directory of its own. */
async function withPlace(name: TrustRuleName, test: (path: string, folder: string) => void): Promise<void> {
  const folder = Deno.realPathSync(await Deno.makeTempDir());
  const path = `${folder}/place`;
  using stack = new DisposableStack();
  stack.defer(() => Deno.removeSync(folder, { recursive: true }));
  if (TRUST_RULES[name].type === "directory") Deno.mkdirSync(path);
  else if (TRUST_RULES[name].type === "file") Deno.writeTextFileSync(path, "");
  else stack.adopt(Deno.listen({ transport: "unix", path }), (listener) => listener.close());
  Deno.chmodSync(path, TRUST_RULES[name].type === "directory" ? 0o700 : 0o600);
  test(path, folder);
}

function refusal(path: string, name: TrustRuleName, uid?: number): string {
  const error = assertThrows(() => requireTrusted(path, name, uid), TaskdError);
  assertEquals(error.code, "denied");
  assertEquals(error.hint === undefined, false);
  return error.message;
}

for (const name of NAMES) {
  const { forbidden, link, type, of_root } = TRUST_RULES[name];

  Deno.test(`${name}: what is one's own passes, what is missing is undefined`, () =>
    withPlace(name, (path, folder) => {
      assertEquals(requireTrusted(path, name)?.isSocket === true, type === "socket");
      assertEquals(requireTrusted(`${folder}/missing`, name), undefined);
      assertEquals(requireTrusted(`${folder}/missing/too`, name), undefined);
    }));

  Deno.test(`${name}: each forbidden bit of its mode is refused, and others are not`, () =>
    withPlace(name, (path) => {
      const own = Deno.lstatSync(path).mode! & 0o777;
      for (const bit of [0o001, 0o002, 0o004, 0o010, 0o020, 0o040]) {
        Deno.chmodSync(path, own | bit);
        if ((forbidden & bit) === 0) requireTrusted(path, name);
        else assertMatch(refusal(path, name), /\(mode 0\d{3}\)$/);
      }
    }));

  Deno.test(`${name}: something of another type is refused`, () =>
    withPlace(name, (path) => {
      Deno.removeSync(path);
      if (type === "directory") Deno.writeTextFileSync(path, "", { mode: 0o600 });
      else Deno.mkdirSync(path, { mode: 0o700 });
      assertMatch(refusal(path, name), / not a /);
    }));

  Deno.test(`${name}: a link of one's own is ${link ? "followed, and what it leads to is checked" : "refused"}`, () =>
    withPlace(name, (path, folder) => {
      Deno.symlinkSync(path, `${folder}/link`);
      if (!link) return void assertMatch(refusal(`${folder}/link`, name), /is a link/);
      assertEquals(requireTrusted(`${folder}/link`, name)?.ino, Deno.lstatSync(path).ino);
      Deno.chmodSync(path, 0o777);
      assertMatch(refusal(`${folder}/link`, name), /\/place: .*\(mode 0777\)/);
    }));

  Deno.test({
    name: `${name}: another owner is refused, root ${of_root ? "is not" : "too"}` +
      (IS_ROOT ? "" : ": ignored, only root can make one"),
    ignore: !IS_ROOT,
    fn: () =>
      withPlace(name, (path, folder) => {
        Deno.chownSync(path, STRANGER, STRANGER);
        assertMatch(refusal(path, name), /belongs to another user \(65534\)/);
        requireTrusted(path, name, STRANGER);
        Deno.chownSync(path, 0, 0);
        Deno.chownSync(folder, STRANGER, STRANGER);
        if (of_root) requireTrusted(path, name, STRANGER);
        else assertMatch(refusal(path, name, STRANGER), /belongs to another user \(0\)/);
      }),
  });

  Deno.test({
    name: `${name}: a directory above it of another owner is refused, by whatever name it is reached` +
      (IS_ROOT ? "" : ": ignored, only root can make one"),
    ignore: !IS_ROOT,
    fn: () =>
      withPlace(name, (path, folder) => {
        Deno.mkdirSync(`${folder}/theirs`, { mode: 0o755 });
        Deno.renameSync(path, `${folder}/theirs/place`);
        Deno.symlinkSync(`${folder}/theirs`, `${folder}/alias`);
        requireTrusted(`${folder}/alias/place`, name);
        Deno.chownSync(`${folder}/theirs`, STRANGER, STRANGER);
        for (const way of ["theirs", "alias"]) {
          assertMatch(refusal(`${folder}/${way}/place`, name), /\/theirs: it belongs to another user/);
        }
      }),
  });

  Deno.test(`${name}: others who may rename in a directory above are refused, unless it is sticky`, () =>
    withPlace(name, (path, folder) => {
      for (const mode of [0o777, 0o702]) {
        Deno.chmodSync(folder, mode);
        assertMatch(refusal(path, name), /other users can change it/);
      }
      Deno.chmodSync(folder, 0o1777);
      requireTrusted(path, name);
    }));
}
