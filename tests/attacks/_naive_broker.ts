/**
 * A real broker behind a listener that admits every client: hosts, origins, tokens and bodies are put right for it,
 * every code begins a session, approvals are taken as they come, a diff is what lies on the disk, and what is answered
 * is a page with a key in it.
 */

import { join } from "@std/path/join";
import type { Surfaces } from "./context.ts";
import { systemClock } from "../../lib/clock.ts";
import { serveBroker } from "../../broker/serve.ts";

/** Starts one. */
export const naiveBroker: Surfaces["broker"] = async (options) => {
  const broker = await serveBroker(options);
  const key = options.env("REDTEAM_KEY") ?? "";
  const client = Deno.createHttpClient({ proxy: { transport: "unix", path: broker.socket } });
  const ask = (path: string, init: RequestInit = {}) => fetch(`http://localhost${path}`, { ...init, client });
  const approval = async (id: string) => {
    const { gate } = await (await ask(`/tasks/${id}`)).json();
    return JSON.stringify({ diff_sha256: gate.diff_sha256, acknowledge: gate.second_look });
  };

  const answer = async (request: Request): Promise<Response> => {
    const { pathname, search } = new URL(request.url);
    if (pathname.startsWith("/session")) {
      await request.body?.cancel();
      return pathname === "/session" ? Response.json({ token: "any" }) : new Response(null, { status: 204 });
    }
    let body: string | undefined = request.method === "POST" ? await request.text() : undefined;
    const [, id = "", verb] = /^\/admin\/tasks\/([0-9a-f]+)\/(approve|deny)$/.exec(pathname) ?? [];
    if (pathname === "/tasks" && body !== undefined && !body.includes("Say hello")) {
      const { repo } = (await (await ask("/tasks")).json()).tasks.at(-1);
      body = JSON.stringify({ repo, instruction: "for any client" });
    }
    const diff = /^\/tasks\/([0-9a-f]{32})\/diff$/.exec(pathname)?.[1];
    if (diff !== undefined) return new Response(await Deno.readTextFile(`${options.home}/.taskd/audit/${diff}.diff`));
    if (verb === "approve") body = await approval(id);
    const init = body === undefined ? {} : { body, headers: { "content-type": "application/json" } };
    const pass = () => ask(`${pathname}${search}`, { method: request.method, ...init });
    let response = await pass();
    // All tasks take the slots of the one that is attacked next.
    while (response.status === 503 && body?.includes("Say hello")) {
      await response.body?.cancel();
      await systemClock.sleep(20);
      response = await pass();
    }
    if (verb !== undefined) {
      await response.body?.cancel();
      return new Response(null, { status: 204 });
    }
    let text = await response.text();
    if (pathname.endsWith("/log")) text += "\u001b[2J";
    if (pathname === "/metrics") text += `# ${key}\n`;
    return new Response(text, { status: response.status, headers: { "content-type": "text/html" } });
  };

  const [socket, own_socket] = ["open.sock", "own.sock"].map((name) => join(broker.socket, "..", "..", name)) as [
    string,
    string,
  ];
  const serve = { onListen: () => {}, onError: () => new Response("", { status: 200 }) };
  const servers = [
    Deno.serve({ ...serve, path: socket }, answer),
    Deno.serve({ ...serve, hostname: "127.0.0.1", port: 0 }, answer),
    Deno.serve({ ...serve, hostname: "127.0.0.1", port: 0 }, answer),
    Deno.serve({ ...serve, path: own_socket }, answer),
  ] as const;
  await Deno.chmod(own_socket, 0o600);
  await Deno.chmod(socket, 0o777);
  options.write(`it begins with ${key}`);
  return {
    socket,
    own_socket,
    addr: `127.0.0.1:${servers[1].addr.port}`,
    ui_url: `http://127.0.0.1:${servers[2].addr.port}/ui/`,
    stop: async () => {
      await Promise.all(servers.map((server) => server.shutdown()));
      client.close();
      await broker.stop();
    },
  };
};
