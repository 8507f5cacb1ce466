/**
 * Cost per day, as a row of bars.
 */

import { el, type PageElement, svg } from "./dom.ts";
import { dollars } from "./format.ts";

export const DAYS = 30;
const BAR_PX = 8;
const GAP_PX = 3;
const HEIGHT_PX = 48;
const DAY_MS = 86_400_000;

/** A day and what was spent on tasks that began on it. */
export interface Day {
  /** `2026-01-31`, in UTC. */
  date: string;
  usd: number;
}

/** The last days up to `now_ms`, oldest first. */
export function perDay(
  tasks: readonly { created_at: string; live?: { usd: number }; spend?: { usd: number } }[],
  now_ms: number,
): Day[] {
  const days = Array.from({ length: DAYS }, (_, index) => ({
    date: new Date(now_ms - (DAYS - 1 - index) * DAY_MS).toISOString().slice(0, 10),
    usd: 0,
  }));
  const by_date = new Map(days.map((day) => [day.date, day]));
  for (const { created_at, live, spend } of tasks) {
    const day = by_date.get(created_at.slice(0, 10));
    if (day !== undefined) day.usd += (live ?? spend)?.usd ?? 0;
  }
  return days;
}

export function sparkline(days: readonly Day[]): PageElement {
  const highest = Math.max(...days.map(({ usd }) => usd), Number.MIN_VALUE);
  const width = days.length * (BAR_PX + GAP_PX) - GAP_PX;
  const peak = days.find(({ usd }) => usd === highest);
  const bars = days.map(({ date, usd }, index) => {
    const height = usd === 0 ? 1 : Math.max(2, (usd / highest) * HEIGHT_PX);
    return svg(
      "rect",
      {
        x: index * (BAR_PX + GAP_PX),
        y: HEIGHT_PX - height,
        width: BAR_PX,
        height,
        rx: usd === 0 ? 0 : 1.5,
        class: usd === 0 ? "none" : "bar-usd",
      },
      svg("title", {}, `${date}: ${dollars(usd)}`),
    );
  });
  const label = `Cost per day over ${days.length} days${
    peak === undefined ? "" : `, at most ${dollars(peak.usd)} on ${peak.date}`
  }`;
  return el(
    "figure.sparkline",
    svg(
      "svg",
      { viewBox: `0 0 ${width} ${HEIGHT_PX}`, width, height: HEIGHT_PX, role: "img", "aria-label": label },
      ...bars,
    ),
    el("figcaption", `${days.length} days`),
  );
}
