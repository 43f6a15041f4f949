/** Warnings about settings that are valid but discouraged. */
import {
  createMeter,
  isQueue,
  type Limit,
  mostStoredBytesOf,
  holdsSlots,
  strategies,
  changesByDenial,
  mostReserved,
} from "../strategies/index.ts";
import { reservedCost } from "./cost.ts";
import { keyWarning, partName } from "./key.ts";
import { limitLists, longestDelayMs, type Policy } from "./policy.ts";
import { emptyClass } from "./shares.ts";

interface Warning {
  /** The field of the policy that the warning is about. */
  readonly field: string;
  readonly text: string;
}

/** Slots with a shorter lease may expire before they are renewed. */
const shortestLeaseMs = 1_000;
/** An isolate reads this much for each of its keys every `syncEvery`. */
const mostSyncedBytes = 100_000;

/** @param policies all policies, among which are the ancestors of this one */
export function policyWarnings(policy: Policy, policies: readonly Policy[]): Warning[] {
  const { name, limits, lists } = policy;
  const all = [
    ["limits", limits] as const,
    ...lists.overrides.map((override) => ["overrides", override.limits] as const),
  ];
  const ofLimit = (limit: Limit, text: string): string => `the limit "${limit.name}" of the policy "${name}": ${text}`;
  return [
    ...all.flatMap(([field, list]) =>
      list.flatMap((limit) => limitWarnings(limit).map((text) => ({ field, text: ofLimit(limit, text) }))),
    ),
    ...(isExact(policy) ? all : []).flatMap(([field, list]) =>
      redundantLimits(list).map(({ limit, by }) => ({
        field,
        text: ofLimit(limit, `it never denies a request, because the limit "${by.name}" denies first`),
      })),
    ),
    ...all.flatMap(([field, list]) =>
      overshadowedLimits(policy, list, policies).map(({ limit, by }) => ({
        field,
        text: ofLimit(
          limit,
          `it hardly ever denies a request, because the limit "${by.name}" of a policy that it is within is lower over the same or a longer window`,
        ),
      })),
    ),
    ...wholePolicyWarnings(policy).map(({ field, text }) => ({ field, text: `the policy "${name}": ${text}` })),
  ];
}

/** Limits are not exact for other consistencies, and for costs that are known after the response. */
const isExact = ({ consistency, cost }: Policy): boolean => consistency.kind === "strict" && cost.kind !== "response";

function wholePolicyWarnings(policy: Policy): Warning[] {
  const { cost, key, ancestors, objects, ban, onMissingKey, consistency } = policy;
  const warnings: Warning[] = [];
  const lists = limitLists(policy).filter(({ length }) => length > 0);
  const isTooMuch = (list: readonly Limit[]): boolean =>
    createMeter(list).look(reservedCost(cost), 0).retryAfterMs === null;
  if (lists.some(isTooMuch)) {
    const text = "every request is denied, because its cost is greater than the limits can ever allow";
    warnings.push({ field: "cost", text });
  }
  const empty = emptyClass(policy);
  if (empty !== null) {
    const text = `every request of a class is denied, because ${empty} % of a limit is less than 1 unit`;
    warnings.push({ field: "classes", text });
  }
  const syncedBytes = Math.max(0, ...lists.map(storedBytes));
  if (consistency.kind === "eventual" && syncedBytes > mostSyncedBytes) {
    warnings.push({
      field: "consistency",
      text: `each sync of a key may transfer ${Math.ceil(syncedBytes / 1_000)} kB; counters and buckets need less than 1 kB`,
    });
  }
  // A key of a child creates no object, and the limits of its ancestors hold for all its values.
  const text = objects.shards === null && ancestors.length === 0 ? keyWarning(key) : null;
  if (text !== null) warnings.push({ field: "key", text });
  const isShared = key.every(({ kind }) => kind === "global");
  if (ban !== null && (isShared || (onMissingKey === "shared" && key.some((part) => "name" in part)))) {
    const others = isShared ? "all other clients" : "all clients that lack a part of the key";
    warnings.push({ field: "ban", text: `one denied client bans ${others}, which share its key` });
  }
  return warnings;
}

const storedBytes = (list: readonly Limit[]): number => list.reduce((sum, limit) => sum + mostStoredBytesOf(limit), 0);

function limitWarnings(limit: Limit): string[] {
  const warnings: string[] = [];
  const own = strategies.get(limit.strategy)?.warning(limit) ?? null;
  if (own !== null) warnings.push(own);
  if (holdsSlots(limit) && limit.limit > mostReserved) {
    warnings.push(`the proxy allows at most ${mostReserved} requests of a key in flight`);
  }
  if (holdsSlots(limit) && limit.windowMs < shortestLeaseMs) {
    warnings.push("a window under a second may free a slot before its request ends");
  }
  if (isQueue(limit) && longestWaitMs(limit) > longestDelayMs) {
    warnings.push("a request may wait for more than an hour; maxDelay denies it instead");
  }
  return warnings;
}

function longestWaitMs(limit: Limit): number {
  const units = createMeter([limit]).look(1, 0).limits[0]?.capacity ?? 0;
  return ((units - 1) * limit.windowMs) / limit.limit;
}

