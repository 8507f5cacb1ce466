/** What to do about each error code: `taskd help errors <code>`, and the index of docs/reference/errors.md. */

import type { ErrorCode } from "../../lib/errors.ts";

const START_SERVE = "Start it with taskd serve, or name its socket with --socket.";
const TRY_AGAIN = "Try again shortly.";
const WAIT_FOR_DELETION =
  "Try again shortly. If the program that deletes it died, the janitor or taskd gc finishes the work.";
const RESTORE =
  "Run taskd verify --all, which names what is damaged and who needs it, then taskd repair --all; with --from it takes " +
  "what is missing out of a backup or another copy of the store.";
const UPGRADE =
  "Upgrade every program that uses the store or the home directory; docs/how-to/upgrade.md says how to go back.";

export const REMEDIES: Readonly<Record<ErrorCode, string>> = {
  usage: "Compare the call with taskd help <command>.",
  invalid_name: "Use 1 to 128 characters of a-z 0-9 _ . - that do not begin with - or . and contain no ..",
  invalid_request: "Correct the field that the message names.",
  invalid_config: "Edit the line that the message names, then run taskd policy explain.",
  unknown_op: "Upgrade the client or the daemon: they are of different versions.",
  not_found: "Check the spelling with taskd databases, taskd branches or taskd tasks.",
  already_exists: "Choose another name, or destroy what has this one.",
  conflict: TRY_AGAIN,
  lease_held:
    "Close the session with taskd session close, or wait: the lease of a program that died ends in 30 seconds.",
  fenced: "Look for a second program on the store, close the session and open it again. Unflushed commits are in the " +
    "checkout and are captured then.",
  branch_deleting: WAIT_FOR_DELETION,
  branch_reaping: WAIT_FOR_DELETION,
  unconfirmed: "Add --yes, or confirm: true in a request, if you mean it.",
  protected: "Run taskd unprotect first, if you mean it.",
  dirty: "Keep the edits with taskd checkpoint, or give them up with --force.",
  busy: "Close the program that is named, also where it is idle, then try again; --wait 10s waits for that.",
  not_a_database: "Name an SQLite file; a file that is encrypted or cut short is none.",
  not_a_store: "Name the directory or s3:// location that taskd made, or an empty one.",
  unsupported_layout: UPGRADE,
  unsupported_format: UPGRADE,
  corrupt: RESTORE,
  chain_gap: RESTORE,
  altered:
    "Look at who can write below audit_root and stage_root. Deny the task with taskd deny, then run it again with " +
    "taskd retry.",
  daemon_running: "Use the daemon that runs, or stop it first. A daemon that was killed leaves nothing in the way.",
  daemon_unreachable: START_SERVE,
  no_session: "Open one with taskd session open.",
  session_failed:
    "Read the reason in taskd session status, then close the session and open it again. Unflushed commits " +
    "are in the checkout and are captured then.",
  capture_failed: "Close the session and open it again; it then takes a whole copy of the database.",
  no_space: "Make room: empty checkouts-ro, destroy branches that are not needed, run taskd gc. A session keeps " +
    "everything and stores it with its next flush.",
  denied: "Give the user that runs taskd access to the path, the bucket or the route that the message names.",
  unavailable: "Check that the server or the remote answers, then try again.",
  stalled: "Check the network to the store, then try again.",
  ambiguous: "Look whether the change was made (taskd branches) before you repeat it.",
  gc_failed: "Nothing was deleted. Run taskd verify on what the message names, then restore or destroy that.",
  too_large: "Send less at once.",
  interrupted: "Run the command again.",
  overloaded: "Try again later, with fewer connections.",
  stopping: "Start the daemon again, then repeat the request.",
  auth_failed:
    "Log in with gh, add the ssh key, or store the key with taskd setup --key; taskd doctor says which is missing.",
  push_rejected: "Read the host's words in the message. The approved change is kept: taskd push tries again.",
  git_failed: "Read git's words in the message; taskd doctor checks git itself.",
  timed_out: "Check the network and the load of the machine, then try again.",
  sandbox_failed: "Run taskd doctor. After an upgrade build the images again: taskd setup --rebuild-images.",
  at_capacity: "Wait for a task to end, put the task into the queue (taskd queue add), or raise max_concurrent_tasks.",
  ceiling_reached: "Wait until the window has moved on, or raise the ceiling; taskd stats shows the headroom.",
  wrong_state: "Look where the task is with taskd inspect.",
  stale_diff: "Read the new diff with taskd review, then approve that one.",
  expired: "The task was denied because no answer came in time. Run it again with taskd retry.",
  not_acknowledged: "Name each category that the message lists with --acknowledge.",
  broker_running: "Use the broker that runs, or replace it with taskd start.",
  broker_unreachable: "Start it with taskd start --detach.",
  internal: "Report the message with its line; it is a defect in taskd.",
};
