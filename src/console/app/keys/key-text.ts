/** Plain keys as text: what operators type, and what the admin API reveals. */

/** A key by its parts, as calls to the admin API name it. */
export interface PlainKey {
  /** Null for a missing part. Absent for a policy whose requests share one key. */
  readonly key?: readonly (string | null)[];
  readonly tenant?: string;
  /** Attributes by which entries of lists and overrides are compared. */
  readonly attributes?: Readonly<Record<string, string>>;
}

/** Such as `ip=192.0.2.1, header:x-user=a`. */
export function labelOf(parts: readonly string[], { key = [], tenant }: PlainKey): string {
  const named = parts.map((part, index) => {
    if (part === "global") return "global";
    const value = key[index] ?? null;
    return value === null ? `${part} missing` : `${part}=${value}`;
  });
  return (tenant === undefined ? named : [`tenant=${tenant}`, ...named]).join(", ");
}

/** The parts in a label such as `ip=192.0.2.1, header:x-user=a`; null when it does not show them all. */
export function partsOfLabel(label: string, parts: readonly string[]): readonly (string | null)[] | null {
  const key: (string | null)[] = [];
  let rest = label;
  for (const [index, part] of parts.entries()) {
    const next = parts[index + 1];
    const end = next === undefined ? rest.length : rest.indexOf(`, ${next}`);
    const text = rest.slice(0, end);
    if (end === -1 || text.includes("…")) return null;
    if (text === part || text === `${part} missing`) key.push(null);
    else if (text.startsWith(`${part}=`)) key.push(text.slice(part.length + 1));
    else return null;
    rest = rest.slice(end + 2);
  }
  return key;
}

/** The fields in which an operator types a key, or its id. */
export interface TypedKey {
  /** A text for each part; empty for a missing part. */
  readonly key: readonly string[];
  readonly id: string;
  readonly tenant: string;
  readonly attributes: string;
}

/** @throws Error when the fields name no key, or a key in two ways */
export function soughtKey(typed: TypedKey, parts: readonly string[]): { readonly id: string } | PlainKey {
  const id = typed.id.trim();
  const tenant = typed.tenant.trim();
  const named = parts.filter((part) => part !== "global");
  const key = parts.map((_, index) => typed.key[index]?.trim() || null);
  const hasKey = key.some((text) => text !== null);
  if (id !== "" && (hasKey || tenant !== "")) {
    throw new Error("Expected the key or its id, got both.");
  }
  if (id !== "") return { id };
  if (named.length > 0 && !hasKey) {
    throw new Error(`Expected a value of ${named.join(" or ")}, or the id of the key.`);
  }
  return {
    ...(named.length > 0 && { key }),
    ...(tenant !== "" && { tenant }),
    ...attributesIn(typed.attributes),
  };
}

/** @throws Error for a line that is no attribute */
function attributesIn(text: string): Pick<PlainKey, "attributes"> {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  const pairs = lines.map((line): [string, string] => {
    const [, name, value] = /^\s*([^=]+?)\s*=\s*(.*?)\s*$/.exec(line) ?? [];
    if (name === undefined || value === undefined) {
      throw new Error(`expected an attribute such as country=DE, got ${line}`);
    }
    return [name, value];
  });
  return pairs.length === 0 ? {} : { attributes: Object.fromEntries(pairs) };
}
