/**
 * The rules of trees, applied literally to lists of all spends: deliberately slow and simple. Levels have sliding logs, and
 * fixed windows that are aligned to the clock.
 */
import type { Charge, ChargeShare } from "../../../src/limiter/protocol.ts";
import type { Limit } from "../../../src/strategies/index.ts";

/** Units that were spent at one time. A settlement changes them. */
interface Spent {
  readonly atMs: number;
  units: number;
  /** The child whose part of the limits they are; null without one. */
  readonly child: string | null;
}

/** The request of a child with a share. */
interface Activity {
  readonly child: string;
  readonly atMs: number;
  readonly weight: number;
}

interface Level {
  activity: Activity[];
  /** The share that the children have of a limit. */
  shared: ChargeShare | null;
  readonly spends: Spent[];
  strikesAtMs: number[];
  bannedUntilMs: number;
  isExempt: boolean;
}

interface Reserved {
  readonly root: string;
  readonly ttlMs: number;
  expiresAtMs: number;
  /** One for each charge that was spent; without a spend once its level is forgotten. */
  readonly parts: { readonly key: string; readonly policy: string; spent: Spent | null }[];
}

/** The fields of a decision that the tests compare. */
export interface Decided {
  readonly reason: "share" | "class" | null;
  readonly allowed: boolean;
  readonly remaining: readonly number[];
  readonly retryAfterMs: number | null;
  readonly bannedForMs: number;
}

export interface Reply {
  readonly decisions: readonly Decided[];
  /** The accepted durations; 0 for a reply that is not firm. */
  readonly firmForMs: readonly number[];
}

/** A spend that may be given back until an instant. */
interface Provisional {
  readonly key: string;
  readonly untilMs: number;
  /** Null if only other keys were charged. */
  readonly spent: Spent | null;
  /** When no limit counts the spend any longer. */
  readonly endMs: number;
}

const provisionalFirmMs = 100;
const firmMs = 1_000;

export class TreeReference {
  readonly #levels = new Map<string, Level>();
  readonly #reserved = new Map<string, Reserved>();
  #provisional: Provisional[] = [];
  /** The spends of the latest check. */
  #latest: readonly Spent[] = [];

  look(root: string, charges: readonly Charge[], nowMs: number, isBounded = true): readonly Decided[] {
    this.#noteShares(root, charges);
    return charges.map((charge) => this.#decided(root, charge, isBounded ? charges : null, nowMs));
  }

  #noteShares(root: string, charges: readonly Charge[]): void {
    for (const charge of charges) {
      const { share } = charge;
      const parent = parentOf(charge, charges);
      if (share !== undefined && parent !== undefined) {
        this.#level(parent.key ?? root, parent.policy).shared = share;
      }
    }
  }

