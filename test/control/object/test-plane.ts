/** A control plane and the objects of keys, in one process, with one clock that the test sets. */
import { compareVersions, type PolicyRule, type RulesVersion } from "../../../src/policy/runtime-rules.ts";
import type { ObjectSettings } from "../../../src/policy/placement.ts";
import { Plane, type PlaneParts } from "../../../src/control/object/plane.ts";
import type {
  Actor,
  BeatCall,
  Changed,
  PolicyInfo,
  Rule,
  RuleCreation,
  RuleInput,
} from "../../../src/control/protocol.ts";
import { type KeyRule, objectId, objectLocation } from "../../../src/limiter/protocol.ts";
import { settled, TestClock } from "../../fakes/isolate.ts";
import { MemorySql } from "../../fakes/memory-sql.ts";

type Push = PlaneParts["push"];
type PushCall = Parameters<Push>;

/** The rules of one key and policy in an object. */
export interface HeldRules {
  readonly version: RulesVersion;
  readonly rules: readonly KeyRule[];
}

export const perKey: ObjectSettings = { shards: null, locationHint: null, jurisdiction: null };
export const sharded: ObjectSettings = { shards: 4, locationHint: null, jurisdiction: null };
export const ada: Actor = { name: "ada@example.com", via: "access" };
export const key = "k".repeat(43);

/** No alerts, no export and no WebSockets. */
export const noObservers: PlaneParts["observers"] = {
  alerts: null,
  dataset: null,
  sockets: { sockets: () => [], accept: () => new Response() },
  waitUntil: () => undefined,
};

/** The steps in which time passes while an alarm is running. */
const stepMs = 1_000;

/** The answer to a call whose caller no longer exists. */
const lostAnswer = new Promise<never>(() => undefined);

export class TestPlane {
  readonly clock = new TestClock();
  storage = new MemorySql();
  control: Plane;
  /** The rules that the objects have, by object, key and policy. */
  readonly objects = new Map<string, HeldRules>();
  readonly pushes: PushCall[] = [];
  /** Delays a push until the returned promise resolves, and fails the push when the promise rejects. */
  beforePush: (...call: PushCall) => Promise<unknown> = () => Promise.resolve();
  /** Delays or loses the answer to a push. */
  afterPush: () => Promise<unknown> = () => Promise.resolve();
  alarms = 0;
  #ids = 0;
  /** How often the object has lost its memory. */
  #losses = 0;
  #isAlarmRunning = false;

  constructor() {
    this.control = this.#newControl();
  }

  /** Loses the object's memory. Pushes that are in flight still reach their objects. */
  restart(storage = this.storage): void {
    this.storage = storage;
    this.#losses++;
    this.control = this.#newControl();
  }

  /** Lets time pass, and fires the timers and alarms that are due. */
  async pass(ms: number): Promise<void> {
    const untilMs = this.clock.nowMs + ms;
    for (;;) {
      // oxlint-disable-next-line no-await-in-loop
      await settled();
      const alarmAtMs = this.storage.alarmAtMs ?? Number.POSITIVE_INFINITY;
      const nowMs = this.clock.nowMs;
      const nextMs = this.#isAlarmRunning ? nowMs + stepMs : Math.max(alarmAtMs, nowMs);
      // oxlint-disable-next-line no-await-in-loop
      await this.clock.pass(Math.min(nextMs, untilMs) - nowMs);
      const isDue = !this.#isAlarmRunning && (this.storage.alarmAtMs ?? Infinity) <= this.clock.nowMs;
      if (isDue) this.#runAlarm();
      else if (this.clock.nowMs >= untilMs) break;
    }
    await settled();
  }

  /** The rules that an object has for a key of a policy. */
  held(policy = "p", objects = perKey, partitionKey = key): HeldRules | undefined {
    return [...this.objects].find(
      ([name]) => name === nameOf(objectNameIn(objects, partitionKey), partitionKey, policy),
    )?.[1];
  }

  /** The ids of the rules that an object has for a key; null when none were ever pushed to it. */
  heldIds(policy = "p", objects = perKey, partitionKey = key): string[] | null {
    return this.held(policy, objects, partitionKey)?.rules.map(({ id }) => id) ?? null;
  }

  create(input: RuleInput, idempotency: RuleCreation["idempotency"] = null): Promise<Changed<Rule>> {
    return this.control.createRule({ input, actor: ada, idempotency });
  }

  async created(input: RuleInput): Promise<Rule> {
    return done(await this.create(input));
  }

  #runAlarm(): void {
    this.alarms++;
    this.#isAlarmRunning = true;
    this.storage.alarmAtMs = null;
    void this.control.alarm().finally(() => (this.#isAlarmRunning = false));
  }

  #newControl(): Plane {
    const losses = this.#losses;
    return new Plane({
      storage: this.storage,
      clock: this.clock,
      push: async (...call) => {
        const version = await this.#push(...call);
        return losses === this.#losses ? version : lostAnswer;
      },
      randomId: () => `-${++this.#ids}`,
      observers: noObservers,
    });
  }

  async #push(...call: PushCall): Promise<RulesVersion> {
    const [location, partitionKey, policy, rules, version] = structuredClone(call);
    this.pushes.push(call);
    await this.beforePush(...call);
    const name = nameOf(objectId(location), partitionKey, policy);
    const before = this.objects.get(name);
    const isNewer = before === undefined || compareVersions(version, before.version) >= 0;
    const now: HeldRules = isNewer ? { version, rules } : before;
    this.objects.set(name, now);
    await this.afterPush();
    return now.version;
  }
}

const nameOf = (object: string, partitionKey: string, policy: string): string =>
  JSON.stringify([object, partitionKey, policy]);

const objectNameIn = (objects: ObjectSettings, partitionKey: string): string =>
  objectId(objectLocation(objects, partitionKey));

/** The value of a change; throws when the change was refused. */
export function done<Value>(changed: Changed<Value>): Value {
  if (changed.kind !== "done") throw new Error(`expected "done", got "${changed.kind}"`);
  return changed.value;
}

const common = { sealedKey: null, written: null, expiresAtMs: null, note: null };

export const keyRule = (fields: Partial<RuleInput> = {}): RuleInput =>
  ({
    ...common,
    scope: "key",
    policy: "p",
    key,
    rule: { kind: "block" },
    objects: perKey,
    ...fields,
  }) as RuleInput;

export const policyRule = (rule: object, fields: Partial<RuleInput> = {}): RuleInput =>
  ({
    ...common,
    scope: "policy",
    policy: "p",
    key: null,
    rule,
    objects: null,
    ...fields,
  }) as RuleInput;

export const mode = (each: string): RuleInput => policyRule({ kind: "mode", mode: each });

/** The rules in a text that isolates receive. */
export const rulesIn = (text: string): PolicyRule[] => JSON.parse(text) as PolicyRule[];

export const info = (name: string, objects = perKey): PolicyInfo => ({
  name,
  mode: "enforce",
  objects,
  limits: [],
});

export const beat = (fields: Partial<BeatCall> = {}): BeatCall => ({
  isolate: "i",
  epoch: 0,
  versions: {},
  deployment: "d",
  policies: [info("p")],
  batches: [],
  tail: [],
  alerts: [],
  ...fields,
});
