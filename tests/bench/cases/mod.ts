/**
 * The cases by parts, in the order they run and are shown.
 */

import type { BenchCase, BenchPart } from "../bench.ts";
import { bubblewrap } from "./broker_bubblewrap.ts";
import { gateway } from "./broker_gateway.ts";
import { api } from "./broker_http.ts";
import { proxy } from "./broker_proxy.ts";
import { sandbox } from "./broker_sandbox.ts";
import { stats } from "./broker_stats.ts";
import { beside } from "./beside.ts";
import { bucket } from "./bucket.ts";
import { capture, commits } from "./capture.ts";
import { checkout } from "./checkout.ts";
import { idle, startup } from "./daemon.ts";
import { fork } from "./fork.ts";
import { garbage } from "./garbage.ts";
import { litestream } from "./litestream.ts";
import { merge } from "./merge.ts";
import { events, sessions } from "./serving.ts";
import { flush, open } from "./session.ts";
import { stored } from "./stored.ts";

const STORE_CASES: readonly BenchCase[] = [
  fork,
  checkout,
  open,
  flush,
  capture,
  commits,
  beside,
  stored,
  bucket,
  idle,
  sessions,
  events,
  garbage,
  startup,
];

const BROKER_CASES: readonly BenchCase[] = [gateway, proxy, sandbox, bubblewrap, stats, api];

/** Every part. */
export const PARTS: readonly BenchPart[] = [
  {
    name: "store",
    title: "Branch store",
    method: [
      "The database is the shop of `cli/demo/shop.ts`: customers, orders, reviews with full-text search and click trails, the same bytes from the same seed.",
      "Engine calls are timed inside one process. `cp` and `sqlite3` are timed as the programs a person runs, start included (about a millisecond); they are not " +
      "asked to make their copy durable, while every write of the store is.",
      "xfs is made in an image file on the other file system and shares blocks; ext4 cannot.",
    ],
    cases: STORE_CASES,
  },
  {
    name: "peer",
    title: "Branch store beside litestream and sqldiff",
    method: [
      "What stands beside the other works on databases of the same bytes, in turns, in one run.",
    ],
    cases: [litestream, merge],
  },
  {
    name: "broker",
    title: "Task broker",
    method: [
      "Clients, the broker's parts and what they speak to run on one machine and share its processors; a figure of a part is what it adds, " +
      "so everything stands beside the same thing done without the broker.",
      "Models are servers of the benchmark's own: no figure has a vendor's thinking in it.",
    ],
    cases: BROKER_CASES,
  },
];

/** Every case. */
export const CASES: readonly BenchCase[] = PARTS.flatMap(({ cases }) => cases);
