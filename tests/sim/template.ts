/**
 * The prepared store of the scenarios, made once and copied for every attempt.
 */

import type { Backend } from "../../lib/backend/backend.ts";
import { MemoryBackend } from "../support/memory_backend.ts";
import { Store } from "../../lib/store/store.ts";
import type { VirtualClock } from "../support/clock.ts";
import { prepare } from "./scenarios.ts";

/** A prepared store in memory with its workspace on disk. */
export class Template {
  readonly #backend: Backend;
  readonly #workspace: string;
  readonly #directory: string;
  #copies = 0;

  private constructor(backend: Backend, directory: string) {
    this.#backend = backend;
    this.#directory = directory;
    this.#workspace = `${directory}/workspace`;
  }

  /** Prepares it below `directory`. */
  static async make(directory: string, clock: VirtualClock): Promise<Template> {
    const backend = new MemoryBackend();
    const template = new Template(backend, directory);
    await Deno.mkdir(template.#workspace);
    const store = await Store.open({ backend, workspace: template.#workspace, clock, holder: "cli" });
    await prepare(store, directory);
    return template;
  }

  /** A copy of its own: the backend's objects and the workspace's files with their times. */
  async copy(): Promise<{ backend: Backend; workspace: string }> {
    const backend = new MemoryBackend();
    for await (const { key } of this.#backend.list("")) await backend.put(key, (await this.#backend.get(key)).bytes);
    const workspace = `${this.#directory}/workspace-${this.#copies++}`;
    await copyDirectory(this.#workspace, workspace);
    return { backend, workspace };
  }
}

/** `cp -a`: sidecars rely on the times of the files. */
export async function copyDirectory(from: string, to: string): Promise<void> {
  const { success, stderr } = await new Deno.Command("cp", { args: ["-a", "--", from, to] }).output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
}
