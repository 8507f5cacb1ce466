/** What is thrown at the broker's listeners; `taskd redteam` and the listeners' own tests share it. */

import { words } from "./_words.ts";

/** Names of hosts that a rebound or a careless page would send. */
export function strangeHosts(port: number): readonly string[] {
  const names = words(
    "evil.example localhost.evil.example 127.0.0.1.evil.example 127.0.0.2 0.0.0.0 localhost. user@127.0.0.1",
  );
  return [
    ...names.map((name) => `${name}:${port}`),
    "evil.example",
    `127.0.0.1:${port + 1}`,
    "127.0.0.1",
    `127.0.0.1:${port}, evil.example`,
    "",
  ];
}

/** Origins that are not the listener's own. */
export function strangeOrigins(port: number): readonly string[] {
  return [
    "http://evil.example",
    "null",
    `https://127.0.0.1:${port}`,
    `http://127.0.0.1:${port + 1}`,
    `http://localhost:${port}`,
    "http://127.0.0.1",
    "",
  ];
}

/** What stands in the place of the pages' token. */
export function wrongBearers(token: string): readonly (string | undefined)[] {
  return [
    undefined,
    "",
    "Bearer",
    "Bearer ",
    token,
    `Basic ${btoa(`x:${token}`)}`,
    `Bearer ${token}x`,
    `Bearer x${token}`,
    `Bearer ${token.slice(0, -1)}`,
    `Bearer ${token.toUpperCase()}`,
    `Bearer ${token} ${token}`,
    `Bearer "${token}"`,
    `Bearer ${"0".repeat(64)}`,
  ];
}

/** Hosts that are no peers of this machine, as a socket names them. */
export const REMOTE_PEERS: readonly string[] = words(
  "192.168.66.2 10.0.0.1 ::ffff:10.0.0.1 fe80::1 128.0.0.1 0.0.0.0 :: localhost",
);

/** Headers by which a proxy names its client. */
export const FORWARDING_FIELDS: readonly string[] = words(
  "forwarded x-forwarded-for via x-real-ip x-forwarded-host x-forwarded-proto x-forwarded-port x-forwarded-server X-Client-IP",
);
