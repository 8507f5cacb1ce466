/**
 * CONNECT: a tunnel to a listed host, opened for the protocol that its port is for.
 *
 * - 443: TLS only, and its ClientHello must name the host; not a byte goes on before.
 * - 80: HTTP/1 only, every request in the tunnel is checked like one outside.
 * - Other ports, which the operator listed on purpose: what begins as TLS must name the host, all else passes.
 */

import { checkHost, servePlain } from "./_plain_http.ts";
import type { Attempt, Session } from "./_session.ts";
import type { BufferedConnection } from "./_buffered_connection.ts";
import { readClientHello } from "./client_hello.ts";
import { canonicalHost, type EgressTarget, parseAuthority } from "./host_name.ts";
import { requestFraming, type RequestHead } from "./http_head.ts";
import { Refused } from "./reasons.ts";

const ESTABLISHED = new TextEncoder().encode("HTTP/1.1 200 Connection established\r\n\r\n");

export type ServeRequests = (serve: (attempt: Attempt, head: RequestHead) => Promise<boolean>) => Promise<void>;

/** Serves a CONNECT until its tunnel ends; `serveRequests` serves the plain requests in a tunnel to port 80. */
export async function serveConnect(
  session: Session,
  attempt: Attempt,
  head: RequestHead,
  serveRequests: ServeRequests,
): Promise<void> {
  const target = parseAuthority(head.target);
  if (typeof target !== "string") attempt.target = target;
  session.authenticate(head);
  if (typeof target === "string") throw new Refused(target);
  const framing = requestFraming(head);
  if (framing.by === "chunks" || framing.by === "length" && framing.bytes > 0) throw new Refused("smuggling");
  // Some clients leave the port out of a CONNECT's Host: it counts as the target's.
  checkHost(head, target, target.port);
  session.authorise(attempt, target);
  const addresses = await session.resolve(target);
  if (target.port === 80) return await servePlainTunnel(session, attempt, target, addresses, serveRequests);
  const upstream = await session.dial(attempt, target, addresses);
  session.deadline.setIdle(session.deps.timeouts.hello_ms, () => session.close());
  await session.client.write(ESTABLISHED);
  attempt.established = true;
  if (target.port === 443) {
    await checkHello(session, target, true);
    await tunnel(session, attempt, upstream);
  } else {
    await tunnel(session, attempt, upstream, () => checkHello(session, target, false));
  }
}

async function servePlainTunnel(
  session: Session,
  attempt: Attempt,
  target: EgressTarget,
  addresses: string[],
  serveRequests: ServeRequests,
): Promise<void> {
  const decision = session.record(attempt, 200);
  await session.client.write(ESTABLISHED);
  session.log(attempt, decision);
  await serveRequests((inner, head) =>
    servePlain(session, inner, head, { target, addresses, granted: attempt.granted })
  );
}

/** Reads and checks the client's first bytes, which stay in its buffer. With `required` they must be TLS. */
async function checkHello(session: Session, target: EgressTarget, required: boolean): Promise<void> {
  const { client, deadline, deps } = session;
  let late = false;
  const bound = () =>
    deadline.set(deps.timeouts.hello_ms, () => {
      late = true;
      client.close();
    });
  try {
    if (required) bound();
    // Nothing at all may come for long where the server speaks first; a client that goes without a word is no offence.
    if (client.buffered.length === 0 && !await client.fill()) return;
    if (!required) bound();
    let verdict = readClientHello(client.buffered);
    while (verdict.is === "incomplete") {
      while (client.buffered.length < verdict.needs) {
        if (!await client.fill()) throw new Refused("hello_malformed", "ended early");
      }
      verdict = readClientHello(client.buffered);
    }
    if (verdict.is === "not_tls") {
      if (required) throw new Refused("tls_expected");
      return;
    }
    if (verdict.is === "malformed") throw new Refused("hello_malformed");
    const name = verdict.server_name;
    if (name === undefined) throw new Refused("sni_absent");
    if (name.toLowerCase() !== target.host) {
      const other = canonicalHost(name);
      throw new Refused("sni_mismatch", typeof other === "string" ? undefined : other.host);
    }
  } catch (error) {
    throw late ? new Refused("hello_timeout") : error;
  }
}

/**
 * Passes both ways until both have ended. Each direction ends on its own: a client that has sent everything
 * still gets its answer. `check` runs before the client's bytes pass, while the host's pass already.
 */
async function tunnel(
  session: Session,
  attempt: Attempt,
  upstream: BufferedConnection,
  check?: () => Promise<void>,
): Promise<void> {
  const { client, deadline, deps } = session;
  let decision = session.record(attempt, 200);
  const wait = () => deadline.setIdle(deps.timeouts.tunnel_ms, () => session.close());
  const up = async () => {
    await check?.();
    wait();
    await client.passAll(upstream);
    await upstream.endWrite();
  };
  const down = async () => {
    await upstream.passAll(client);
    await client.endWrite();
  };
  wait();
  await Promise.all([up, down].map((way) =>
    way().catch((error: unknown) => {
      // A side that is gone ends both: no answer can be sent.
      if (error instanceof Refused) decision = session.record(attempt, error);
      session.close();
    })
  ));
  session.close();
  session.log(attempt, decision);
}
