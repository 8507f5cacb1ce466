/**
 * A code host for whole ways: real repositories behind https that want a login, and a program in gh's place that writes
 * down each call with its environment and answers in gh's shapes.
 */

import { join } from "@std/path/join";
import { AUTHORITY, CERTIFICATE, KEY } from "../gateway/tls_fixture.ts";
import { type Fault, type GitRequest, type GitServer, serveGit } from "../git/git_server.ts";
import { writeProgram } from "../../support/programs.ts";

/** The operator's login at the code host. */
export const LOGIN = "gho_0123456789abcdefghij";

/** One call of gh. */
export interface GhCall {
  args: string[];
  env: Record<string, string>;
  stdin: string;
  /** Names in the directory that it ran in. */
  cwd: string[];
}

/** What gh answers. */
export interface GhAnswer {
  stdout?: string;
  stderr?: string;
  code?: number;
}

/** As gh prints a pull request's checks, whatever its version. */
export type Rollup = readonly Record<string, unknown>[] | null;

const SCRIPT = `#!/bin/bash
call=$(/usr/bin/mktemp -d DIR/calls/XXXXXXXX)
printf '%s\\0' "$@" > $call/args
/usr/bin/env -0 > $call/env
/usr/bin/ls -A > $call/cwd
answer() { [ -e DIR/$1 ] || return 0; /usr/bin/cat DIR/$1.err >&2; /usr/bin/cat DIR/$1; exit $(< DIR/$1.code); }
case "$1 $2 $3" in
  "auth git-credential get")
    /usr/bin/cat > $call/stdin
    /usr/bin/grep -qx "host=HOST" $call/stdin || exit 1
    printf 'protocol=https\\nhost=HOST\\nusername=x-access-token\\npassword=%s\\n' "$(< DIR/login)";;
  "auth git-credential "*) /usr/bin/cat > $call/stdin;;
  "pr create "*)
    /usr/bin/cat > $call/stdin
    answer create
    echo x >> DIR/numbers
    echo "Creating pull request in acme/app" >&2
    echo "https://HOST/acme/app/pull/$(/usr/bin/wc -l < DIR/numbers)";;
  "pr view "*) answer view-$4; echo "no pull requests found for $4" >&2; exit 1;;
  *) echo "unknown command $*" >&2; exit 1;;
esac
`;

/** A code host. */
export class CodeHost implements AsyncDisposable {
  /** What it does with a request that has logged in. */
  decide: (request: GitRequest) => Fault = () => "pass";
  /** The login that it takes. */
  login = LOGIN;
  readonly root: string;
  readonly #server: GitServer;

  private constructor(root: string, server: GitServer) {
    this.root = root;
    this.#server = server;
  }

  /** Serves the repositories below `repositories`; `acme/app` is the one that gh knows. */
  static async start(repositories: string): Promise<CodeHost> {
    const root = await Deno.makeTempDir();
    const before: { host?: CodeHost } = {};
    const server = await serveGit(repositories, (request) => before.host!.#answer(request), {
      cert: CERTIFICATE,
      key: KEY,
    });
    const host = before.host = new CodeHost(root, server);
    await Deno.mkdir(join(root, "calls"));
    await Deno.writeTextFile(join(root, "ca.pem"), AUTHORITY);
    await Deno.writeTextFile(join(root, "login"), LOGIN);
    const script = SCRIPT.replaceAll("DIR", root).replaceAll("HOST", host.name);
    await writeProgram(host.gh_path, script);
    return host;
  }

  /** `localhost:port`. */
  get name(): string {
    return this.#server.origin.slice("https://".length);
  }

  /** Address of the repository. */
  get repo(): string {
    return `${this.#server.origin}/acme/app`;
  }

  get gh_path(): string {
    return join(this.root, "gh");
  }

  /** Variables of an operator who reaches it; `GH_HOST` and `GH_REPO` are meant for something else. */
  get env(): Record<string, string> {
    return {
      SSL_CERT_FILE: join(this.root, "ca.pem"),
      GH_TOKEN: LOGIN,
      GH_HOST: "elsewhere.example",
      GH_REPO: "elsewhere.example/other/repo",
    };
  }

  /** Requests of git that have logged in. */
  get pushes(): number {
    return this.#server.requests.filter(({ url, method }) => method === "POST" && url.endsWith("/git-receive-pack"))
      .length;
  }

  #answer(request: GitRequest): Fault {
    const expected = `Basic ${btoa(`x-access-token:${this.login}`)}`;
    return request.authorization === expected ? this.decide(request) : { status: 401 };
  }

  /** What `gh pr create` answers, in place of a new pull request. */
  async creates(answer: GhAnswer): Promise<void> {
    await this.#write("create", answer);
  }

  /** What `gh pr view <number>` answers. */
  async views(number: number, answer: GhAnswer): Promise<void> {
    await this.#write(`view-${number}`, answer);
  }

  /** The same, from what a pull request is. */
  async shows(
    number: number,
    view: { headRefOid: string; state?: string; statusCheckRollup: Rollup },
  ): Promise<void> {
    await this.views(number, { stdout: `${JSON.stringify({ state: "OPEN", ...view })}\n` });
  }

  /** The answer comes last, in one piece: a call sees the old one or the new one. */
  async #write(name: string, { stdout = "", stderr = "", code = 0 }: GhAnswer): Promise<void> {
    await Deno.writeTextFile(join(this.root, `${name}.code`), String(code));
    await Deno.writeTextFile(join(this.root, `${name}.err`), stderr);
    await Deno.writeTextFile(join(this.root, `${name}.new`), stdout);
    await Deno.rename(join(this.root, `${name}.new`), join(this.root, name));
  }

  /** Calls of gh that have these words. */
  async calls(...words: string[]): Promise<GhCall[]> {
    const calls: GhCall[] = [];
    for await (const { name } of Deno.readDir(join(this.root, "calls"))) {
      const read = (file: string) => Deno.readTextFile(join(this.root, "calls", name, file)).catch(() => "");
      const args = (await read("args")).split("\0").slice(0, -1);
      if (!words.every((word) => args.includes(word))) continue;
      const env = (await read("env")).split("\0").filter(Boolean).map((entry) => {
        const at = entry.indexOf("=");
        return [entry.slice(0, at), entry.slice(at + 1)] as const;
      });
      const cwd = (await read("cwd")).split("\n").filter(Boolean);
      calls.push({ args, env: Object.fromEntries(env), stdin: await read("stdin"), cwd });
    }
    return calls;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server[Symbol.asyncDispose]();
    await Deno.remove(this.root, { recursive: true });
  }
}
