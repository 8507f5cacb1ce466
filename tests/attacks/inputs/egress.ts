/** What is thrown at the egress proxy; `taskd redteam` and the proxy's own tests share it. */

import { words } from "./_words.ts";

/** Names that are not `example.com` and not below `wild.example`, though they look like it. */
export const LOOKALIKE_NAMES: readonly string[] = [
  ...words("evil.com evilexample.com www.example.com example.com.evil.com wild.example evilwild.example"),
  `${"a".repeat(63)}.${"b".repeat(63)}.${"c".repeat(63)}.evil.com`,
];

export const OTHER_PORTS: readonly number[] = [22, 25, 80, 442, 8443];

/** Addresses in every notation, with a port. */
export const ADDRESS_LITERALS: readonly string[] = words(`
  127.0.0.1:443 2130706433:443 0177.0.0.1:443 017700000001:443 0x7f.1:443 0x7f000001:443 127.1:443 169.254.169.254:443
  192.168.66.1:8088 [::1]:443 [::ffff:127.0.0.1]:443 [64:ff9b::7f00:1]:443 [fe80::1%25eth0]:443 ::1:443
`);

/** Targets that two parsers could read in two ways, near `example.com` and `*.wild.example`. */
export const BROKEN_TARGETS: readonly string[] = [
  ...words(`
    user@example.com:443 user:pass@example.com:443 evil.com@example.com:443 example.com:443@evil.com:443
    example.com%00.evil.com:443 ex%61mple.com:443 example.com%2eevil.com:443 *.wild.example:443 example..com:443
    .example.com:443 example.com..:443 example.com example.com: example.com:0443 example.com:70000
    http://example.com:443 /example.com:443
  `),
  `${"a".repeat(64)}.wild.example:443`,
  `${"a.".repeat(130)}wild.example:443`,
];

/** A name for each kind of address that is refused; `own.example` is this host's as the resolver says. */
export const INWARD_NAMES: Readonly<Record<string, string[]>> = {
  "loopback.example": ["127.0.0.2"],
  "loopback6.example": ["::1"],
  "lan.example": ["10.1.2.3"],
  "router.example": ["192.168.1.1"],
  "gateway.example": ["192.168.66.1"],
  "sibling.example": ["192.168.66.7"],
  "metadata.example": ["169.254.169.254"],
  "metadata6.example": ["fd00:ec2::254"],
  "azure.example": ["168.63.129.16"],
  "cgnat.example": ["100.64.0.1"],
  "linklocal.example": ["fe80::1"],
  "zone.example": ["fe80::1%2"],
  "mapped.example": ["::ffff:169.254.169.254"],
  "nat64.example": ["64:ff9b::a9fe:a9fe"],
  "sixtofour.example": ["2002:7f00:1::1"],
  "teredo.example": ["2001:0:53aa:64c:0:fffe:80ff:fffe"],
  "unspecified.example": ["0.0.0.0"],
  "multicast.example": ["224.0.0.251"],
  "broadcast.example": ["255.255.255.255"],
  "own.example": ["8.8.4.4"],
  "neighbour.example": ["51.15.9.9"],
  "mixed.example": ["8.8.8.8", "10.0.0.1"],
  "mixed6.example": ["2606:4700::1111", "::1"],
  "nonsense.example": ["not an address"],
};

/** Server names that a client may claim towards `allowed.example`. */
export const OTHER_SERVER_NAMES: readonly string[] = words(
  "other.example evil.com www.allowed.example allowed.example.evil.com",
);

/** First bytes on port 443 that are no ClientHello. */
export const NO_HELLOS: readonly string[] = [
  "GET / HTTP/1.1\r\nHost: allowed.example\r\n\r\n",
  "SSH-2.0-x\r\n",
  "\0",
  "\x80\x2e\x01\x03",
];

/** First bytes that begin as TLS and go wrong. */
export const BROKEN_HELLOS: readonly string[] = [
  "\x16\x03\x01\xff\xff",
  "\x16\x03\x01\x00\x00",
  "\x16\x03\x01\x00\x04\x02\0\0\0",
  "\x16\x03\x01\x00\x01\x01" + "\x16\x03\x01\x00\x01\x00".repeat(8_000),
];

/** Fields of a POST that two parsers would frame in two ways. */
export const SMUGGLING_FIELDS: readonly (readonly string[])[] = [
  ["Content-Length: 6", "Transfer-Encoding: chunked"],
  ["Transfer-Encoding: chunked", "Transfer-Encoding: identity"],
  ["Transfer-Encoding: chunked, chunked"],
  ["Transfer-Encoding : chunked"],
  ["Transfer-Encoding:\x0bchunked"],
  ["Content-Length: 5", "Content-Length: 6"],
  ["Content-Length: 5,6"],
  ["Content-Length: +5"],
  ["X: y\nTransfer-Encoding: chunked"],
  ["X: y", " folded"],
  ["Connection: Content-Length", "Content-Length: 5"],
];

interface Credentials {
  username: string;
  password: string;
}

/** Fields in the place of a task's own credentials. */
export function wrongCredentials(task: Credentials, other: Credentials): readonly string[] {
  const basic = (text: string) => `Proxy-Authorization: Basic ${btoa(text)}`;
  const own = basic(`${task.username}:${task.password}`);
  return [
    "X: y",
    "Authorization: Basic eDp5",
    basic(`${task.username}:`),
    basic(`${task.username}:${other.password}`),
    basic(`${other.username}:${task.password}`),
    basic(`stranger:${task.password}`),
    basic(`:${task.password}`),
    basic(task.password),
    basic(`${task.username}:${task.password} `),
    basic(`${task.username}:${task.password.toUpperCase()}`),
    `Proxy-Authorization: Bearer ${task.password}`,
    "Proxy-Authorization: Basic ***",
    `${own}\r\n${own}`,
  ];
}
