/**
 * A clock for windows of hours and days: nobody sets it, and it goes on while the machine
 * sleeps, which the runtime's monotonic clock does not on Linux and macOS.
 *
 * @module
 */

import { type Clock, systemClock } from "../../lib/clock.ts";

/**
 * Milliseconds since the machine started, to the second, where the system's clock is used and `--allow-sys=osUptime` lets
 * them be asked; otherwise the clock's monotonic time.
 */
export function steadyTime(clock: Clock): () => number {
  if (clock !== systemClock) return () => clock.monotonic();
  try {
    Deno.osUptime();
  } catch (error) {
    if (error instanceof Deno.errors.NotCapable) return () => clock.monotonic();
    throw error;
  }
  return () => Deno.osUptime() * 1_000;
}
