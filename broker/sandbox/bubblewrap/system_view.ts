/**
 * What every sandbox sees of the host's system: its programs and libraries, and the few files of /etc that they read.
 * Nothing in it is secret, or names this machine's users.
 */

import { words } from "../../../lib/text/words.ts";
import { AGENT_ID } from "../agent_user.ts";

export const HOME_TARGET = "/home/agent";

/** Programs and libraries of the system; where some are links to others, they are bound where the links lead. */
export const SYSTEM_FOLDERS = words("/usr /bin /sbin /lib /lib32 /lib64 /libx32 /opt /nix/store");
/** What programs read of /etc: nothing in it is secret, or this machine's own. */
export const ETC_FILES = words(`
  /etc/alternatives /etc/bash.bashrc /etc/ca-certificates /etc/debian_version /etc/inputrc /etc/java-11-openjdk
  /etc/java-17-openjdk /etc/java-21-openjdk /etc/java-25-openjdk /etc/ld.so.cache /etc/ld.so.conf /etc/ld.so.conf.d
  /etc/localtime /etc/magic /etc/mime.types /etc/os-release /etc/perl /etc/pki/ca-trust /etc/pki/tls/certs
  /etc/protocols /etc/python3 /etc/services /etc/ssl/certs /etc/ssl/openssl.cnf /etc/terminfo /etc/timezone
`);

/** Files of /etc that a sandbox has its own of, in the order of their descriptors. */
export const OWN_ETC: readonly (readonly [name: string, text: string])[] = [
  ["passwd", `root:x:0:0::/:/usr/sbin/nologin\nagent:x:${AGENT_ID}:${AGENT_ID}::${HOME_TARGET}:/bin/sh\n`],
  ["group", `root:x:0:\nagent:x:${AGENT_ID}:\n`],
  ["hosts", "127.0.0.1 localhost\n::1 localhost\n"],
  ["nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"],
  // Present for programs that read it; there is no resolver to name.
  ["resolv.conf", "\n"],
];
