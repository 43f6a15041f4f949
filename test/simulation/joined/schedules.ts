/** Random schedules of requests that call objects at the same time, and of their faults. */
import type { Random } from "../../random.ts";
import { calm, type Faults } from "./network.ts";
import type { PolicyName } from "./policies.ts";

export interface RequestSpend {
  readonly policy: PolicyName;
  readonly key: string;
  readonly cost: number;
}

/** The fate of a request: its client stays or disconnects, or the request vanishes without warning. */
export type Fate = "stays" | "disconnects" | "vanishes" | "vanishes when woken";

export interface ScheduledRequest {
  readonly atMs: number;
  readonly isolate: number;
  /** The kind `batch` means independent checks. */
  readonly kind: "admit" | "batch" | "look";
  readonly spends: readonly RequestSpend[];
  readonly timeoutMs: number;
  readonly fate: Fate;
  /** The time from the start of the request until the client disconnects or the request vanishes. */
  readonly fateAfterMs: number;
}

export type ScheduledEvent = { readonly atMs: number } & (
  | { readonly kind: "crash"; readonly key: string }
  | { readonly kind: "rules"; readonly isolate: number }
);

export interface JoinedSchedule {
  readonly joinsChecks: boolean;
  /** Whether the schedule has no faults. Then objects decide all requests. */
  readonly isCalm: boolean;
  readonly faults: Faults;
  /** How far the clocks of the isolates are ahead, in milliseconds. */
  readonly skewsMs: readonly number[];
  readonly requests: readonly ScheduledRequest[];
  readonly events: readonly ScheduledEvent[];
}

const keys = ["a", "b"] as const;

/** The objects of single keys, and the objects that are shards. */
const objectNames = ["a", "b", "tenant", "0-of-2", "1-of-2", "0-of-1"] as const;

class Draw {
  readonly random: Random;

  constructor(random: Random) {
    this.random = random;
  }

  of<Value>(values: readonly [Value, ...Value[]]): Value {
    return values[Math.floor(this.random() * values.length)] ?? values[0];
  }

  upTo(most: number): number {
    return Math.floor(this.random() * (most + 1));
  }

  is(share: number): boolean {
    return this.random() < share;
  }
}

function drawFaults(draw: Draw, isCalm: boolean): Faults {
  if (isCalm) return { ...calm, maximumDelayMs: draw.of([0, 2, 10, 60]) };
  return {
    maximumDelayMs: draw.of([0, 2, 10, 60, 150, 600]),
    lost: draw.of([0, 0, 0.05, 0.3]),
    unanswered: draw.of([0, 0, 0.05, 0.3]),
    hung: draw.of([0, 0, 0.05, 0.2]),
    slow: draw.of([0, 0, 0.05, 0.2]),
    crashing: draw.of([0, 0, 0.05]),
    crashed: draw.of([0, 0, 0.05]),
  };
}

const enforced = ["local", "open", "closed", "confirmed", "tight", "banning"] as const;

function drawSpends(draw: Draw, isCalm: boolean, key: string): readonly RequestSpend[] {
  const cost = draw.of([1, 1, 1, 2]);
  const spend = (policy: PolicyName, at = key): RequestSpend => ({ policy, key: at, cost });
  const [first, second] = [draw.of(enforced), draw.of(enforced)];
  const drawn = draw.random();
  if (drawn < 0.25) return [spend(first)];
  if (drawn < 0.29) return [spend("banning")];
  if (drawn < 0.45) return [spend("ruled")];
  if (drawn < 0.5) return [spend("cached")];
  if (drawn < 0.6) return [spend(first), spend("dry")];
  if (drawn < 0.65) return first === second ? [spend(first)] : [spend(first), spend(second)];
  // The spend of the tenant is provisional while the object of the second key may still deny the request.
  if (drawn < 0.85) return [spend("local", "tenant"), spend(draw.of(["tight", "ruled", "closed"]))];
  if (drawn < 0.95) return [spend("closed", "tenant"), spend("open", "a"), spend("tight", "b")];
  if (drawn < 0.96 || isCalm) return [spend("confirmed"), spend("dry"), spend("local")];
  return [spend("broken")];
}

/** Checks of different keys in two shards. */
function drawBatch(draw: Draw, most: number): readonly RequestSpend[] {
  const policy = draw.of(["sharded", "counted"] as const);
  const first = draw.upTo(40);
  return Array.from({ length: 1 + draw.upTo(most) }, (_, index) => ({
    policy,
    // The first characters of a partition key are base64 and determine its shard.
    key: String(first + index).padStart(8, "A"),
    cost: draw.of([0, 1, 1, 2]),
  }));
}

function drawBurst(draw: Draw, schedule: Pick<JoinedSchedule, "isCalm">, atMs: number) {
  const { isCalm } = schedule;
  const isolate = draw.upTo(2);
  const key = draw.of(keys);
  const spanMs = draw.of([0, 0, 3, 20]);
  const isOfBatches = draw.is(0.2);
  // Some bursts have more checks than fit into one call.
  const count = 1 + draw.upTo(isOfBatches ? draw.of([3, 12]) : draw.of([5, 20, 40]));
  const mostChecks = draw.of([3, 20, 100]);
  const isOfSingles = draw.is(0.5);
  const fates = isCalm
    ? (["stays", "stays", "disconnects"] as const)
    : (["stays", "stays", "stays", "disconnects", "vanishes", "vanishes when woken"] as const);
  const same = drawSpends(draw, isCalm, key);
  return Array.from({ length: count }, (): ScheduledRequest => {
    const kind = isOfBatches ? "batch" : draw.is(0.03) ? "look" : "admit";
    const single = draw.is(0.7) ? same : drawSpends(draw, isCalm, key);
    return {
      atMs: atMs + draw.upTo(spanMs),
      isolate: draw.is(0.1) ? draw.upTo(2) : isolate,
      kind,
      spends: kind === "batch" ? drawBatch(draw, mostChecks) : isOfSingles ? same : single,
      timeoutMs: isCalm ? 1_000 : draw.of([10, 30, 100, 250, 1_000]),
      fate: draw.of(fates),
      fateAfterMs: draw.upTo(draw.of([0, 5, 50])),
    };
  });
}

export function drawSchedule(random: Random): JoinedSchedule {
  const draw = new Draw(random);
  const isCalm = draw.is(0.35);
  const joinsChecks = !draw.is(0.15);
  const faults = drawFaults(draw, isCalm);
  const requests: ScheduledRequest[] = [];
  const events: ScheduledEvent[] = [];
  let atMs = 0;
  for (let burst = 3 + draw.upTo(5); burst > 0; burst--) {
    atMs += draw.upTo(draw.of([10, 60, 600, 1_500]));
    requests.push(...drawBurst(draw, { isCalm }, atMs));
    const eventAtMs = atMs + draw.upTo(40);
    if (!isCalm && draw.is(0.2)) {
      events.push({ atMs: eventAtMs, kind: "crash", key: draw.of(objectNames) });
    }
    if (draw.is(0.7)) events.push({ atMs: eventAtMs, kind: "rules", isolate: draw.upTo(2) });
  }
  return {
    joinsChecks,
    isCalm,
    faults,
    skewsMs: [0, draw.upTo(4_000) - 2_000, draw.upTo(4_000) - 2_000],
    requests,
    events,
  };
}
