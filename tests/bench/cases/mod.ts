/**
 * The cases, in the order they run and are shown.
 *
 * @module
 */

import type { BenchCase } from "../bench.ts";
import { bucket } from "./bucket.ts";
import { capture, commits } from "./capture.ts";
import { checkout } from "./checkout.ts";
import { idle, startup } from "./daemon.ts";
import { fork } from "./fork.ts";
import { garbage } from "./garbage.ts";
import { gateway } from "./gateway.ts";
import { events, sessions } from "./serving.ts";
import { flush, open } from "./session.ts";
import { stored } from "./stored.ts";

/** Every case. */
export const CASES: readonly BenchCase[] = [
  fork,
  checkout,
  open,
  flush,
  capture,
  commits,
  stored,
  bucket,
  idle,
  sessions,
  events,
  garbage,
  startup,
  gateway,
];
