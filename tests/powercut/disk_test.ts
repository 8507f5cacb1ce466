import { assertEquals } from "@std/assert";
import { fsyncDirectory, fsyncTree, makeDirectories, writeFileAtomic } from "../../lib/fs.ts";
import { whyNotMountable } from "../support/mounts.ts";
import { Disk, FILE_SYSTEMS, type FileSystem } from "./_disk.ts";

for (const fs of Object.keys(FILE_SYSTEMS) as FileSystem[]) {
  const why = await whyNotMountable(fs === "xfs" ? "xfs" : "ext4");
  Deno.test({
    name: `a cut of ${fs} loses what was not fsynced, and nothing else${why}`,
    ignore: why !== "",
    fn: async () => {
      await using disk = await Disk.make(fs);
      const write = (name: string, sync: boolean) => {
        using file = Deno.openSync(`${disk.directory}/${name}`, { write: true, create: true });
        file.writeSync(new TextEncoder().encode(name));
        if (sync) file.syncSync();
      };
      write("kept", true);
      const folder = `${disk.directory}/made/for/this`;
      makeDirectories(folder);
      await writeFileAtomic(`${folder}/replaced`, new Uint8Array([1]), 0o600);
      const tree = `${disk.directory}/tree`;
      Deno.mkdirSync(`${tree}/a/b`, { recursive: true });
      Deno.writeTextFileSync(`${tree}/a/b/c`, "deep");
      await fsyncTree(tree);
      await fsyncDirectory(disk.directory);
      write("lost", false);
      await disk.cut();
      await disk.unmount();
      await disk.mount();
      assertEquals([Deno.readFileSync(`${folder}/replaced`).length, Deno.readTextFileSync(`${tree}/a/b/c`)], [
        1,
        "deep",
      ]);
      assertEquals([...Deno.readDirSync(disk.directory)].map(({ name }) => name).filter((name) => name === "lost"), []);
      assertEquals(Deno.readTextFileSync(`${disk.directory}/kept`), "kept");
    },
  });
}
