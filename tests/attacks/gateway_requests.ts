/** Promises of the model gateway about what may pass to a vendor. */

import { Buffer } from "node:buffer";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { LANES } from "../../broker/agents.ts";
import { bearer, GatewayBench } from "./_gateway_bench.ts";
import {
  BODIES,
  disguisedBodies,
  GOOD_BODIES,
  LANE_PATHS,
  REFUSED_ROUTES,
  smuggledRequests,
  VENDOR_TOOL_ATTACKS,
  wrongTokens,
} from "./inputs/gateway.ts";
import { SPELLINGS } from "./inputs/gateway_spellings.ts";
import type { Trial } from "../../cli/redteam/security_promise.ts";
import type { CommonPromise } from "./context.ts";

/** What one byte more than is too much. */
const MAX_BODY_BYTES = 16 << 20;

/** Attacks on a gateway, of which nothing may reach the vendor, while a good request does. */
function onGateway(attack: (trial: Trial, bench: GatewayBench) => Promise<void>): CommonPromise["run"] {
  return async (trial, context) => {
    await using bench = await GatewayBench.start(context);
    await attack(trial, bench);
    trial.none("requests that reached the vendor", bench.arrived.map(({ path }) => path));
    const { status } = await bench.post(LANE_PATHS.vendor_a, BODIES.messages, bearer(bench.lease("vendor_a")));
    trial.control("a good request", status === 200 && bench.arrived.length > 0, String(status));
  };
}

