/**
 * The rooms of each part of the product, floor by floor from the top: a room is a folder
 * or a file directly below the part. A room imports from floors below its own, and from
 * nothing beside or above it; so no circle of rooms can exist.
 */

/** Floors of each part, the uppermost first. */
export const FLOORS: Readonly<Record<string, readonly (readonly string[])[]>> = {
  broker: [
    ["serve.ts"],
    ["engine"],
    ["http", "admission", "client", "web"],
    ["cache", "api", "databases", "sandbox"],
    ["settings", "task", "gateway"],
    ["agent", "agents.ts", "egress", "git"],
  ],
  cli: [
    ["main.ts"],
    ["run"],
    ["commands"],
    ["demo", "mcp"],
    ["table"],
    ["plan", "redteam", "setup"],
    ["model", "text"],
  ],
};

/** The room of a project path, for example `broker/git`; undefined outside of the parts that have rooms. */
export function roomOf(path: string): { part: string; room: string; floor: number | undefined } | undefined {
  const [part, room] = path.split("/", 2);
  const floors = FLOORS[part!];
  if (floors === undefined || room === undefined) return undefined;
  const floor = floors.findIndex((rooms) => rooms.includes(room));
  return { part: part!, room, floor: floor === -1 ? undefined : floor };
}

/** Why a file of `from` may not import `target`; undefined when it may. */
export function roomObjection(from: string, target: string): string | undefined {
  const here = roomOf(from);
  const there = roomOf(target);
  if (here === undefined || there === undefined || here.part !== there.part || here.room === there.room) return;
  for (const { part, room, floor } of [here, there]) {
    if (floor === undefined) return `${part}/${room} has no floor: give it one in tests/lint/_rooms.ts`;
  }
  if (here.floor! < there.floor!) return;
  return `${here.part}/${here.room} stands on floor ${here.floor}, and ${target} is not below it`;
}
