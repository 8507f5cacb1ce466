/**
 * Diffs that the tests of the pages show.
 */

/** An ordinary change of three files, as an agent makes one. */
export const ORDINARY = String.raw`diff --git a/.github/workflows/ci.yml b/.github/workflows/ci.yml
index 1111111111111111111111111111111111111111..2222222222222222222222222222222222222222 100644
--- a/.github/workflows/ci.yml
+++ b/.github/workflows/ci.yml
@@ -12,7 +12,7 @@ jobs:
     runs-on: ubuntu-24.04
     steps:
       - uses: actions/checkout@v4
-      - run: npm test
+      - run: npm test -- --retry 2
         env:
           CI: "true"
       # The report is kept for a week.
diff --git a/src/payments/client.ts b/src/payments/client.ts
index 3333333333333333333333333333333333333333..4444444444444444444444444444444444444444 100644
--- a/src/payments/client.ts
+++ b/src/payments/client.ts
@@ -1,21 +1,38 @@
 import { request } from "../http.ts";
-import type { Payment, Receipt } from "./types.ts";
+import type { Payment, Receipt, RetryPolicy } from "./types.ts";
 
 const TIMEOUT_MS = 10_000;
+/** The bank sheds load for seconds at a time, seldom for longer. */
+const RETRY: RetryPolicy = { attempts: 4, base_ms: 250, ceiling_ms: 4_000 };
 
 /** Charges a payment, exactly once. */
 export async function charge(payment: Payment): Promise<Receipt> {
-  const response = await request("POST", "/charges", {
-    body: payment,
-    timeout_ms: TIMEOUT_MS,
-  });
-  if (!response.ok) throw new ChargeFailed(response.status);
-  return await response.json();
+  // The key makes a repeated charge the same charge for the bank.
+  const key = payment.idempotency_key;
+  for (let attempt = 0; ; attempt++) {
+    const response = await request("POST", "/charges", {
+      body: payment,
+      headers: { "idempotency-key": key },
+      timeout_ms: TIMEOUT_MS,
+    });
+    if (response.ok) return await response.json();
+    if (response.status !== 503 || attempt === RETRY.attempts) {
+      throw new ChargeFailed(response.status, attempt + 1);
+    }
+    await pause(backoff(RETRY, attempt));
+  }
 }
 
 /** The bank refused. */
 export class ChargeFailed extends Error {
-  constructor(readonly status: number) {
-    super("charge failed with " + status);
+  constructor(readonly status: number, readonly attempts: number) {
+    super("charge failed with " + status + " after " + attempts + " attempts");
   }
 }
diff --git a/src/payments/client_test.ts b/src/payments/client_test.ts
new file mode 100644
index 0000000000000000000000000000000000000000..5555555555555555555555555555555555555555
--- /dev/null
+++ b/src/payments/client_test.ts
@@ -0,0 +1,12 @@
+import { assertEquals, assertRejects } from "@std/assert";
+import { charge, ChargeFailed } from "./client.ts";
+import { bank } from "../support/bank.ts";
+
+Deno.test("charge() repeats a 503 with the same key", async () => {
+  using server = bank({ answers: [503, 503, 201] });
+  assertEquals((await charge(server.payment)).id, "ch_1");
+  assertEquals(new Set(server.keys).size, 1);
+});
+Deno.test("charge() gives up on a 402 at once", async () => {
+  await assertRejects(() => charge(bank({ answers: [402] }).payment), ChargeFailed);
+});
`;

/** A new file of these lines. */
export function newFile(path: string, lines: readonly string[]): string {
  const quoted = /[\n\t"\\]/.test(path) ? JSON.stringify(`b/${path}`) : `b/${path}`;
  const before = quoted.startsWith('"') ? `"a/${quoted.slice(3)}` : `a/${path}`;
  return [
    `diff --git ${before} ${quoted}`,
    "new file mode 100644",
    `index ${"0".repeat(40)}..${"a".repeat(40)}`,
    "--- /dev/null",
    `+++ ${quoted}`,
    `@@ -0,0 +1,${lines.length} @@`,
    ...lines.map((line) => `+${line}`),
    "",
  ].join("\n");
}