export const GATEWAY_PROMISES: readonly CommonPromise[] = [
  {
    id: "gateway.tokens",
    promise: "Without the token of a running task nothing passes",
    attacks: "None, cut, lengthened, in upper case, an ended task's, two at once, in a cookie, in the URL",
    run: onGateway(async (trial, bench) => {
      const [lease, other, ended] = [bench.lease("vendor_a"), bench.lease("vendor_a"), bench.lease("vendor_a")];
      await ended.end();
      for (const headers of wrongTokens(lease.token, { other: other.token, ended: ended.token })) {
        const { status, text } = await bench.post(LANE_PATHS.vendor_a, BODIES.messages, headers);
        trial.expect(`a token in ${Object.keys(headers).join(" and ") || "nothing"}`, status, 401);
        trial.attempt("the token in the answer", !text.includes(lease.token.slice(0, 20)));
      }
      const in_url = await bench.status(`${LANE_PATHS.vendor_a}?key=${lease.token}`, BODIES.messages, {});
      trial.expect("a token in the URL", in_url, 401);
    }),
  },
  {
    id: "gateway.lanes",
    promise: "A task's token leads into the lane of its agent and no other",
    attacks: "The token of one lane on the paths of each other",
    run: onGateway(async (trial, bench) => {
      for (const lane of LANES) {
        const lease = bench.lease(lane);
        for (const other of LANES) {
          // A self-hosted endpoint has the routes of vendor_b.
          if (other === lane || [lane, other].toSorted().join() === "compat,vendor_b") continue;
          const { status, code } = await bench.post(LANE_PATHS[other], GOOD_BODIES[other], bearer(lease));
          trial.expect(`the token of ${lane} on ${LANE_PATHS[other]}`, `${status} ${code}`, "403 route_refused");
        }
      }
    }),
  },
  {
    id: "gateway.routes",
    promise: "What is not on a lane's list of routes is refused, however it is written",
    attacks: "Files, batches, fine-tuning, other methods, dots, escaped and doubled slashes, keys in the query",
    run: onGateway(async (trial, bench) => {
      const leases = Object.fromEntries(LANES.map((lane) => [lane, bench.lease(lane)]));
      for (const [lane, method, path] of REFUSED_ROUTES) {
        const head = `${method} ${path} HTTP/1.1\r\nhost: g\r\nx-api-key: ${leases[lane]!.token}\r\n`;
        const status = await bench.rawStatus(`${head}connection: close\r\ncontent-length: 0\r\n\r\n`);
        trial.expect(`${lane}: ${method} ${path}`, status, /^HTTP\/1\.1 40[03]$/);
      }
    }),
  },
  {
    id: "gateway.vendor_tools",
    promise: "A vendor is asked to do nothing in the agent's stead: no search, no fetch, no code, no server, no file",
    attacks: "Each vendor's own tools in every form, in later turns and inside results, URL and file sources, " +
      "background work, dear tiers, other spellings and places, models that search, answers that are kept",
    run: onGateway(async (trial, bench) => {
      for (const { lane, path = LANE_PATHS[lane], add, field } of VENDOR_TOOL_ATTACKS) {
        const status = await bench.status(path, { ...GOOD_BODIES[lane], ...add }, bearer(bench.lease(lane)));
        trial.expect(`${lane}: ${field} ${JSON.stringify(add).slice(0, 80)}`, status, /^40[03]$/);
      }
      for (const { lane, path, body } of SPELLINGS) {
        const status = await bench.status(path, body, bearer(bench.lease(lane)));
        trial.expect(`${lane}: ${JSON.stringify(body).slice(-100)}`, status, /^40[03]$/);
      }
    }),
  },
  {
    id: "gateway.disguised_bodies",
    promise: "What was checked is what goes out: no second reading of a body hides a tool in it",
    attacks: "Duplicate and escaped keys at any depth, gzip and zstd, trailing JSON, a byte order mark, UTF-16",
    run: onGateway(async (trial, bench) => {
      const headers = bearer(bench.lease("vendor_a"));
      const path = LANE_PATHS.vendor_a;
      for (const [body] of disguisedBodies()) {
        trial.expect(body.slice(0, 100), await bench.status(path, body, headers), /^40[03]$/);
      }
      const bad = JSON.stringify({ ...BODIES.messages, tools: [{ type: "web_fetch_20250910", name: "f" }] });
      const packed = { gzip: gzipSync(bad), zstd: zstdCompressSync(Buffer.from(bad)) };
      for (const [encoding, bytes] of Object.entries(packed)) {
        const body = new Blob([new Uint8Array(bytes)]);
        const status = await bench.status(path, body, { ...headers, "content-encoding": encoding });
        trial.expect(`a tool packed with ${encoding}`, status, 403);
      }
      for (const encoding of ["deflate", "br", "gzip, gzip", "x"]) {
        const status = await bench.status(path, bad, { ...headers, "content-encoding": encoding });
        trial.expect(`content-encoding: ${encoding}`, status, 415);
      }
      for (const body of ['{"model":"m"}{"model":"m"}', "\ufeff{}", "[]", '{"model":"m",}']) {
        trial.expect(JSON.stringify(body), await bench.status(path, body, headers), 400);
      }
      const utf16 = new Blob([new Uint8Array(Buffer.from('{"model":"m"}', "utf16le"))]);
      trial.expect("UTF-16", await bench.status(path, utf16, headers), 400);
    }),
  },
  {
    id: "gateway.smuggling",
    promise: "One request is one request: nothing rides inside another's body, and no protocol is changed",
    attacks: "Two lengths, a length beside chunks, odd codings, upgrades to WebSocket and HTTP/2",
    run: onGateway(async (trial, bench) => {
      const { token } = bench.lease("vendor_a");
      for (const request of smuggledRequests(token)) {
        trial.expect(request.split("\r\n").slice(4, 6).join(", "), await bench.rawStatus(request), "HTTP/1.1 400");
      }
      for (const protocol of ["websocket", "h2c"]) {
        const head = `GET /v1/messages HTTP/1.1\r\nhost: g\r\nx-api-key: ${token}\r\nconnection: Upgrade\r\n`;
        const socket = "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n";
        const status = await bench.rawStatus(`${head}upgrade: ${protocol}\r\n${socket}\r\n`);
        trial.expect(`upgrade: ${protocol}`, status, "HTTP/1.1 426");
      }
    }),
  },
  {
    id: "gateway.body_size",
    promise: "A body of more than 16 MiB is refused, packed or not, and what is packed is counted unpacked",
    attacks: "16 MiB + 1, and 16 MiB of one letter in a few KiB of gzip",
    run: onGateway(async (trial, bench) => {
      const headers = bearer(bench.lease("vendor_a"));
      const text = JSON.stringify({ ...BODIES.messages, metadata: { x: "" } });
      const long = text.replace('"x":""', `"x":"${"a".repeat(MAX_BODY_BYTES + 1 - text.length)}"`);
      trial.expect("16 MiB + 1", await bench.status(LANE_PATHS.vendor_a, long, headers), 413);
      const bomb = new Blob([new Uint8Array(gzipSync(long))]);
      const unpacked = await bench.status(LANE_PATHS.vendor_a, bomb, { ...headers, "content-encoding": "gzip" });
      trial.expect(`${bomb.size} bytes of gzip`, unpacked, 413);
    }),
  },
];