  check(root: string, charges: readonly Charge[], nowMs: number, provisionalMs = 0): Reply {
    return this.#spend(root, charges, nowMs, (spent) => {
      if (spent !== null) this.#latest = spent.map(({ spend }) => spend);
      if (provisionalMs === 0 || spent === null) return;
      const untilMs = nowMs + provisionalMs;
      this.#provisional.push(
        ...keysOf(root, charges).map((key) => ({ key, untilMs, spent: null, endMs: nowMs })),
        ...spent.map(({ charge: { key = root, limits }, spend }) => {
          const endMs = Math.max(...limits.map((limit) => endOf(limit, spend)));
          return { key, untilMs, spent: spend, endMs };
        }),
      );
    });
  }

  reserve(
    root: string,
    charges: readonly Charge[],
    id: string,
    ttlMs: number,
    nowMs: number,
  ): Reply & { isOpen: boolean } {
    let isOpen = false;
    const reply = this.#spend(root, charges, nowMs, (spent) => {
      const parts = (spent ?? []).map(({ charge, spend }) => ({
        key: charge.key ?? root,
        policy: charge.policy,
        spent: spend,
      }));
      isOpen = parts.length > 0;
      if (isOpen) this.#reserved.set(id, { root, ttlMs, expiresAtMs: nowMs + ttlMs, parts });
    });
    return { ...reply, isOpen };
  }

  /** @param costs for each charge that was spent, in their order */
  settle(id: string, costs: (index: number) => number, nowMs: number): boolean {
    const reserved = this.#reserved.get(id);
    this.#reserved.delete(id);
    if (reserved === undefined || reserved.expiresAtMs <= nowMs) return false;
    for (const [index, { key, policy, spent }] of reserved.parts.entries()) {
      if (spent === null) continue;
      const extra = costs(index) - spent.units;
      if (extra < 0) spent.units += extra;
      else if (extra > 0) this.#level(key, policy).spends.push({ atMs: nowMs, units: extra, child: spent.child });
    }
    return true;
  }

  renew(id: string, nowMs: number): boolean {
    const reserved = this.#reserved.get(id);
    if (reserved === undefined || reserved.expiresAtMs <= nowMs) return false;
    reserved.expiresAtMs = nowMs + reserved.ttlMs;
    return true;
  }

  /** Gives back the latest check that was allowed. */
  refund(): void {
    for (const spent of this.#latest) spent.units = 0;
  }

  forget(key: string, policy: string): void {
    this.#levels.set(nameOf(key, policy), { ...newLevel(), isExempt: this.#level(key, policy).isExempt });
    this.#provisional = this.#provisional.map((each) => (each.key === key ? { ...each, spent: null } : each));
    for (const [id, { root, parts }] of this.#reserved) {
      for (const part of parts) if (part.key === key && part.policy === policy) part.spent = null;
      const isOfOneKey = parts.every((part) => part.key === root);
      if (isOfOneKey && parts.every(({ spent }) => spent === null)) this.#reserved.delete(id);
    }
  }

  exempt(key: string, policy: string, isExempt: boolean): void {
    this.#level(key, policy).isExempt = isExempt;
  }

  /** An object that is started again knows of no provisional spends and of no active children. */
  restart(): void {
    this.#provisional = [];
    for (const level of this.#levels.values()) {
      level.activity = [];
      level.shared = null;
    }
  }

  /** Notes the request as one of its children. */
  #touch(root: string, charges: readonly Charge[], nowMs: number): void {
    if (charges.every(({ cost }) => cost === 0)) return;
    for (const charge of charges) {
      const { share, key = root } = charge;
      const parent = parentOf(charge, charges);
      if (share === undefined || parent === undefined) continue;
      const { weight } = share;
      this.#level(parent.key ?? root, parent.policy).activity.push({ child: key, atMs: nowMs, weight });
    }
  }

  #spend(
    root: string,
    charges: readonly Charge[],
    nowMs: number,
    afterwards: (spent: readonly { readonly charge: Charge; readonly spend: Spent }[] | null) => void,
  ): Reply {
    const levels = charges.map((charge) => ({ charge, level: this.#level(charge.key ?? root, charge.policy) }));
    // A banned request is decided by the limits alone.
    const isBanned = levels.some(
      ({ charge, level }) => charge.isDryRun !== true && charge.ban !== undefined && level.bannedUntilMs > nowMs,
    );
    if (!isBanned) this.#touch(root, charges, nowMs);
    const before = this.look(root, charges, nowMs, !isBanned);
    const isAllowed = charges.every((charge, index) => charge.isDryRun === true || before[index]?.allowed === true);
    // A denial counts towards a ban of each level that denies, unless that level is banned already.
    for (const [index, { charge, level }] of levels.entries()) {
      const { ban } = charge;
      const isDenial = before[index]?.allowed === false && before[index].reason !== "share";
      if (ban === undefined || !isDenial || level.bannedUntilMs > nowMs) continue;
      const [strikes, term] = [ban.strikes[0], ban.term[0]];
      if (strikes === undefined || term === undefined) throw new TypeError("expected a ban with two limits");
      level.strikesAtMs = [...level.strikesAtMs.filter((atMs) => atMs > nowMs - strikes.windowMs), nowMs];
      if (level.strikesAtMs.length < strikes.limit) continue;
      level.strikesAtMs = [];
      level.bannedUntilMs = nowMs + term.windowMs;
    }
    const isFirm =
      !isAllowed &&
      before.every(({ reason }) => reason === null) &&
      levels.every(
        ({ charge, level }, index) =>
          charge.isDryRun === true ||
          level.isExempt ||
          charge.ban === undefined ||
          (before[index]?.bannedForMs ?? 0) > 0,
      ) &&
      !keysOf(root, charges).some((key) => this.#isReserved(key, nowMs));
    const spent = levels.flatMap(({ charge, level }, index) => {
      if (!isAllowed || before[index]?.allowed !== true || level.isExempt) return [];
      const child = charges.find((each) => parentOf(each, charges) === charge);
      const spend = { atMs: nowMs, units: charge.cost, child: child === undefined ? null : (child.key ?? root) };
      level.spends.push(spend);
      return [{ charge, spend }];
    });
    afterwards(isAllowed ? spent : null);
    const after = charges.map((charge, index): Decided => {
      const { remaining, bannedForMs } = this.#decided(root, charge, isBanned ? null : charges, nowMs);
      const { allowed, retryAfterMs, reason } = before[index] ?? { allowed: false, retryAfterMs: null, reason: null };
      const waitMs = retryAfterMs === null ? null : Math.max(retryAfterMs, bannedForMs);
      return { allowed, remaining, retryAfterMs: waitMs, bannedForMs, reason };
    });
    return { decisions: after, firmForMs: isFirm ? this.#firmForMs(keysOf(root, charges), nowMs) : [0] };
  }

  #firmForMs(keys: readonly string[], nowMs: number): number[] {
    const open = this.#provisional.filter(({ key, untilMs }) => keys.includes(key) && untilMs > nowMs);
    if (open.length === 0) return [firmMs];
    // An object may forget the provisional spends of a key that has no state.
    return open.some(({ spent, endMs }) => spent !== null && spent.units > 0 && endMs > nowMs)
      ? [provisionalFirmMs]
      : [provisionalFirmMs, firmMs];
  }

  /** @param charges those of the call; null for a decision by the limits alone */
  #decided(root: string, charge: Charge, charges: readonly Charge[] | null, nowMs: number): Decided {
    const level = this.#level(charge.key ?? root, charge.policy);
    const bannedForMs = charge.ban === undefined ? 0 : Math.max(0, level.bannedUntilMs - nowMs);
    const cost = level.isExempt ? 0 : charge.cost;
    const bounded = charge.limits.map((limit, index) => {
      const most = charges === null ? limit.limit : Math.floor((limit.limit * (charge.upTo ?? 100)) / 100);
      const free = Math.max(0, limit.limit - usedOf(limit, level.spends, nowMs));
      const plainMs = waitOf(limit, limit.limit, cost, level.spends, nowMs);
      const classMs = waitOf(limit, most, cost, level.spends, nowMs);
      const isShared = charges !== null && level.shared?.limit === index;
      const room = isShared ? roomOf(root, charge, charges, level, free, nowMs) : null;
      const isDenied = room !== null && cost > room.units;
      const waitMs = isDenied && classMs !== null ? Math.max(classMs, room.waitMs(cost)) : classMs;
      return {
        remaining: Math.min(Math.max(0, free - limit.limit + most), room?.units ?? Number.POSITIVE_INFINITY),
        waitMs,
        reason: waitMs !== classMs ? ("share" as const) : classMs !== plainMs ? ("class" as const) : null,
      };
    });
    const waits = bounded.map(({ waitMs }) => waitMs);
    const reasons = bounded.map(({ reason }) => reason);
    const retryAfterMs = waits.includes(null) ? null : Math.max(bannedForMs, ...waits.map((waitMs) => waitMs ?? 0));
    return {
      allowed: retryAfterMs === 0,
      remaining: bounded.map(({ remaining }) => remaining),
      retryAfterMs,
      bannedForMs,
      reason: reasons.includes("share") ? "share" : reasons.includes("class") ? "class" : null,
    };
  }

  /** Whether the state of a key has a reservation: that of the root, or of a level that was charged. */
  #isReserved(key: string, nowMs: number): boolean {
    return [...this.#reserved.values()].some(
      ({ root, expiresAtMs, parts }) => expiresAtMs > nowMs && (root === key || parts.some((part) => part.key === key)),
    );
  }

  #level(key: string, policy: string): Level {
    const name = nameOf(key, policy);
    const level = this.#levels.get(name) ?? newLevel();
    this.#levels.set(name, level);
    return level;
  }
}

