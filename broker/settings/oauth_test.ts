import { assert, assertEquals, assertRejects } from "@std/assert";
import type { Clock } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import type { TokenSource } from "../gateway/upstream.ts";
import { fillDisk, makeRoom } from "../../tests/support/full_disk.ts";
import { whyNotMountable, withMount } from "../../tests/support/mounts.ts";
import { oauthPath, type SubscriptionLane, VendorSubscription } from "./oauth.ts";

/** A vendor's token server on a port of its own: rotates, and refuses a refresh token that was used. */
class Vendor implements AsyncDisposable {
  readonly requests: Record<string, string>[] = [];
  answer: (count: number) => Response = (count) =>
    Response.json({ access_token: `access-${count}`, refresh_token: `refresh-${count}`, expires_in: 3600 });
  rotates = true;
  #valid = "refresh-0";
  readonly #server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen: () => {} }, async (request) => {
    const body = await request.json();
    this.requests.push(body);
    if (body.refresh_token !== this.#valid) return new Response("invalid_grant: sk-secret", { status: 400 });
    const response = this.answer(this.requests.length);
    if (response.ok && this.rotates) this.#valid = `refresh-${this.requests.length}`;
    return response;
  });

  get url(): string {
    return `http://127.0.0.1:${this.#server.addr.port}/token`;
  }

  async [Symbol.asyncDispose]() {
    await this.#server.shutdown();
  }
}

const NOON = Date.parse("2030-01-01T12:00:00Z");
const clockAt = (now: number): Clock => ({ now: () => now, monotonic: () => 0, sleep: () => Promise.resolve() });

interface Stage {
  home: string;
  vendor: Vendor;
  write(credential: Record<string, unknown>): void;
  read(): Record<string, unknown>;
  /** As the gateway takes it. */
  subscription(now?: number): TokenSource;
}

async function stage(
  test: (stage: Stage) => Promise<void>,
  options: { lane?: SubscriptionLane; in?: string } = {},
): Promise<void> {
  const { lane = "vendor_a", in: dir } = options;
  const home = await Deno.makeTempDir(dir === undefined ? {} : { dir });
  try {
    await using vendor = new Vendor();
    await Deno.mkdir(`${home}/.taskd`, { mode: 0o700 });
    const path = oauthPath(home, lane);
    await test({
      home,
      vendor,
      write: (credential) =>
        Deno.writeTextFileSync(path, JSON.stringify({ token_url: vendor.url, ...credential }), { mode: 0o600 }),
      read: () => JSON.parse(Deno.readTextFileSync(path)),
      subscription: (now = NOON) => new VendorSubscription(lane, { home, clock: clockAt(now) }),
    });
  } finally {
    await Deno.remove(home, { recursive: true });
  }
}

const TOKENS = { access_token: "access-0", refresh_token: "refresh-0" };
const VALID = { ...TOKENS, expires_at: "2030-01-01T13:00:00Z" };
const EXPIRED = { ...TOKENS, expires_at: "2030-01-01T12:01:00Z" };

// conformance: b5.subscription
Deno.test("a token that is valid for a while is used as it is", () =>
  stage(async ({ vendor, write, subscription }) => {
    write(VALID);
    assertEquals(await subscription().current(), {
      secret: "access-0",
      headers: { "anthropic-beta": "oauth-2025-04-20" },
    });
    assertEquals(vendor.requests.length, 0);
  }));

Deno.test("a token without an expiry is used until the vendor refuses it", () =>
  stage(async ({ vendor, write, subscription }) => {
    write(TOKENS);
    const source = subscription();
    assertEquals((await source.current()).secret, "access-0");
    assertEquals((await source.renew({ secret: "access-0" })).secret, "access-1");
    assertEquals(vendor.requests.length, 1);
  }));

Deno.test("a token about to expire is renewed, and the file keeps mode 0600 and its other fields", () =>
  stage(async ({ home, vendor, write, read, subscription }) => {
    write({ ...EXPIRED, account_id: "acct", note: "mine", client_id: "client-x" });
    const bearer = await subscription().current();
    assertEquals(bearer, { secret: "access-1", headers: { "chatgpt-account-id": "acct" } });
    assertEquals(vendor.requests, [{ grant_type: "refresh_token", refresh_token: "refresh-0", client_id: "client-x" }]);
    assertEquals(read(), {
      token_url: vendor.url,
      access_token: "access-1",
      refresh_token: "refresh-1",
      expires_at: "2030-01-01T13:00:00.000Z",
      account_id: "acct",
      note: "mine",
      client_id: "client-x",
    });
    assertEquals((Deno.statSync(oauthPath(home, "vendor_b")).mode ?? 0) & 0o777, 0o600);
    assertEquals([...Deno.readDirSync(`${home}/.taskd`)].length, 1);
  }, { lane: "vendor_b" }));

