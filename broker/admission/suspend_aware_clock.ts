/**
 * A clock for windows of hours and days: it cannot be set, and goes on while the machine
 * sleeps, which the runtime's monotonic clock does not on Linux and macOS.
 */

import { type Clock, systemClock } from "../../lib/clock.ts";

/** The uptime comes in whole seconds: a smaller difference does not mean that the machine slept. */
const COARSE_MS = 2_000;

/**
 * Milliseconds of the clock's monotonic time and, where the system's clock is used and `--allow-sys=osUptime` lets it be
 * asked, of the time that the machine slept, rather too short than too long: ages never run ahead.
 *
 * @param uptime Seconds since the machine started, sleep included.
 */
export function suspendAwareClock(clock: Clock, uptime: () => number = () => Deno.osUptime()): () => number {
  const awake = () => clock.monotonic();
  return clock === systemClock ? withSleep(awake, uptime) : awake;
}

/** As {@linkcode suspendAwareClock} of a clock that does not count sleep. */
export function withSleep(awake: () => number, uptime: () => number): () => number {
  const ahead = () => uptime() * 1_000 - awake();
  let at_start: number;
  try {
    at_start = ahead();
  } catch (error) {
    if (error instanceof Deno.errors.NotCapable) return awake;
    throw error;
  }
  let slept_ms = 0;
  return () => {
    const gap_ms = ahead() - at_start;
    if (gap_ms - slept_ms >= COARSE_MS) slept_ms = gap_ms - COARSE_MS / 2;
    return awake() + slept_ms;
  };
}
