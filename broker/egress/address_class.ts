/**
 * What an IP address is, from one table: what alone decides where the proxy may dial.
 *
 * An address that the table does not know is refused: of IPv6 only the global unicast block 2000::/3 is public, less
 * the ranges in it that are not. An address that carries an IPv4 address is never better than what it carries.
 */

/**
 * Ranges and what they are, the first match wins. Sources: the IANA special-purpose address registries (RFC 6890 and
 * its updates) and the cloud vendors' documentation of their metadata services.
 */
const RANGES = [
  // Metadata and credential services; some lie in ranges that are public otherwise.
  ["169.254.169.254/32", "metadata"], // AWS, Google, Azure, DigitalOcean, OpenStack and more
  ["169.254.169.253/32", "metadata"], // AWS resolver
  ["169.254.169.123/32", "metadata"], // AWS time
  ["169.254.170.2/32", "metadata"], // AWS ECS credentials
  ["169.254.170.23/32", "metadata"], // AWS EKS pod identity
  ["169.254.42.42/32", "metadata"], // Scaleway
  ["100.100.100.200/32", "metadata"], // Alibaba
  ["168.63.129.16/32", "metadata"], // Azure wire server
  ["192.0.0.192/32", "metadata"], // Oracle
  ["fd00:ec2::254/128", "metadata"], // AWS
  ["fd00:ec2::23/128", "metadata"], // AWS EKS pod identity
  ["fd20:ce::254/128", "metadata"], // Google
  ["fd00:42::42/128", "metadata"], // Scaleway
  // IPv4
  ["0.0.0.0/8", "unspecified"],
  ["10.0.0.0/8", "private"],
  ["100.64.0.0/10", "cgnat"],
  ["127.0.0.0/8", "loopback"],
  ["169.254.0.0/16", "link_local"],
  ["172.16.0.0/12", "private"],
  ["192.0.0.0/24", "reserved"],
  ["192.0.2.0/24", "documentation"],
  ["192.31.196.0/24", "reserved"],
  ["192.52.193.0/24", "reserved"],
  ["192.88.99.0/24", "6to4"],
  ["192.168.0.0/16", "private"],
  ["192.175.48.0/24", "reserved"],
  ["198.18.0.0/15", "benchmarking"],
  ["198.51.100.0/24", "documentation"],
  ["203.0.113.0/24", "documentation"],
  ["224.0.0.0/4", "multicast"],
  ["255.255.255.255/32", "broadcast"],
  ["240.0.0.0/4", "reserved"],
  ["0.0.0.0/0", "public"],
  // IPv6
  ["::/128", "unspecified"],
  ["::1/128", "loopback"],
  ["::ffff:0:0/96", "mapped"],
  ["::ffff:0:0:0/96", "mapped"],
  ["64:ff9b::/96", "nat64"],
  ["64:ff9b:1::/48", "nat64"],
  ["2001::/32", "teredo"],
  ["2001:2::/48", "benchmarking"],
  ["2001:db8::/32", "documentation"],
  ["2001::/23", "reserved"],
  ["2002::/16", "6to4"],
  ["2620:4f:8000::/48", "reserved"],
  ["3fff::/20", "documentation"],
  ["2000::/3", "public"],
  ["fc00::/7", "private"],
  ["fe80::/10", "link_local"],
  ["fec0::/10", "private"],
  ["ff00::/8", "multicast"],
  ["::/0", "reserved"],
] as const;

/** What an address is. Only `public` may be dialled. */
export type AddressClass = (typeof RANGES)[number][1] | "own" | "on_link" | "invalid";

const V4 = /^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}$/;

/**
 * The bytes of an address in its usual text form, four for IPv4 and sixteen for IPv6; undefined for anything else.
 *
 * Strict on purpose: no octal, hex or short IPv4, no brackets and no zone. Whatever else a system's library would take
 * is not an address here.
 */
