/**
 * The tutorials and how-to guides, run as they are printed. Every page is here or in `long/`.
 */

import { assertEquals } from "@std/assert";
import { join } from "@std/path/join";
import { startMinio } from "../support/minio.ts";
import { ModelServer } from "../support/model_server.ts";
import { stepsOf } from "./page.ts";
import { type Machine, makeMachine, type PageOptions, runPage } from "./run_page.ts";
import { scaledTest, shortened } from "../support/long.ts";

const ROOT = new URL("../../", import.meta.url).pathname;

/** What a page finds on the machine before its first command, and what stands for the reader's own names. */
type Prepare = (machine: Machine, cleanup: AsyncDisposableStack) => Promise<PageOptions>;

/** The token of a daemon's HTTP listener. */
const TOKEN = "0123456789abcdef0123456789abcdef";

const nothing: Prepare = () => Promise.resolve({});

/** Runs a shell script on the machine, outside of the page. */
async function sh(machine: Machine, script: string, more: Record<string, string> = {}): Promise<void> {
  const own = { HOME: machine.home, PATH: `${machine.bin}:${Deno.env.get("PATH")}`, TMPDIR: join(machine.base, "tmp") };
  const command = new Deno.Command("bash", {
    args: ["-ec", script],
    cwd: machine.home,
    env: { ...own, ...more },
    stdin: "null",
  });
  const { success, stderr } = await command.output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
}

/** A repository in the place of https://github.com/ada/shop. */
async function repository(machine: Machine): Promise<string> {
  const path = join(machine.base, "shop.git");
  await sh(
    machine,
    `git init -q -b main --bare ${path}; git clone -q ${path} seed 2> /dev/null; cd seed; echo shop > shop.txt
git -c user.name=ada -c user.email=ada@example.com add .
git -c user.name=ada -c user.email=ada@example.com commit -qm first; git push -q origin HEAD:main; cd ..; rm -rf seed`,
  );
  return path;
}

/** A model that adds a README. */
function model(cleanup: AsyncDisposableStack): ModelServer {
  return cleanup.use(
    new ModelServer([
      { calls: [["write", { path: "README.md", content: "# Shop\n" }]] },
      { calls: [["finish", { summary: "Added a README" }]] },
    ]),
  );
}

/** A broker with the built-in agent, set up and not started. */
const broker: Prepare = async (machine, cleanup) => {
  const { url } = model(cleanup);
  const repo = await repository(machine);
  await sh(
    machine,
    `taskd setup --yes --runtime deno --agent agent_d --compat-url ${url}/v1 --compat-model small-model > setup.log 2>&1`,
  );
  return { replace: { "https://github.com/ada/shop": repo, "http://localhost:11434": url } };
};

/** Ports of the page that another program of this machine may have. */
function freePorts(...ports: string[]): Record<string, string> {
  return Object.fromEntries(ports.map((port) => {
    using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    return [`127.0.0.1:${port}`, `127.0.0.1:${(listener.addr as Deno.NetAddr).port}`];
  }));
}

/** A daemon with a database and an open session. */
const session: Prepare = async (machine) => {
  await sh(machine, "taskd create shop; (taskd serve > serve.log 2>&1 & echo $! > serve.pid)");
  await sh(machine, "until taskd session status > status.log 2>&1; do sleep 0.2; done; taskd session open shop");
  return {};
};