const newLevel = (): Level => ({
  spends: [],
  strikesAtMs: [],
  bannedUntilMs: 0,
  isExempt: false,
  activity: [],
  shared: null,
});

const nameOf = (key: string, policy: string): string => `${policy} of ${key}`;

const keysOf = (root: string, charges: readonly Charge[]): readonly string[] => [
  ...new Set([root, ...charges.map(({ key = root }) => key)]),
];

/** When the first spend that counts at an instant can have been made. */
const countedFromMs = ({ strategy, windowMs }: Limit, nowMs: number): number =>
  strategy === "fixed-window" ? Math.floor(nowMs / windowMs) * windowMs : nowMs - windowMs + 1;

/** When a spend ceases to count. */
const endOf = ({ strategy, windowMs }: Limit, { atMs }: Spent): number =>
  strategy === "fixed-window" ? (Math.floor(atMs / windowMs) + 1) * windowMs : atMs + windowMs;

function usedOf(limit: Limit, spends: readonly Spent[], nowMs: number): number {
  const fromMs = countedFromMs(limit, nowMs);
  return spends.reduce((used, { atMs, units }) => (atMs >= fromMs ? used + units : used), 0);
}

/** The least wait after which a limit has room for a cost below `most` units; null if it never has. */
function waitOf(limit: Limit, most: number, cost: number, spends: readonly Spent[], nowMs: number): number | null {
  // A debt does not deny a look.
  const fits = (atMs: number): boolean => cost === 0 || usedOf(limit, spends, atMs) + cost <= most;
  if (fits(nowMs)) return 0;
  const firstMs = spends
    .map((spent) => endOf(limit, spent))
    .filter((atMs) => atMs > nowMs)
    .toSorted((one, other) => one - other)
    .find(fits);
  return firstMs === undefined ? null : firstMs - nowMs;
}

