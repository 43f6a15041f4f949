/** Policies that share a key share its row in storage: whether their states fit in one together. */
import { type Limit, mostStoredBytesOf } from "../strategies/index.ts";
import { partName } from "./key.ts";
import type { Policy } from "./policy.ts";

/** A row holds 2 MB; some of it is for what stands around the states. */
const mostStoredBytes = 1_900_000;

/** A warning for each key whose policies may take more than a row together. */
export function sharedKeyWarnings(policies: readonly Policy[]): string[] {
  const byKey = Map.groupBy(policies, ({ key, objects }) =>
    JSON.stringify([key.map(partName).toSorted(), objects]),
  );
  return [...byKey.values()].flatMap((sharing) => {
    const sum = sharing.reduce((sumBytes, policy) => sumBytes + storedBytesOf(policy), 0);
    if (sharing.length === 1 || sum <= mostStoredBytes) return [];
    const names = sharing.map(({ name }) => `"${name}"`).join(", ");
    const key = sharing[0]?.key.map(partName).join(", ") ?? "";
    return (
      `POLICIES: the policies ${names} share the key ${key}, whose state may take ${megabytes(sum)}: a row of storage ` +
      `holds 2 MB, and the rest takes further rows. Use fewer or smaller sliding-log limits, or sliding-window-counter`
    );
  });
}

/** The most that a policy's state takes under its own limits, or under those of an override. */
const storedBytesOf = ({ limits, keyRules }: Policy): number =>
  Math.max(bytesOf(limits), ...keyRules.overrides.map((override) => bytesOf(override.limits)));

const bytesOf = (limits: readonly Limit[]): number =>
  limits.reduce((sum, limit) => sum + mostStoredBytesOf(limit), 0);

const megabytes = (sizeBytes: number): string => `${(sizeBytes / 1_000_000).toFixed(1)} MB`;
