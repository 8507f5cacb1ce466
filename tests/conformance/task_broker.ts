/**
 * What the task broker promises, statement by statement, in the order of its contract.
 */

import { CONTRACT_SETTINGS } from "./broker_settings.ts";
import { type Section, section } from "./contract.ts";

/** That each setting of the contract's tables has its default, its variable, its precedence and its rule. */
const SETTINGS = Object.fromEntries(
  CONTRACT_SETTINGS.map(({ path, variable, built_in }) => [
    `setting.${path}`,
    `\`${path}\` (${variable === null ? "no variable" : `\`${variable}\``}): \`${
      typeof built_in === "string" ? built_in || '""' : JSON.stringify(built_in)
    }\` by default.`,
  ]),
);

/** What each of them does, where that is one statement. */
const EFFECTS = Object.fromEntries(
  CONTRACT_SETTINGS.flatMap(({ path, effect }) =>
    effect === undefined ? [] : [[`effect.${path}`, `\`${path}\`: ${effect}`]]
  ),
);

/** Every section with every statement. */
export const BROKER_SECTIONS: readonly Section[] = [
  section("b1", "The service", {
    init: "`init` makes `~/.taskd/` (0700) with `config.yaml` and `egress.yaml`, and never overwrites them.",
    restart_applies: "`start` starts the broker; edits of the configuration take effect when it is run again.",
    precedence: "A setting's value: environment variable, then `config.yaml`, then the built-in default.",
    sandbox: [
      "Each task's agent runs in a sandbox VM of its own.",
      "A sandbox is a virtual machine only with Apple's container, or with an OCI runtime that makes one, such as kata or krun.",
    ],
    gateway_port: "A gateway on port 8088 meters API calls.",
    proxy_port: "A forward proxy on port 3128 enforces egress.",
    submit: "Tasks are submitted with POST `/tasks`.",
    gate: "A task stops at an approval gate before a push.",
    pull_request: "A pushed change may open a pull request on a code host.",
    commands: "`init`, `start`, `setup`, `stats [--json]`, `tasks`, `inspect <id>`, `policy explain [--json]`.",
    vendor_keys: "`VENDORA_API_KEY`, `VENDORB_API_KEY`, `VENDORC_API_KEY` are recognised by themselves.",
    keys_file: "Keys are read on the host from the environment or `~/.taskd/api-keys.env` (0600).",
    keys_not_configured: "Keys are not stored in configuration files.",
    keys_stay: "No key is passed into a sandbox.",
    agents: "Agents `agent_a` (default), `agent_b`, `agent_c`, `agent_d`.",
    agent_c_key_only: "`agent_c` has no subscription mode.",
    agent_d_compat: "`agent_d` reaches any OpenAI-compatible endpoint through `compat`.",
  }),
  section("b2", "Resources", {
    ...SETTINGS,
    ...EFFECTS,
    egress_config: "`EGRESS_CONFIG`: another path of the egress list.",
    audit_modes: "The audit directory is 0700, its logs and diffs 0600.",
    "ceiling.off": "With both limbs 0 there is no ledger, no file, and admission is as if there were no ceiling.",
    "ceiling.scope": "It bounds the broker as a whole, across vendors and both auth modes, over one window.",
    "ceiling.usd_source": "The USD limb counts the gateway's own metering, never what an agent printed.",
    "ceiling.starts": "The task limb counts starts; retries count as their parents do.",
    "ceiling.ledger":
      "`<audit_root>/global/ledger.jsonl`, 0600 in 0700, held in memory too; compaction rewrites it from there.",
    "ceiling.not_in_sandbox": "The ledger is never read or written from inside a sandbox.",
    "ceiling.clear": "It is cleared by stopping the broker, removing the file and starting again.",
    "ceiling.aggregate": "The aggregate ceiling is of one vendor, of keys alone, and in memory.",
    "ceiling.reconcile":
      "At boot a trace under a broker-minted id counts as a start of unknown spend, timed by the file system.",
    "ceiling.both": "With both ceilings set the stricter answer wins; a start is refused if either refuses.",
    "ceiling.total": "In total mode the global ceiling survives a restart; the aggregate one resets.",
    "ceiling.cannot_tell": "When it cannot tell, the aggregate ceiling admits and the global one refuses.",
    "ceiling.display":
      "`stats` has `global ceiling (the last <window>):` with `spend:` and `starts:`, only when on and the broker answers.",
    "ceiling.in_flight": "Starts in flight are part of the total that is compared.",
    "stats.offline": "The rest of `stats` reads the audit directory, and works with the broker stopped.",
    "spend.source": "Spend in stats, tasks and the history is that of the broker's row.",
    "spend.gate": "The gate shows the live figure of the gateway's lease.",
    "spend.agent": "What an agent reports shows only where nothing else exists, is marked, and never in totals.",
    "diff_policy.max_files_changed": "`max_files_changed`: more files fail the task.",
    "diff_policy.max_lines_changed": "`max_lines_changed`: more lines, added and deleted, fail the task.",
    "diff_policy.blocked_paths": "`blocked_paths`: touching a match fails the task.",
    "diff_policy.second_look_paths": "`second_look_paths`: the approver acknowledges each flagged category.",
    "diff_policy.host_side": "Enforced on the host against facts that the broker computed.",
    "diff_policy.globs": "`*` stays within a segment, `**` crosses; a trailing slash is refused.",
    "diff_policy.compared": "The block takes part in the divergence check.",
    "profiles.key": "A key that is not canonical `host/owner/repo` is an error.",
    "profiles.setup": "`setup`: commands as lists of arguments, run in the live work tree before the agent.",
    "profiles.readiness": "`readiness`: commands that gate the run.",
    "profiles.timeout": "`timeout`: for each command; 0 is 10m.",
    "profiles.cache": "`cache`: false unless opted in.",
    "profiles.verdict": "Verdicts are exit codes; output cannot change a status.",
    "profiles.stage": "The task shows `setting_up` while it runs.",
    "profiles.evidence": "Status, exit codes and durations are in the trust brief that `inspect` shows.",
    "profiles.log": "Combined output is kept for display at `~/.taskd/audit/<id>.setup.log`.",
    "cache.deps": "Package managers' caches point to `/deps`, kept under `cache_root`.",
    "cache.brief": "The brief says `hit`, `miss` or `disabled: no lockfile`, and the key's prefix.",
    "ci.watch": "`ci.watch` (`TASKD_CI_WATCH`, only `1`): off means no marker, watch, call or retry.",
    "ci.poll_interval":
      "`ci.poll_interval`: 60s, one call for each watched request and tick; 0 is the default; at least 10s.",
    "ci.watch_timeout": "`ci.watch_timeout`: 90m from the push on, not extended by a restart; must exceed its floor.",
    "ci.max_attempts":
      "`ci.max_attempts`: 0; each retry is a new task with a fresh budget; at most 10; needs approval_timeout.",
    "ci.read_only": "The watch only reads, with the host pinned in a flag, in the curated environment.",
    "ci.turn_off": "`ci.watch: false` stops it; `ci.max_attempts: 0` keeps watching and stops retrying.",
    "compat.base_url": "`base_url`: https, or http of localhost; empty disables.",
    "compat.base_path": "`base_path` is joined onto each request.",
    "compat.api_key_env": "`api_key_env` names the variable; the key is never in the file.",
    "compat.model": "`model` is passed to the agent.",
    "compat.prices": "`prices`: USD for 1M tokens by model; `default` is for the rest.",
    "compat.unlisted": "A model without a price is metered at 0 and never trips the budget.",
    "compat.unmetered":
      "The broker does not ask for usage in streams; every round-trip counts for `task_max_requests`.",
  }),
  section("b3", "States", {
    setting_up: "A profile's setup phase shows as `setting_up`; its evidence goes to the brief.",
    auto_denied: "A task at the gate is denied when a non-zero `approval_timeout` has passed.",
    dead_letter:
      "A queue item in `awaiting_ci` at a boot with the watch off becomes `dead_letter`: `no CI conclusion was observed`.",
    sources: "Sources of a setting: `default`, `config.yaml`, `env:<VAR>`.",
  }),
  section("b4", "Endpoints", {
    "post_tasks": "POST `/tasks`; 503 while `max_concurrent_tasks` run.",
    "admin_ceiling": "GET `/admin/ceiling`: the headroom as JSON, the same as `global_ceiling` of `stats --json`.",
    "admin_listener": "`/admin/ceiling` is served where every `/admin/*` route is.",
    "admin_unreachable": "`/admin/*` cannot be reached from a sandbox.",
    "explain.table": "`policy explain`: `SETTING`, `VALUE`, `SOURCE`, and last `daemon: in sync` or the divergence.",
    "explain.resolves": "It resolves exactly as `start` does and compares with the running broker.",
    "explain.json": "`--json` is `{local, live, in_sync}`; `live` and `in_sync` are null when no broker answers.",
    "explain.hash": "Hashes leave out `broker.socket` and `broker.addr`.",
    "stats.json": "`stats --json` has `global_ceiling`.",
  }),
  section("b5", "Authentication", {
    admin: "`/admin/*` only through the 0600 socket or the guarded loopback listener.",
    addr: "`broker.addr` has no authentication.",
    credentials: "Keys and OAuth files are read on the host; neither goes into a sandbox.",
    subscription: "Subscription mode reads `~/.taskd/vendor_*-oauth.json`.",
    code_host: "The code host's credential serves push, pull request and watch.",
  }),
  section("b6", "Events", {
    notification: "A pending approval is notified on the desktop, unless `notifications` is off.",
  }),
  section("b7", "Errors", {
    capacity: "Beyond `max_concurrent_tasks`: 503.",
    global_max_tasks: "`global_max_tasks` below `max_concurrent_tasks` is refused at load.",
    max_attempts: "`ci.max_attempts` above 0 with `approval_timeout` 0 is refused at load.",
    watch_timeout: "`ci.watch_timeout` not above `max(2 x poll_interval, 5m)` is refused at load.",
    poll_interval: "`ci.poll_interval` below 10s is refused.",
    attempts_capped: "`ci.max_attempts` above 10 is capped at 10.",
    profile_key: "A profile key that is not canonical is an error.",
    trailing_slash: "A diff-policy pattern with a trailing slash is refused at load.",
    diff_policy: "A diff that breaks the policy fails its task.",
    refusal: "A ceiling's refusal names the limb and what clears it; in total mode, that it does not age out.",
    never_killed: "A running task is never killed by a ceiling.",
    per_limb: "The global ceiling fails closed for each limb by itself.",
    max_requests: "`task_max_requests` holds; 1000 when the setting is 0.",
    collision: "A taken branch name is followed by others, up to `push_fresh_branch_tries`.",
    version_drift: "Another major version of the runtime with `strict_container_version` fails closed.",
  }),
  section("b8", "Limits", {
    ports: [
      "Gateway 8088, proxy 3128.",
      "The embedded runtime has no image that would have to agree, and takes any free ports of loopback.",
    ],
    values: "The limits of the contract's table are those in force by default.",
    modes: "Configuration directory 0700; keys file, ledger and socket 0600.",
    total_mode: "An exhausted total stays so across restarts until a limit is raised or the ledger is removed.",
    total_warning: "The broker warns at boot when a limb is armed in total mode.",
    undercount: "Where the USD limb under-counts, the task limb still counts.",
  }),
  section("b9", "Versioning", {
    tested_range: "`strict_container_version` is tied to a tested range of major versions.",
    seeds: "What `init` seeded is never overwritten by later runs.",
  }),
];