export function parseAddress(text: string): Uint8Array | undefined {
  if (V4.test(text)) return Uint8Array.from(text.split("."), Number);
  if (!/^[0-9a-f:.]{2,45}$/i.test(text) || !text.includes(":")) return undefined;
  let whole = text;
  const dotted = /^(.*:)([\d.]+)$/.exec(text);
  if (dotted !== null && dotted[2]!.includes(".")) {
    if (!V4.test(dotted[2]!)) return undefined;
    const [a, b, c, d] = dotted[2]!.split(".").map(Number) as [number, number, number, number];
    whole = `${dotted[1]}${(a << 8 | b).toString(16)}:${(c << 8 | d).toString(16)}`;
  }
  const halves = whole.split("::");
  if (halves.length > 2) return undefined;
  const [head, tail] = halves.map((half) => half === "" ? [] : half.split(":")) as [string[], string[] | undefined];
  const known = head.length + (tail?.length ?? 0);
  if (tail === undefined ? known !== 8 : known > 7) return undefined;
  const groups = [...head, ...Array<string>(8 - known).fill("0"), ...tail ?? []];
  if (!groups.every((group) => /^[0-9a-f]{1,4}$/i.test(group))) return undefined;
  return Uint8Array.from(groups.flatMap((group) => [parseInt(group, 16) >> 8, parseInt(group, 16) & 0xff]));
}

/** The addresses that begin with the first `bits` of `bytes`. */
export interface Prefix {
  bytes: Uint8Array;
  bits: number;
}

const TABLE = RANGES.map(([cidr, is]) => ({ ...parsePrefix(cidr)!, is }));

/** A prefix as `address/bits`, or an address alone, which is a prefix of all its bits; undefined for anything else. */
export function parsePrefix(text: string): Prefix | undefined {
  const [address = "", bits, ...more] = text.split("/");
  const bytes = parseAddress(address);
  if (bytes === undefined || more.length > 0) return undefined;
  const most = bytes.length * 8;
  if (bits === undefined) return { bytes, bits: most };
  return /^\d{1,3}$/.test(bits) && Number(bits) <= most ? { bytes, bits: Number(bits) } : undefined;
}

function contains({ bytes, bits }: Prefix, address: Uint8Array): boolean {
  if (bytes.length !== address.length) return false;
  const whole = bits >> 3;
  for (let i = 0; i < whole; i++) if (bytes[i] !== address[i]) return false;
  const rest = bits & 7;
  return rest === 0 || bytes[whole]! >> (8 - rest) === address[whole]! >> (8 - rest);
}

/** One spelling per address, so that addresses can be compared as text; undefined for what is not one. */
export function canonicalAddress(text: string): string | undefined {
  const bytes = parseAddress(text);
  return bytes && [...bytes].join(".");
}

/**
 * NAT64's well-known prefix (RFC 6052) is what a network without IPv4 gives for every IPv4 host: it counts as the IPv4
 * address that it carries. The other ways of carrying one are refused, whatever they carry: no resolver answers with
 * them in good faith.
 *
 * @param text An address as a resolver gives it.
 * @param own Addresses of this host's interfaces, each with the length of its network's prefix: what listens on one was
 * never meant for sandboxes, nor what stands on a network beside it, be the address public or not.
 */
export function classifyAddress(text: string, own: readonly Prefix[] = []): AddressClass {
  const bytes = parseAddress(text);
  if (bytes === undefined) return "invalid";
  if (own.some((prefix) => contains({ ...prefix, bits: prefix.bytes.length * 8 }, bytes))) return "own";
  const range = TABLE.find((range) => contains(range, bytes))!;
  if (range.is === "nat64" && range.bits === 96) {
    const carried = classifyAddress([...bytes.subarray(12)].join("."), own);
    return ["public", "own", "on_link", "metadata"].includes(carried) ? carried : "nat64";
  }
  return range.is === "public" && own.some((prefix) => contains(prefix, bytes)) ? "on_link" : range.is;
}
