import { assertEquals, assertStringIncludes } from "@std/assert";
import { StageRoom } from "./stage_room.ts";

const GIB = 2 ** 30;

function room(space: { free: number; total: number } | Error) {
  const lines: string[] = [];
  const figures = { space };
  const made = new StageRoom({
    stage_root: "/s",
    log: (level, event, text) => lines.push(`${level} ${event} ${text}`),
    space: () => figures.space instanceof Error ? Promise.reject(figures.space) : Promise.resolve(figures.space),
  });
  return { room: made, lines, figures };
}

Deno.test("with too little room the log says so once, with the tasks that take most", async () => {
  const { room: stage, lines, figures } = room({ free: 2 * GIB, total: 100 * GIB });
  for (const [index, id] of ["a", "b", "c", "d"].entries()) await stage.note(id, (index + 1) * GIB);
  stage.forget("b");
  assertEquals([lines, stage.taken], [[], 8 * GIB]);
  figures.space = { free: GIB / 2, total: 100 * GIB };
  const low = "512 MiB are free below stage_root, fewer than 1 GiB";
  assertEquals(await stage.low(), low);
  await stage.note("a", GIB);
  assertEquals(lines, [`warn stage_low ${low}: no task is begun. Most take d (4 GiB), c (3 GiB), a (1 GiB)`]);
  figures.space = { free: 2 * GIB, total: 100 * GIB };
  assertEquals(await stage.low(), undefined);
  figures.space = { free: 0, total: 100 * GIB };
  await stage.low();
  assertEquals(lines.length, 2);
});

Deno.test("of a small file system a twentieth has to be free", async () => {
  assertEquals(await room({ free: GIB / 2, total: 10 * GIB }).room.low(), undefined);
  assertStringIncludes(await room({ free: GIB / 4, total: 10 * GIB }).room.low() ?? "", "fewer than 512 MiB");
});

Deno.test("where the room is not known, tasks are begun", async () => {
  for (const space of [new Error("no such folder"), { free: 0, total: 0 }]) {
    const { room: stage } = room(space);
    assertEquals([await stage.low(), await stage.free()], [undefined, undefined]);
  }
});