Deno.test("fifty requests at once cause one renewal", () =>
  stage(async ({ vendor, write, subscription }) => {
    write(EXPIRED);
    const source = subscription();
    const bearers = await Promise.all(Array.from({ length: 50 }, () => source.current()));
    assertEquals(new Set(bearers.map(({ secret }) => secret)), new Set(["access-1"]));
    assertEquals(vendor.requests.length, 1);
    // All fifty are refused: again one renewal, whichever of them asks first.
    const renewed = await Promise.all(bearers.map((bearer) => source.renew(bearer)));
    assertEquals(new Set(renewed.map(({ secret }) => secret)), new Set(["access-2"]));
    assertEquals(vendor.requests.length, 2);
  }));

Deno.test("a credential that another process has renewed is read from the file", () =>
  stage(async ({ vendor, write, subscription }) => {
    write({ ...VALID, access_token: "access-9" });
    assertEquals((await subscription().renew({ secret: "access-0" })).secret, "access-9");
    assertEquals(vendor.requests.length, 0);
  }));

Deno.test("an answer without a refresh token keeps the old one", () =>
  stage(async ({ vendor, write, read, subscription }) => {
    write(EXPIRED);
    vendor.rotates = false;
    vendor.answer = () => Response.json({ access_token: "access-x" });
    assertEquals((await subscription().current()).secret, "access-x");
    assertEquals(read(), { token_url: vendor.url, access_token: "access-x", refresh_token: "refresh-0" });
  }));

Deno.test("a failed renewal shows no token and leaves the file unchanged", () =>
  stage(async ({ vendor, write, read, subscription }) => {
    write(EXPIRED);
    const before = read();
    vendor.rotates = false;
    const answers: [Response, string][] = [
      [new Response("no: access-0 refresh-0", { status: 401 }), "answered 401"],
      [new Response("refresh-0", { status: 500 }), "answered 500"],
      [new Response("<html>refresh-0"), "not understood"],
      [Response.json({ token: "refresh-0" }), "not understood"],
      [Response.json({ access_token: "a\nb refresh-0" }), "not understood"],
      [Response.json({ access_token: "a", expires_in: -1 }), "not understood"],
      [new Response(null, { status: 302, headers: { location: "https://elsewhere.example/" } }), "cannot be reached"],
      [new Response("x".repeat(300_000)), "too large"],
    ];
    for (const [answer, message] of answers) {
      vendor.answer = () => answer;
      const error = await assertRejects(() => subscription().current(), TaskdError, message);
      const shown = `${error.message} ${error.hint} ${error.stack} ${Deno.inspect(error)}`;
      assert(!/access-0|refresh-0/.test(shown), shown);
      assertEquals(read(), before);
    }
  }));

Deno.test("an unreachable vendor and a token that cannot be renewed are reported", () =>
  stage(async ({ write, subscription }) => {
    const closed = Deno.listen({ port: 0, hostname: "127.0.0.1" });
    write({ ...EXPIRED, token_url: `http://127.0.0.1:${closed.addr.port}/` });
    closed.close();
    await assertRejects(() => subscription().current(), TaskdError, "cannot be reached");
    write({ access_token: "a", expires_at: EXPIRED.expires_at });
    const error = await assertRejects(() => subscription().current(), TaskdError, "has no refresh token");
    assertEquals(error.hint, "Sign in again with claude and write the new credential into the file");
  }));

Deno.test("a rotated token that could not be written is written by the next call", () =>
  stage(async ({ home, vendor, write, read, subscription }) => {
    write(EXPIRED);
    const source = subscription();
    const [path, aside] = [oauthPath(home, "vendor_a"), `${home}/aside.json`];
    // A directory in the file's place makes the final rename fail, also for root.
    vendor.answer = () => {
      Deno.renameSync(path, aside);
      Deno.mkdirSync(path);
      return Response.json({ access_token: "access-1", refresh_token: "refresh-1", expires_in: 3600 });
    };
    await assertRejects(() => source.current(), TaskdError, "it is not a regular file");
    Deno.removeSync(path);
    Deno.renameSync(aside, path);
    assertEquals((await source.current()).secret, "access-1");
    assertEquals([read().refresh_token, vendor.requests.length], ["refresh-1", 1]);
  }));

/** A vendor's answer, before which something happens to the file. */
function answerAfter(happens: () => void): (count: number) => Response {
  return (count) => {
    happens();
    return Response.json({ access_token: `access-${count}`, refresh_token: `refresh-${count}`, expires_in: 3600 });
  };
}

const SIGNED_IN = { access_token: "access-new", refresh_token: "refresh-new", expires_at: VALID.expires_at };

