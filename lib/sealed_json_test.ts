import { assertEquals } from "@std/assert";
import { correctSealed, sealJson, unsealJson } from "./sealed_json.ts";

const RECORD = JSON.stringify({ name: "ünïcode", sum_usd: 1.25, of: [{ sum: "01234567" }] });

Deno.test("unsealJson() takes off what sealJson() adds, and leaves other text as it is", () => {
  assertEquals(unsealJson(sealJson(RECORD)), { json: RECORD, sealed: true });
  for (const text of [RECORD, "", "{}", `"sum":"01234567"}`]) {
    assertEquals(unsealJson(text), { json: text, sealed: false });
  }
  // As docs/reference/format.md has it.
  assertEquals(sealJson(`{"lineage":"0123456789abcdef0123456789abcdef","txid":5}`).slice(-18), `,"sum":"3b7293be"}`);
});

Deno.test("no change of one byte of a sealed record reads as sealed, or as a record without checksum", () => {
  const sealed = new TextEncoder().encode(sealJson(RECORD));
  for (let at = 0; at < sealed.length; at++) {
    for (let byte = 0; byte < 256; byte++) {
      if (byte === sealed[at]) continue;
      const found = unsealJson(new TextDecoder().decode(sealed.with(at, byte)));
      if (found === undefined) continue;
      assertEquals(found.sealed, false);
      // Its own damaged checksum is all that is left to change, and it is no field of any record.
      let keys: string[] = ["not JSON"];
      try {
        keys = Object.keys(JSON.parse(found.json));
      } catch {
        // As good.
      }
      assertEquals(keys.length === 3 && keys.every((key) => ["name", "sum_usd", "of"].includes(key)), false);
    }
  }
});

Deno.test("correctSealed() finds the one byte that differs, and is silent where it cannot", () => {
  const sealed = new TextEncoder().encode(sealJson(RECORD));
  for (let at = 0; at < sealed.length; at++) {
    for (const change of [1, 0x10, 0x80, 0xff]) {
      const found = correctSealed(sealed.with(at, sealed[at]! ^ change));
      assertEquals(found, sealed, `byte ${at}`);
    }
  }
  assertEquals(correctSealed(sealed), undefined);
  assertEquals(correctSealed(new TextEncoder().encode(RECORD)), undefined);
  assertEquals(correctSealed(new Uint8Array()), undefined);
  for (let at = 1; at < sealed.length; at++) {
    const twice = sealed.with(at, sealed[at]! ^ 1).with(at - 1, sealed[at - 1]! ^ 4);
    assertEquals(correctSealed(twice), undefined, `bytes ${at - 1} and ${at}`);
    assertEquals(correctSealed(sealed.slice(0, at)), undefined, `${at} bytes`);
  }
});
