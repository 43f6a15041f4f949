/** An isolate that decides requests with the real limiter client, control client and statistics. */
import { AsyncLocalStorage } from "node:async_hooks";
import { createHash } from "node:crypto";
import type { Policy } from "../../../src/policy/policy.ts";
import type { PolicyRules } from "../../../src/policy/runtime-rules.ts";
import { type KeyResolution, resolveCallerKey } from "../../../src/policy/resolve-key.ts";
import { ControlClient } from "../../../src/control/isolate/control-client.ts";
import { IsolateStatistics } from "../../../src/control/isolate/statistics.ts";
import type { BeatCall } from "../../../src/control/protocol.ts";
import { recordOutcomes } from "../../../src/http/record-outcomes.ts";
import { objectId } from "../../../src/limiter/protocol.ts";
import { decideByNewestRules, type RequestScope } from "../../../src/limiter/isolate/newer-rules-retry.ts";
import { LimiterClient } from "../../../src/limiter/isolate/client.ts";
import { allows, type Outcome, type Spend, type ChargeResult } from "../../../src/limiter/isolate/outcome.ts";
import type { Clock } from "../../../src/limiter/clock.ts";
import type { World } from "../world.ts";
import type { Checks } from "./checks.ts";
import { type DeployedPolicy, partitionKeyOf } from "./configuration.ts";
import type { KeyObjects } from "./key-objects.ts";
import type { SimulatedPlane } from "./plane.ts";
import { resolvedBy } from "./precedence-reference.ts";
import { type Counted, countedStatistics } from "./counted-statistics.ts";
import type { SpendReference } from "./spend-reference.ts";
import { isOlder } from "./stale-reference.ts";
import type { Wire } from "./wire.ts";

export interface IsolateParts {
  readonly world: World;
  readonly checks: Checks;
  readonly objects: KeyObjects;
  readonly plane: SimulatedPlane;
  readonly spends: SpendReference;
  /** Carries calls to the objects. */
  readonly objectWire: Wire;
  /** Carries beats to the control plane. */
  readonly beatWire: Wire;
}

export interface IsolateSettings {
  readonly deployment: readonly DeployedPolicy[];
  readonly codeVersion: string;
  /** Whether the isolate has a control plane. */
  readonly isControlled: boolean;
  readonly aheadMs: number;
}

export interface SimulatedRequest {
  readonly number: number;
  readonly key: string;
  readonly policies: readonly string[];
  readonly cost: number;
  /** The actual cost to which all spends are settled as reservations; null for spends without a reservation. */
  readonly settledCost: number | null;
}

/** A request with its outcomes, for comparisons of two runs. */
export interface Answered {
  readonly request: number;
  readonly tookMs: number;
  readonly outcomes: readonly string[];
}

type Objects = ConstructorParameters<typeof LimiterClient>[0];

const methods = ["decide", "lease", "giveBackSlices", "sync", "refund", "forget", "look"].concat([
  "reserve",
  "renew",
  "settle",
]);
const reservationTtlMs = 20_000;

/** The request on whose behalf the current code runs. */
const currentRequest = new AsyncLocalStorage<number>();

const hash = async (text: string): Promise<string> => createHash("sha256").update(text).digest("base64url");

interface Decided {
  readonly spends: readonly Spend[];
  readonly admission: ChargeResult | null;
  readonly resolutions: readonly KeyResolution[];
}

export class Isolate {
  readonly #parts: IsolateParts;
  readonly settings: IsolateSettings;
  readonly #client: LimiterClient;
  readonly control: ControlClient | null;
  readonly counted: Counted;
  readonly #statistics: IsolateStatistics | null;
  isAlive = true;
  readonly answered: Answered[] = [];
  /** The rules of each policy at the last read. */
  readonly #known = new Map<string, PolicyRules>();

