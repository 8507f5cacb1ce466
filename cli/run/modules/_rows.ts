/** How a list of commands' modules is written: one module may have several commands, each by the name of its export. */

type Loads<M> = Readonly<Record<string, () => Promise<M>>>;

/** Commands of one module; `group` is the first word of their names. */
export function exportsOf<M, K extends keyof M & string>(
  load: () => Promise<M>,
  names: readonly K[],
  group?: string,
): Loads<M[K]> {
  const named = names.map((name) => [group === undefined ? name : `${group} ${name}`, name] as const);
  return Object.fromEntries(named.map(([command, name]) => [command, async () => (await load())[name]]));
}

/** Loads the module of a command; a command that has none here is a defect. */
export async function moduleOf<M>(modules: Loads<M>, name: string): Promise<M> {
  const load = modules[name];
  if (load === undefined) throw new Error(`Command ${name} does not run here`);
  return await load();
}
