/**
 * What takes the agent's place when it will not end: deaf to SIGTERM and to the end of its input. The instruction says
 * what else it does.
 */

const first = await Deno.stdin.readable.pipeThrough(new TextDecoderStream()).getReader().read();
const { instruction } = JSON.parse(first.value!);

if (instruction === "stay") {
  Deno.addSignalListener("SIGTERM", () => {});
  console.log("ready");
  setInterval(() => {}, 1_000);
}

if (instruction === "spin") {
  Deno.addSignalListener("SIGTERM", () => {});
  console.log("ready");
  for (;;);
}

if (instruction === "eat") {
  const kept: unknown[] = [];
  for (let count = 0;; count++) kept.push({ count, text: `text ${count}`.repeat(10) });
}

if (instruction === "flood") {
  const noise = new Uint8Array(1 << 20).fill(0x78);
  Deno.stdout.writeSync(Uint8Array.from([..."\x1b]0;title\x07 \xff\n"].map((char) => char.charCodeAt(0))));
  for (let count = 0; count < 64; count++) {
    for (let done = 0; done < noise.length;) done += Deno.stdout.writeSync(noise.subarray(done));
  }
  Deno.stderr.writeSync(new TextEncoder().encode("after the flood\n"));
  Deno.exit(0);
}
