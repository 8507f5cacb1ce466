import { assertEquals } from "@std/assert";
import fc from "../../tests/packages/fast_check.ts";
import { type AddressClass, canonicalAddress, classifyAddress, parseAddress, parsePrefix } from "./address_class.ts";

/** Every range by its first, its last and a middle address, and the public neighbours on both sides. */
const TABLE: Record<AddressClass, string[]> = {
  public: [
    "1.0.0.0",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "168.63.129.15",
    "168.63.129.17",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.0",
    "192.0.3.0",
    "192.88.98.255",
    "192.88.100.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "198.51.99.255",
    "198.51.101.0",
    "203.0.112.255",
    "203.0.114.0",
    "223.255.255.255",
    "2000::",
    "2001:200::1",
    "2001:db7:ffff::1",
    "2001:db9::1",
    "2003::1",
    "2606:4700:4700::1111",
    "2A00:1450:4001:81b::200e",
    "3fff:1000::1",
    "3fff:ffff:ffff::1",
    "64:ff9b::8.8.8.8",
    "64:ff9b::808:808",
  ],
  unspecified: ["0.0.0.0", "0.1.2.3", "0.255.255.255", "::"],
  private: [
    "10.0.0.0",
    "10.255.255.255",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.0",
    "192.168.66.1",
    "192.168.66.7",
    "192.168.255.255",
    "fc00::1",
    "fd12:3456::1",
    "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    "fec0::1",
    "feff::1",
  ],
  loopback: ["127.0.0.1", "127.1.2.3", "127.255.255.255", "::1", "0:0:0:0:0:0:0:1"],
  link_local: ["169.254.0.0", "169.254.255.255", "fe80::1", "febf::1"],
  cgnat: ["100.64.0.0", "100.127.255.255"],
  multicast: ["224.0.0.1", "239.255.255.255", "ff02::1", "ff0e::1"],
  broadcast: ["255.255.255.255"],
  metadata: [
    "169.254.169.254",
    "169.254.169.253",
    "169.254.169.123",
    "169.254.170.2",
    "169.254.170.23",
    "169.254.42.42",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "fd20:ce::254",
    "fd00:42::42",
    "64:ff9b::169.254.169.254",
  ],
  documentation: ["192.0.2.1", "198.51.100.1", "203.0.113.80", "2001:db8::1", "3fff::1", "3fff:fff:ffff::1"],
  benchmarking: ["198.18.0.0", "198.19.255.255", "2001:2::1"],
  reserved: [
    "192.0.0.1",
    "192.31.196.1",
    "192.52.193.1",
    "192.175.48.1",
    "240.0.0.0",
    "255.255.255.254",
    "::127.0.0.1",
    "::8.8.8.8",
    "100::1",
    "1fff:ffff::1",
    "2001:1::1",
    "2001:20::1",
    "2001:1ff:ffff::1",
    "2620:4f:8000::1",
    "4000::1",
    "5f00::1",
    "e000::1",
    "fe00::1",
  ],
  mapped: [
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",
    "::ffff:7f00:1",
    "0:0:0:0:0:FFFF:169.254.169.254",
    "::ffff:0:127.0.0.1",
  ],
  nat64: ["64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::192.0.2.1", "64:ff9b:1::1", "64:ff9b:1:ffff::8.8.8.8"],
  "6to4": ["192.88.99.1", "2002:7f00:1::1", "2002:808:808::1"],
  teredo: ["2001::1", "2001:0:4136:e378::1"],
  on_link: ["51.15.0.0", "51.15.15.255", "2606:4700::78", "2606:4700::ffff:ffff:ffff:ffff", "64:ff9b::51.15.1.1"],
  own: ["8.8.4.4", "2606:4700::77", "10.9.9.9", "64:ff9b::8.8.4.4"],
  invalid: [
    "",
    "localhost",
    "2130706433",
    "0177.0.0.1",
    "010.0.0.1",
    "0x7f.0.0.1",
    "127.1",
    "1.2.3",
    "1.2.3.4.",
    "1.2.3.4.5",
    "256.1.1.1",
    " 8.8.8.8",
    "8.8.8.8 ",
    "8.8.8.8\n",
    "[::1]",
    "fe80::1%eth0",
    ":",
    ":::",
    "1::2::3",
    "::12345",
    "1:2:3:4:5:6:7",
    "1:2:3:4:5:6:7:8:9",
    "1:2:3:4:5:6:7::8",
    "::1.2.3",
    "::1.2.3.256",
    "::g",
  ],
};

const OWN = ["8.8.4.4", "2606:4700::77/64", "10.9.9.9/8", "51.15.3.9/20"].map((text) => parsePrefix(text)!);

for (const [is, addresses] of Object.entries(TABLE)) {
  Deno.test(`classifyAddress() knows what is ${is}`, () => {
    const found = addresses.map((address) => `${address} is ${classifyAddress(address, OWN)}`);
    assertEquals(found, addresses.map((address) => `${address} is ${is}`));
  });
}

Deno.test("parsePrefix() takes an address alone or with the length of its prefix, and nothing else", () => {
  assertEquals(parsePrefix("10.1.2.3/8"), { bytes: Uint8Array.of(10, 1, 2, 3), bits: 8 });
  assertEquals([parsePrefix("10.1.2.3")?.bits, parsePrefix("::1")?.bits, parsePrefix("::1/0")?.bits], [32, 128, 0]);
  const refused = [
    "",
    "/8",
    "10.1.2.3/",
    "10.1.2.3/33",
    "::1/129",
    "10.1.2.3/8/8",
    "10.1.2.3/-1",
    "10.1.2.3/ 8",
    "x/8",
  ];
  assertEquals(refused.filter((text) => parsePrefix(text) !== undefined), []);
});

Deno.test("canonicalAddress() has one spelling for each address", () => {
  assertEquals(canonicalAddress("2001:DB8::1"), canonicalAddress("2001:0db8:0:0:0:0:0.0.0.1"));
  assertEquals(canonicalAddress("1.2.3.4"), "1.2.3.4");
  assertEquals(canonicalAddress("01.2.3.4"), undefined);
});

Deno.test("parseAddress() reads back every address that is written as eight groups", () => {
  fc.assert(fc.property(fc.uint8Array({ minLength: 16, maxLength: 16 }), (bytes) => {
    const groups = Array.from({ length: 8 }, (_, i) => (bytes[2 * i]! << 8 | bytes[2 * i + 1]!).toString(16));
    assertEquals(parseAddress(groups.join(":")), bytes);
  }));
  fc.assert(fc.property(fc.ipV6(), (text) => parseAddress(text)?.length === 16));
  fc.assert(fc.property(fc.ipV4(), (text) => parseAddress(text)?.length === 4));
});

Deno.test("classifyAddress() takes any text, and calls nothing public that is not an address", () => {
  fc.assert(fc.property(fc.string(), (text) => {
    const is = classifyAddress(text);
    assertEquals(is === "invalid", parseAddress(text) === undefined);
  }));
});
