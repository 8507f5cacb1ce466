/** Where Deno keeps compiled modules and packages: below the home directory, which for programs of tests is another one. */

let found: Promise<string> | undefined;

/** The directory of this process, for `DENO_DIR` of programs that it starts: an empty one would be filled by downloads. */
export function denoDirectory(): Promise<string> {
  return found ??= new Deno.Command(Deno.execPath(), { args: ["info", "--json"] }).output()
    .then(({ stdout }) => JSON.parse(new TextDecoder().decode(stdout)).denoDir);
}