/** The charge of the parent of which a child has a share. A child in a dry run has no share of an enforced limit. */
const parentOf = ({ share, isDryRun = false }: Charge, charges: readonly Charge[]): Charge | undefined =>
  charges.find((parent) => parent.policy === share?.parent && (!isDryRun || parent.isDryRun === true));

/** The part of a limit that the child of a call may use, by the formula of shares, and the wait after a denial. */
function roomOf(
  root: string,
  parent: Charge,
  charges: readonly Charge[],
  { spends, activity, shared }: Level,
  free: number,
  nowMs: number,
): { readonly units: number; readonly waitMs: (cost: number) => number } {
  const limit = parent.limits[shared?.limit ?? 0];
  if (limit === undefined || shared === null) throw new TypeError("expected a shared limit");
  const child = charges.find((each) => parentOf(each, charges) === parent);
  const own = child === undefined ? null : (child.key ?? root);
  const activeMs = Math.min(10_000, limit.windowMs);
  const active = new Map(
    activity.filter(({ atMs }) => nowMs - atMs < activeMs).map((each) => [each.child, each.weight]),
  );
  if (own !== null) active.set(own, child?.share?.weight ?? 1);
  const totalWeight = [...active.values()].reduce((sum, weight) => sum + weight, 0);
  const guaranteeOf = (key: string): number =>
    shared.guaranteed === "fair" ? Math.floor((limit.limit * (active.get(key) ?? 0)) / totalWeight) : shared.guaranteed;
  const partOf = (key: string): Spent[] => spends.filter((spent) => spent.child === key);
  const unusedOf = (key: string): number => guaranteeOf(key) - usedOf(limit, partOf(key), nowMs);
  const others = [...active.keys()].filter((key) => key !== own);
  const withheld = others.reduce((sum, key) => sum + Math.max(0, unusedOf(key)), 0);
  const units = Math.max(0, free - withheld, Math.min(own === null ? 0 : unusedOf(own), free));
  const ownMs = (cost: number): number =>
    (own === null ? null : waitOf(limit, guaranteeOf(own), cost, partOf(own), nowMs)) ?? activeMs;
  return { units, waitMs: (cost) => (others.length === 0 ? 0 : Math.min(activeMs, ownMs(cost))) };
}
