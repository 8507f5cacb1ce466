/**
 * A store whose reads flip a bit now and then, as memory and wires do: what lies in it stays as it is.
 */

import type { Backend } from "../../lib/backend/backend.ts";

/** Which read of which object has which bit flipped. */
export interface Flip {
  key: string;
  /** The first is 0. */
  read: number;
  /** Of the whole object; beyond its end it counts from its beginning again. */
  bit: number;
}

/** `inner` with one bit of one whole read flipped; `flipped` counts it. */
export function flippingBackend(inner: Backend, flip: Flip): { backend: Backend; flipped: () => number } {
  let reads = 0;
  let flipped = 0;
  const get: Backend["get"] = async (key, options) => {
    const body = await inner.get(key, options);
    if (key !== flip.key || reads++ !== flip.read) return body;
    flipped++;
    const at = Math.floor(flip.bit / 8) % body.bytes.length;
    return { ...body, bytes: body.bytes.with(at, body.bytes[at]! ^ (1 << flip.bit % 8)) };
  };
  const backend = new Proxy(inner, {
    get(target, name) {
      const value = Reflect.get(target, name, target);
      return name === "get" ? get : typeof value === "function" ? value.bind(target) : value;
    },
  });
  return { backend, flipped: () => flipped };
}
