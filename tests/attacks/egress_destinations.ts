/** Promises of the egress proxy about where a sandbox may go: names, ports, addresses, credentials. */

import { parsePrefix } from "../../broker/egress/address_class.ts";
import type { TaskEgress } from "../../broker/egress/proxy.ts";
import { ProxyBench } from "./_proxy_bench.ts";
import {
  ADDRESS_LITERALS,
  BROKEN_TARGETS,
  INWARD_NAMES,
  LOOKALIKE_NAMES,
  OTHER_PORTS,
  wrongCredentials,
} from "./inputs/egress.ts";
import type { Trial } from "../../cli/redteam/security_promise.ts";
import { Server } from "./raw_connections.ts";
import type { CommonPromise } from "./context.ts";

const LIST = { "example.com": [443], "*.wild.example": [443] };
/** More names below one wildcard than a task may use. */
const MANY_NAMES = 520;

/** Attacks on a proxy, for which nothing may be looked up or dialled, while what is listed can be reached. */
function onProxy(attack: (trial: Trial, bench: ProxyBench, task: TaskEgress) => Promise<void>): CommonPromise["run"] {
  return async (trial, context) => {
    await using server = Server.echo();
    await using bench = await ProxyBench.start(context, { list: LIST, ports: { 443: server.port } });
    await attack(trial, bench, bench.admit());
    trial.none("DNS queries of refused requests", bench.lookups);
    trial.none("connections of refused requests", bench.dialled);
    trial.controlEquals("a listed host", await bench.connect("example.com:443", bench.admit("control")), 200);
  };
}

