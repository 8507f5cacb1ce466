/** Small charts of block characters, for terminals. */

const EIGHTHS = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
const HEIGHTS = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/** A bar of `value` where `most` would be `width` columns. Anything above zero shows. */
export function bar(value: number, most: number, width: number): string {
  if (!(value > 0 && most > 0)) return "";
  const eighths = Math.max(1, Math.round(Math.min(1, value / most) * width * 8));
  return "█".repeat(Math.floor(eighths / 8)) + EIGHTHS[eighths % 8];
}

/** One character for each value, as high as it is beside the others; a space is zero. */
export function sparkline(values: readonly number[]): string {
  const most = Math.max(0, ...values);
  return values.map((value) => {
    if (!(value > 0)) return " ";
    return HEIGHTS[Math.min(HEIGHTS.length - 1, Math.ceil(value / most * HEIGHTS.length) - 1)]!;
  }).join("");
}
