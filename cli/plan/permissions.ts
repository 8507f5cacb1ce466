/**
 * The permissions of a command, as one plain value: lists of exactly what may be
 * touched, per kind. An empty list means nothing.
 */

/** The kinds of Deno's permissions, in the order they are shown. */
export const PERMISSION_KINDS = ["read", "write", "net", "run", "env", "sys", "ffi", "import"] as const;
type PermissionKind = typeof PERMISSION_KINDS[number];

export type PermissionSet = Readonly<Record<PermissionKind, readonly string[]>>;

/** In a list: everything of the kind. For what cannot be listed, such as the hosts that sandboxes may reach. */
export const ANYWHERE = "*";

export const NO_PERMISSIONS: PermissionSet = ofEach(() => []);

function ofEach<T>(value: (kind: PermissionKind) => T): Record<PermissionKind, T> {
  return Object.fromEntries(PERMISSION_KINDS.map((kind) => [kind, value(kind)])) as Record<PermissionKind, T>;
}

/** All that any of them has, each item once. */
export function unionOf(...sets: readonly Partial<PermissionSet>[]): PermissionSet {
  return ofEach((kind) => [...new Set(sets.flatMap((set) => set[kind] ?? []))]);
}

/** The set as the runtime takes it. False rather than an empty list, which older runtimes read as everything. */
export function toDenoPermissions(set: PermissionSet): Deno.PermissionOptionsObject {
  const granted = ofEach((kind) => set[kind].includes(ANYWHERE) || set[kind].length > 0 && [...set[kind]]);
  // The runtime's type lists the names of `sys`; what it takes is the same.
  return granted as Deno.PermissionOptionsObject;
}

/** Gives up every permission of this thread. One way. */
export function revokeAll(): void {
  for (const name of PERMISSION_KINDS) Deno.permissions.revokeSync({ name });
}