export const EGRESS_PROMISES: readonly CommonPromise[] = [
  {
    id: "egress.unlisted_names",
    promise: "A name that is not on the list is refused, and no DNS query is made for it",
    attacks: "Look-alikes of listed names, names below and above them, long labels that carry data",
    run: onProxy(async (trial, bench, task) => {
      for (const host of LOOKALIKE_NAMES) {
        trial.expect(`CONNECT ${host}:443`, await bench.connect(`${host}:443`, task), "403 not_listed");
        trial.expect(`GET http://${host}/`, await bench.get(`http://${host}/`, host, task), "403 not_listed");
      }
    }),
  },
  {
    id: "egress.other_ports",
    promise: "A host is reached on the ports that are listed for it and on no others",
    attacks: `Ports ${OTHER_PORTS.join(", ")} of a host that is listed with 443`,
    run: onProxy(async (trial, bench, task) => {
      for (const port of OTHER_PORTS) {
        const target = `example.com:${port}`;
        trial.expect(`CONNECT ${target}`, await bench.connect(target, task), "403 port_not_listed");
      }
    }),
  },
  {
    id: "egress.address_literals",
    promise: "No address can be asked for, in any notation",
    attacks: "IPv4 in decimal, octal, hex and shortened form, IPv6, mapped and NAT64 addresses, metadata services",
    run: onProxy(async (trial, bench, task) => {
      for (const target of ADDRESS_LITERALS) {
        trial.expect(`CONNECT ${target}`, await bench.connect(target, task), "403 address_literal");
        trial.expect(`GET http://${target}/`, await bench.get(`http://${target}/`, target, task), /^403/);
      }
    }),
  },
  {
    id: "egress.ambiguous_targets",
    promise: "A target that two programs could read in two ways is refused",
    attacks: "User names, percent escapes, NUL, wildcards, doubled dots, odd ports, names that are too long",
    run: onProxy(async (trial, bench, task) => {
      for (const target of BROKEN_TARGETS) {
        const verdict = await bench.connect(target, task);
        trial.expect(`CONNECT ${target.slice(0, 60)}`, verdict, /^40[03] (bad_target|address_literal)$/);
      }
    }),
  },
  {
    id: "egress.inward_addresses",
    promise:
      "A listed name that resolves to an address that is not public, or is this host's or on its networks, is never dialled",
    attacks: "Loopback, the local network, a sibling, metadata services, CGNAT, mapped, NAT64, 6to4, Teredo; among " +
      "public ones too; every address of this host's interfaces",
    async run(trial, context) {
      await using server = Server.echo();
      const own = Deno.networkInterfaces().map(({ address }) => address).filter((address) => address !== "127.0.0.1");
      const list = Object.fromEntries([...Object.keys(INWARD_NAMES), "self.example"].map((name) => [name, [80, 443]]));
      const refuse = () => Promise.reject(new Deno.errors.ConnectionRefused());
      await using listed = await ProxyBench.start(context, {
        list,
        names: INWARD_NAMES,
        own_addresses: () => ["8.8.4.4", "51.15.3.9/20"],
        connect: refuse,
      });
      const task = listed.admit();
      for (const [name, addresses] of Object.entries(INWARD_NAMES)) {
        const what = `${name} at ${addresses.join(", ")}`;
        trial.expect(what, await listed.connect(`${name}:443`, task), "403 address_refused");
      }
      // The addresses that the host really has.
      await using bench = await ProxyBench.start(context, {
        list: { ...LIST, "self.example": [443] },
        names: { "self.example": own },
        ports: { 443: server.port },
      });
      if (own.length > 0) {
        const verdict = await bench.connect("self.example:443", bench.admit());
        trial.expect(`this host at ${own.join(", ")}`, verdict, "403 address_refused");
      }
      trial.none("connections to such addresses", [...listed.dialled, ...bench.dialled]);
      trial.controlEquals("a listed host", await bench.connect("example.com:443", bench.admit("control")), 200);
    },
  },
  {
    id: "egress.address_classes",
    promise: "Every address by which a cloud, a network or a host is reached from within is known as such",
    attacks: "First and last addresses of the ranges, metadata services of the clouds, addresses inside addresses",
    run(trial, { surfaces }) {
      for (const address of Object.values(INWARD_NAMES).flat()) {
        if (["8.8.4.4", "8.8.8.8", "51.15.9.9", "2606:4700::1111"].includes(address)) continue;
        trial.attempt(address, surfaces.classifyAddress(address) !== "public", "counts as public");
      }
      const own = surfaces.classifyAddress("8.8.4.4", [parsePrefix("8.8.4.4")!]);
      trial.attempt("an address of the host's own", own !== "public", "counts as public");
      const beside = surfaces.classifyAddress("51.15.9.9", [parsePrefix("51.15.3.9/20")!]);
      trial.attempt("an address on a network of the host's", beside !== "public", "counts as public");
      for (const address of ["1.1.1.1", "8.8.8.8", "2606:4700:4700::1111"]) {
        trial.control(address, surfaces.classifyAddress(address) === "public", "it is not public");
      }
    },
  },
  {
    id: "egress.rebinding",
    promise: "The address that was checked is the one that is dialled: a name that changes gains nothing",
    attacks: "A name that is public on the first lookup and a metadata service on the second",
    async run(trial, context) {
      await using server = Server.echo();
      let answers = 0;
      await using bench = await ProxyBench.start(context, {
        list: { "rebind.example": [443] },
        names: { "rebind.example": () => answers++ === 0 ? ["8.8.8.8"] : ["169.254.169.254"] },
        // Nothing leaves the machine: what would be dialled is noted, and loopback dialled in its place.
        connect: () => Deno.connect({ hostname: "127.0.0.1", port: server.port }),
      });
      const task = bench.admit();
      trial.controlEquals("the name while it is public", await bench.connect("rebind.example:443", task), 200);
      trial.attempt("a second lookup for one connection", bench.lookups.length === 1, `${bench.lookups.length}`);
      const changed = await bench.connect("rebind.example:443", task);
      trial.expect("the name once it has changed", changed, "403 address_refused");
      trial.expect("addresses that were dialled", bench.dialled.join(", "), "8.8.8.8");
    },
  },
  {
    id: "egress.credentials",
    promise: "Without the credentials of a running task nothing is decided and nothing is looked up",
    attacks: "None, wrong ones, another task's, an ended task's, two at once, another task's on a used connection",
    run: onProxy(async (trial, bench) => {
      const [task, other, ended] = [bench.admit("one"), bench.admit("two"), bench.admit("three")];
      ended.end();
      for (const field of wrongCredentials(task, other)) {
        const { status } = await bench.ask(`CONNECT example.com:443 HTTP/1.1\r\n${field}\r\n\r\n`);
        trial.expect(field.replaceAll(/[0-9a-f]{16,}/gi, "..."), status, 407);
      }
      trial.expect("an ended task's", await bench.connect("example.com:443", ended), "407 credentials_wrong");
      await using client = await bench.client();
      const refused = "CONNECT evil.com:443 HTTP/1.1\r\nHost: evil.com:443\r\n";
      await client.send(`${refused}Proxy-Authorization: Basic ${btoa(`one:${task.password}`)}\r\n\r\n`);
      await client.response();
      await client.send(`${refused}Proxy-Authorization: Basic ${btoa(`two:${other.password}`)}\r\n\r\n`);
      const { status } = await client.response().catch(() => ({ status: 0 }));
      trial.expect("another task's on the connection of the first", status, /^(407|0)$/);
    }),
  },
  {
    id: "egress.names_below_wildcards",
    promise: "Names below a wildcard cannot carry data out without end",
    attacks: `${MANY_NAMES} made-up names below one wildcard`,
    async run(trial, context) {
      await using bench = await ProxyBench.start(context, {
        list: LIST,
        connect: () => Promise.reject(new Deno.errors.ConnectionRefused()),
      });
      const task = bench.admit();
      let refused = 0;
      for (let at = 0; at < MANY_NAMES; at++) {
        if (await bench.connect(`chunk-${at}.wild.example:443`, task) === "403 too_many_names") refused++;
      }
      trial.attempt(`${MANY_NAMES} names`, refused > 0, "none was refused");
      trial.control("a name below the wildcard", bench.lookups.length > 0);
    },
  },
];
