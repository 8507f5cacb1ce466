/**
 * The permissions of a command, as one plain value: lists of exactly what may be
 * touched, per kind. An empty list means nothing.
 */

/** The kinds of Deno's permissions, in the order they are shown. */
export const PERMISSION_KINDS = ["read", "write", "net", "run", "env", "sys", "ffi", "import"] as const;
export type PermissionKind = typeof PERMISSION_KINDS[number];

export type PermissionSet = Readonly<Record<PermissionKind, readonly string[]>>;

/** In a list: everything of the kind. For what cannot be listed, such as the hosts that sandboxes may reach. */
export const ANYWHERE = "*";

export const NO_PERMISSIONS: PermissionSet = {
  read: [],
  write: [],
  net: [],
  run: [],
  env: [],
  sys: [],
  ffi: [],
  import: [],
};

export function unionOf(a: PermissionSet, b: PermissionSet): PermissionSet {
  const union = { ...a };
  for (const kind of PERMISSION_KINDS) union[kind] = [...new Set([...a[kind], ...b[kind]])];
  return union;
}

/** The set as the runtime takes it. False rather than an empty list, which older runtimes read as everything. */
export function toDenoPermissions(set: PermissionSet): Deno.PermissionOptionsObject {
  const list = (kind: PermissionKind) => {
    if (set[kind].includes(ANYWHERE)) return true;
    return set[kind].length === 0 ? false : [...set[kind]];
  };
  return {
    read: list("read"),
    write: list("write"),
    net: list("net"),
    run: list("run"),
    env: list("env"),
    sys: list("sys") as Deno.PermissionOptionsObject["sys"] & (string[] | boolean),
    ffi: list("ffi"),
    import: list("import"),
  };
}

/** Gives up every permission of this thread. One way. */
export function revokeAll(): void {
  for (const name of PERMISSION_KINDS) Deno.permissions.revokeSync({ name });
}