  constructor(parts: IsolateParts, settings: IsolateSettings) {
    this.#parts = parts;
    this.settings = settings;
    const clock = this.#clock();
    this.counted = countedStatistics(clock);
    this.#statistics = settings.isControlled ? this.counted.statistics : null;
    // Each call belongs to one request, so that the charges of requests can be counted.
    const options = { joinsChecks: false };
    this.#client = new LimiterClient(this.#namespace(), clock, this.#statistics, options);
    this.control = settings.isControlled
      ? new ControlClient({
          policies: settings.deployment.map(({ policy }) => policy),
          objects: { getByName: () => ({ beat: (call) => this.#beat(call) }) },
          codeVersion: settings.codeVersion,
          hash,
          statistics: this.counted.statistics,
          clock,
        })
      : null;
  }

  /** Stops the isolate without warning. */
  crash(): void {
    this.isAlive = false;
  }

  readonly #waitUntil = (work: Promise<unknown>): void => void work.catch(() => undefined);

  async request(request: SimulatedRequest): Promise<void> {
    if (!this.isAlive) return;
    const sentAtMs = this.#parts.world.nowMs;
    await currentRequest.run(request.number, async () => {
      this.control?.touch(this.#waitUntil);
      const { spends, admission, resolutions } = await decideByNewestRules(this.control, this.#waitUntil, (scope) =>
        this.#decide(request, scope),
      );
      const blocked = resolutions.filter(({ kind }) => kind === "blocked");
      const denying = blocked.filter(({ policy }) => !policy.isDryRun);
      const tookMs = this.#parts.world.nowMs - sentAtMs;
      const outcomes = admission === null ? ["blocked"] : admission.outcomes.map(describe);
      this.answered.push({ request: request.number, tookMs, outcomes });
      for (const { policy } of denying) this.#statistics?.count(policy.name, "blocked");
      if (admission === null) return;
      recordOutcomes({ spends, admission, resolutions }, { statistics: this.#statistics });
      this.#checkCharges(request, admission);
      if (request.settledCost !== null && !admission.isRefused) this.#settleLater(request, admission);
    });
  }

  /** Forgets the usage of a key under a policy. */
  async forget(policyName: string, key: string): Promise<void> {
    const policy = this.#policies().find(({ name }) => name === policyName);
    if (policy !== undefined) await this.#client.forget(policy, partitionKeyOf(key));
  }

  /** The rules of a policy that the isolate has. */
  rulesOf(policy: string): PolicyRules | null {
    return this.#policies().find(({ name }) => name === policy)?.rules ?? null;
  }

  async #decide(request: SimulatedRequest, scope: RequestScope): Promise<Decided> {
    const applied = this.#policies().filter(({ name }) => request.policies.includes(name));
    for (const policy of applied) this.#checkRules(policy);
    const resolutions = applied.map((policy) => this.#resolve(policy, request.key));
    const isBlocked = resolutions.some(({ kind, policy }) => kind === "blocked" && !policy.isDryRun);
    if (isBlocked) return { spends: [], admission: null, resolutions };
    const spends = resolutions.flatMap(({ kind, policy }) => {
      if (kind !== "charge") return [];
      const spend = { policy, partitionKey: partitionKeyOf(request.key), cost: request.cost };
      return request.settledCost === null ? spend : { ...spend, ttlMs: reservationTtlMs };
    });
    const admission = await this.#client.admit(spends, scope);
    return { spends, admission, resolutions };
  }

  #resolve(policy: Policy, key: string): KeyResolution {
    const resolution = resolveCallerKey(policy, [key]);
    if (resolution === null) throw new Error("the key fits the policy");
    const facts = this.settings.deployment.find(({ facts: { name } }) => name === policy.name)?.facts;
    if (facts === undefined) throw new Error("the policy was deployed");
    const { kind, policy: resolved } = resolution;
    const nowMs = this.#clock().now();
    const expected = resolvedBy(facts, policy.rules?.text ?? "[]", { key, nowMs });
    const limit = kind === "charge" ? (resolved.limits[0]?.limit ?? 0) : 0;
    const actual = [kind, limit, resolved.isDryRun];
    this.#parts.checks.check(
      "precedence: an isolate resolves a key as the table states",
      JSON.stringify(actual) === JSON.stringify(expected),
      () => `${policy.name} ${key}: ${actual.join()} instead of ${expected.join()} by ${policy.rules?.text}`,
    );
    return resolution as KeyResolution;
  }

  #checkRules({ name, rules }: Policy): void {
    if (rules === null) return;
    const known = this.#known.get(name);
    this.#parts.checks.check(
      "isolates: rules never become older",
      known === undefined || !isOlder(rules, known),
      () => `${name}: ${JSON.stringify(rules)} after ${JSON.stringify(known)}`,
    );
    this.#known.set(name, rules);
  }

  /** Checks that a request which the object of a strict policy has admitted is charged once. */
  #checkCharges({ number }: SimulatedRequest, { outcomes, isRefused }: ChargeResult): void {
    for (const outcome of outcomes) {
      const { policy } = outcome;
      const isCharged = !isRefused && outcome.kind === "decided" && allows(outcome);
      const isFree = outcome.kind === "decided" && outcome.keyRule !== undefined;
      if (!isCharged || isFree || policy.consistency.kind !== "strict") continue;
      const charges = this.#parts.spends.chargesOf(number, policy.name);
      this.#parts.checks.check(
        "spends: a request is charged at most once",
        charges === 1,
        () => `request ${number} was admitted, and charged ${charges} times by ${policy.name}`,
      );
    }
  }

  #settleLater({ number, settledCost }: SimulatedRequest, admission: ChargeResult): void {
    const { world } = this.#parts;
    world.at(world.nowMs + 300 * (1 + (number % 5)), () => {
      if (this.isAlive) this.#waitUntil(admission.settle(() => settledCost ?? 0));
    });
  }

  #policies(): readonly Policy[] {
    return this.control?.policies() ?? this.settings.deployment.map(({ policy }) => policy);
  }

  #clock(): Clock {
    const { now, after } = this.#parts.world.clock(this.settings.aheadMs);
    return { now, after: (afterMs, act) => after(afterMs, () => this.isAlive && act()) };
  }

  #namespace(): Objects {
    const { objects, objectWire, spends } = this.#parts;
    const getByName = (name: string): object =>
      Object.fromEntries(
        methods.map((method) => [
          method,
          (...call: readonly unknown[]) => {
            if (!this.isAlive) return new Promise(() => undefined);
            const sent = structuredClone(call);
            const request = currentRequest.getStore() ?? null;
            spends.sent(method, sent[0], request);
            const object = objects.get(objectId({ name, locationHint: null, jurisdiction: null }));
            return objectWire.send(() => object.call(method, sent, request));
          },
        ]),
      );
    return { getByName } as unknown as Objects;
  }

  #beat(call: BeatCall) {
    const { plane, beatWire } = this.#parts;
    if (!this.isAlive) return new Promise<never>(() => undefined);
    const sent = structuredClone(call);
    const recorded = this.counted.closed;
    return beatWire.send(async () => {
      const reply = await plane.call((control) => {
        this.counted.arrived(recorded);
        return structuredClone(control.beat(structuredClone(sent)));
      });
      return this.isAlive ? reply : new Promise<never>(() => undefined);
    });
  }
}

const describe = (outcome: Outcome): string =>
  outcome.decision === null ? outcome.kind : `${outcome.kind} ${outcome.decision.allowed} ${outcome.keyRule ?? ""}`;