const PAGES: Readonly<Record<string, Prepare>> = {
  "README.md": async (machine, cleanup) => {
    // A person's shell waits for the application's locks; the application cancels an order as soon as there is a fork.
    await sh(
      machine,
      `real=$(command -v sqlite3); echo '#!/bin/sh' > ${machine.bin}/sqlite3
echo "exec $real -cmd '.timeout 20000' \\"\\$@\\"" >> ${machine.bin}/sqlite3; chmod +x ${machine.bin}/sqlite3
sqlite3 shop.db "CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT); CREATE TABLE price (item TEXT PRIMARY KEY, cents);
  WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100) INSERT INTO orders SELECT i, 'new' FROM n;
  INSERT INTO price VALUES ('tea', 250), ('cake', 400)"
taskd create shop --from shop.db; taskd checkpoint shop good; (taskd serve > serve.log 2>&1 & echo $! > serve.pid)
until taskd session status > status.log 2>&1; do sleep 0.2; done; taskd session open shop
(while sleep 0.05; do
  sqlite3 $(echo ~/.taskd/store/checkouts/shop/main.db) "INSERT INTO orders (status) VALUES ('new');
    UPDATE orders SET status = 'cancelled' WHERE id = 7 AND $(ls ~/.taskd/store/checkouts/shop | grep -c try) > 0"
done > app.log 2>&1 & echo $! > app.pid)`,
    );
    cleanup.defer(() => sh(machine, "kill $(cat app.pid) || { cat app.log >&2; false; }"));
    const varies = /txid \d+|\d[\d.]* (?:ms|B|KiB|pages)/g;
    return { section: "A database", replace: { "--at 10s": "--at good" }, varies };
  },
  "docs/tutorials/first_branch.md": nothing,
  "docs/how-to/install.md": broker,
  "docs/how-to/upgrade.md": broker,
  "docs/how-to/monitor.md": async (machine, cleanup) => {
    const { replace } = await broker(machine, cleanup);
    await sh(machine, `mkdir prometheus; cp ${ROOT}docs/monitoring/alerts*.yml prometheus/`);
    return { replace: { ...replace, ...freePorts("9464", "9465") } };
  },
  "docs/how-to/allow_a_host.md": async (machine, cleanup) => {
    const options = await broker(machine, cleanup);
    await sh(machine, "taskd start --detach > start.log 2>&1");
    return options;
  },
  "docs/how-to/local_model.md": broker,
  "docs/how-to/budgets.md": broker,
  "docs/how-to/setup_commands.md": broker,
  "docs/how-to/queue_and_ci.md": async (machine, cleanup) => {
    const options = await broker(machine, cleanup);
    await sh(machine, "taskd start --detach > start.log 2>&1");
    return options;
  },
  "docs/how-to/approve_from_a_script.md": async (machine, cleanup) => {
    const options = await broker(machine, cleanup);
    await sh(machine, "taskd start --detach > start.log 2>&1");
    return options;
  },
  "docs/how-to/review_in_a_browser.md": async (machine, cleanup) => {
    const options = await broker(machine, cleanup);
    await sh(machine, "taskd start --detach > start.log 2>&1");
    return options;
  },
  "docs/how-to/write_a_script.md": async (machine, cleanup) => {
    const { replace } = await broker(machine, cleanup);
    const ports = freePorts("9464");
    await sh(
      machine,
      `taskd start --detach > start.log 2>&1; taskd create shop
(taskd serve --http ${ports["127.0.0.1:9464"]} > serve.log 2>&1 & echo $! > serve.pid)
until taskd session status > status.log 2>&1; do sleep 0.2; done; taskd session open shop`,
      { BSTORE_TOKEN: TOKEN },
    );
    return { replace: { ...replace, ...ports }, env: { BSTORE_TOKEN: TOKEN } };
  },
  "docs/how-to/s3.md": async (_machine, cleanup) => {
    const server = cleanup.use(await startMinio());
    const { access_key_id, secret_access_key } = server.credentials;
    return {
      replace: {
        "http://127.0.0.1:9000": server.endpoint,
        "my-bucket": server.bucket,
        "AWS_ACCESS_KEY_ID=minioadmin": `AWS_ACCESS_KEY_ID=${access_key_id}`,
        "AWS_SECRET_ACCESS_KEY=minioadmin": `AWS_SECRET_ACCESS_KEY=${secret_access_key}`,
      },
    };
  },
  "docs/tutorials/both_together.md": (_machine, cleanup) => {
    const total = "export const total = (items) => items.reduce((sum, { price }) => sum + price, 0);\n";
    const { url } = cleanup.use(
      new ModelServer([
        {
          calls: [[
            "edit",
            {
              path: "total.mjs",
              old_text: total,
              new_text: total.replace("{ price }", "{ cents }").replace("price", "cents"),
            },
          ]],
        },
        {
          calls: [[
            "sql",
            {
              database: "cafe",
              statement: "ALTER TABLE items ADD COLUMN cents INTEGER; UPDATE items SET cents = round(price * 100)",
            },
          ]],
        },
        { calls: [["finish", { summary: "Prices are whole cents" }]] },
      ]),
    );
    return Promise.resolve({ replace: { "http://localhost:11434": url } });
  },
  "docs/how-to/back_up.md": async (machine) => {
    await sh(machine, "taskd create shop");
    return {};
  },
  "docs/how-to/recover.md": session,
  "docs/how-to/go_back.md": session,
  "docs/how-to/merge_migrations.md": nothing,
};

/** Pages that take minutes or a machine of their own. */
const LONG = ["docs/how-to/bubblewrap.md", "docs/how-to/production_database.md", "docs/tutorials/first_task.md"];

// The first tutorial and the way to an approval each time, and one of the other pages; all of them in the long suite.
const EACH_TIME = /^README\.md$|\/first_branch\.md$|\/approve_from_a_script\.md$/;
const { always = [], others = [] } = Object.groupBy(
  Object.entries(PAGES),
  ([path]) => EACH_TIME.test(path) ? "always" : "others",
);
for (const [path, prepare] of [...always, ...shortened(others, 1)]) {
  scaledTest(`${path} runs as it is printed`, async () => {
    await using machine = await makeMachine();
    await using cleanup = new AsyncDisposableStack();
    cleanup.defer(() =>
      sh(machine, "test ! -f serve.pid || kill $(cat serve.pid); taskd stop > /dev/null 2>&1 || true")
    );
    await runPage(path, machine, await prepare(machine, cleanup));
  });
}

Deno.test("every tutorial and how-to guide with commands is run by a test", () => {
  const pages = ["docs/tutorials", "docs/how-to"].flatMap((folder) =>
    [...Deno.readDirSync(ROOT + folder)].map(({ name }) => `${folder}/${name}`)
  );
  const typed = pages.filter((path) => stepsOf(Deno.readTextFileSync(ROOT + path)).length > 0);
  assertEquals(typed.filter((path) => PAGES[path] === undefined && !LONG.includes(path)), []);
});