/** A row holds 2 MB, including some data besides the states. */
const mostStoredBytes = 1_900_000;

/** A warning for each key whose policies together may need more than one row. */
export function sharedKeyWarnings(policies: readonly Policy[]): string[] {
  const byKey = Map.groupBy(policies, ({ key, objects, ancestors }) => {
    // The key of a child is kept in the object of its root's key.
    const root = key.slice(0, ancestors[0]?.keyParts);
    return JSON.stringify([...[key, root].map((parts) => parts.map(partName).toSorted()), objects]);
  });
  return [...byKey.values()].flatMap((sharing) => {
    const sum = sharing.reduce((sumBytes, policy) => sumBytes + storedBytesOf(policy), 0);
    if (sharing.length === 1 || sum <= mostStoredBytes) return [];
    const names = sharing.map(({ name }) => `"${name}"`).join(", ");
    const key = sharing[0]?.key.map(partName).join(", ") ?? "";
    return (
      `POLICIES: the policies ${names} share the key ${key}, whose state may take ${megabytes(sum)}: a row in storage ` +
      `holds 2 MB, so it needs several rows. Use fewer or smaller sliding-log limits, or sliding-window-counter`
    );
  });
}

/** The size of a policy's state: the greatest of those with its own limits and with each override. */
const storedBytesOf = (policy: Policy): number => Math.max(...limitLists(policy).map(storedBytes));

const megabytes = (sizeBytes: number): string => `${(sizeBytes / 1_000_000).toFixed(1)} MB`;

/**
 * Each limit that never denies, with the limit that always denies before it. Reports only limits that are provably
 * redundant, by each strategy's documented bound on the units in any span of its window. The bound holds only if the
 * object decides and the cost is known at the decision.
 */
export function redundantLimits(limits: readonly Limit[]) {
  return limits.flatMap((limit) => {
    const by = limits.find((other) => other !== limit && neverDenies(limit, other));
    return by === undefined ? [] : [{ limit, by }];
  });
}

/** Each limit of a child with a limit of an ancestor that is lower over the same or a longer window. */
function overshadowedLimits({ ancestors, cost }: Policy, limits: readonly Limit[], policies: readonly Policy[]) {
  // An ancestor counts at least what its descendants count, if it counts the same units and exempts no request.
  const counting = policies.filter(
    (each) =>
      ancestors.some(({ policy: name }) => name === each.name) &&
      each.count === null &&
      [each.cost, cost].every((one) => one.kind === "fixed" && one.units === 1) &&
      !each.isDryRun &&
      each.lists.allow.length + each.lists.overrides.length === 0,
  );
  const lower = counting.flatMap((each) => each.limits);
  return limits.flatMap((limit) => {
    const by = lower.find((other) => isOvershadowed(limit, other));
    return by === undefined ? [] : [{ limit, by }];
  });
}

function isOvershadowed(limit: Limit, other: Limit): boolean {
  if (isQueue(limit) || changesByDenial(limit) || holdsSlots(limit) !== holdsSlots(other)) return false;
  const isLonger = holdsSlots(other) || other.windowMs >= limit.windowMs;
  return isLonger && other.limit < limit.limit && capacityOf(other) <= capacityOf(limit);
}

/** A calendar period differs from its nominal window by less than half. */
const shortestWindowMs = ({ windowMs, period }: Limit): number => (period === undefined ? windowMs : windowMs / 2);
const longestWindowMs = ({ windowMs, period }: Limit): number => (period === undefined ? windowMs : 2 * windowMs);

function neverDenies(limit: Limit, other: Limit): boolean {
  // The bounds do not hold for slots, which last as long as requests, for queues, which delay requests, or for
  // elastic windows.
  if (holdsSlots(limit) || holdsSlots(other) || isQueue(limit) || changesByDenial(limit)) return false;
  const windowMs = longestWindowMs(limit);
  const perWindow = mostPerWindow(other);
  const mostIn = (spanMs: number): number => Math.ceil(spanMs / shortestWindowMs(other)) * perWindow;
  switch (limit.strategy) {
    case "fixed-window":
    case "sliding-log":
      return mostIn(windowMs) <= limit.limit;
    case "sliding-window-counter":
      // The current window's units plus a share of the previous window's. The sum is greatest when a window opens.
      return mostIn(windowMs) + perWindow <= limit.limit;
    case "sliding-buckets":
      // The oldest bucket may begin up to one bucket's width, at most a window, before the span.
      return mostIn(2 * windowMs) <= limit.limit;
    case "token-bucket":
    case "leaky-bucket":
      return mostIn(windowMs) <= Math.min(capacityOf(limit), limit.limit);
    default:
      return false;
  }
}

function mostPerWindow(limit: Limit): number {
  const strategy = strategies.get(limit.strategy);
  return strategy?.mostPerWindow(strategy.complete(limit)) ?? Number.POSITIVE_INFINITY;
}

function capacityOf(limit: Limit): number {
  const strategy = strategies.get(limit.strategy);
  return strategy?.capacity(strategy.complete(limit)) ?? 0;
}