Deno.test("a credential that is written to the file during a renewal stays and is used", () =>
  stage(async ({ vendor, write, read, subscription }) => {
    write(EXPIRED);
    vendor.answer = answerAfter(() => write(SIGNED_IN));
    const source = subscription();
    assertEquals((await source.current()).secret, "access-new");
    assertEquals(read(), { token_url: vendor.url, ...SIGNED_IN });
    assertEquals((await source.current()).secret, "access-new");
  }));

Deno.test("other fields that change during a renewal stay beside the renewed tokens", () =>
  stage(async ({ vendor, write, read, subscription }) => {
    write(EXPIRED);
    vendor.answer = answerAfter(() => write({ ...EXPIRED, account_id: "other", note: "mine" }));
    assertEquals((await subscription().current()).secret, "access-1");
    const { account_id, note, refresh_token, expires_at } = read();
    assertEquals([account_id, note, refresh_token, expires_at], [
      "other",
      "mine",
      "refresh-1",
      "2030-01-01T13:00:00.000Z",
    ]);
  }));

Deno.test("a file that is removed during a renewal stays away, and the tokens are kept in memory", () =>
  stage(async ({ home, vendor, write, read, subscription }) => {
    write(EXPIRED);
    const path = oauthPath(home, "vendor_a");
    vendor.answer = answerAfter(() => Deno.removeSync(path));
    const source = subscription();
    for (let n = 0; n < 2; n++) {
      assertEquals((await assertRejects(() => source.current(), TaskdError)).code, "not_found");
    }
    assertEquals(Array.from(Deno.readDirSync(`${home}/.taskd`)), []);
    write(EXPIRED);
    assertEquals((await source.current()).secret, "access-1");
    assertEquals([read().refresh_token, vendor.requests.length], ["refresh-1", 1]);
  }));

Deno.test("a rotated token that could not be written never overwrites a newer credential", () =>
  stage(async ({ vendor, write, read, subscription }) => {
    write(EXPIRED);
    vendor.answer = answerAfter(() => write({ half: "written" }));
    const source = subscription();
    await assertRejects(() => source.current(), TaskdError, "access_token is missing");
    write(SIGNED_IN);
    assertEquals((await source.current()).secret, "access-new");
    assertEquals([read().refresh_token, vendor.requests.length], ["refresh-new", 1]);
  }));

const unmountable = await whyNotMountable("tmpfs");

Deno.test({
  name: `a refresh token is not spent while the disk is full, nor lost when it fills up meanwhile${unmountable}`,
  ignore: unmountable !== "",
  fn: () =>
    withMount("tmpfs", 1, (directory) =>
      stage(async ({ home, vendor, write, read, subscription }) => {
        write(EXPIRED);
        const ballast = `${home}/ballast`;
        const source = subscription();
        fillDisk(ballast);
        assertEquals((await assertRejects(() => source.current(), TaskdError)).code, "no_space");
        assertEquals([vendor.requests.length, read().refresh_token], [0, "refresh-0"]);
        makeRoom(ballast);
        vendor.answer = answerAfter(() => fillDisk(ballast));
        assertEquals((await source.current()).secret, "access-1");
        assertEquals([vendor.requests.length, read().refresh_token], [1, "refresh-1"]);
        makeRoom(ballast);
        assertEquals(Array.from(Deno.readDirSync(`${home}/.taskd`), ({ name }) => name), ["vendor_a-oauth.json"]);
      }, { in: directory })),
});

Deno.test("a credential that is missing, open to others or malformed is refused", () =>
  stage(async ({ home, write, subscription }) => {
    const refused = (message: string) => assertRejects(() => subscription().current(), TaskdError, message);
    assertEquals((await refused("there is no such file")).code, "not_found");
    write(VALID);
    Deno.chmodSync(oauthPath(home, "vendor_a"), 0o644);
    assertEquals((await refused("other users can reach it")).hint, `Run: chmod 600 ${oauthPath(home, "vendor_a")}`);
    Deno.chmodSync(oauthPath(home, "vendor_a"), 0o600);
    write({ ...VALID, access_token: 5 });
    await refused("access_token is missing or malformed");
    write({ ...VALID, expires_at: "soon" });
    await refused("expires_at is missing or malformed");
    write({ ...VALID, access_token: "a\r\nX: y" });
    await refused("access_token is missing or malformed");
    for (const token_url of ["http://example.com/", "file:///etc/passwd", "", "https://u@example.com/"]) {
      write({ ...EXPIRED, token_url });
      await refused("token_url is not an https URL");
    }
    Deno.writeTextFileSync(oauthPath(home, "vendor_a"), '{"access_token": "sk-secret"');
    const error = await refused("the file is missing or malformed");
    assert(!Deno.inspect(error).includes("sk-secret"));
  }));
