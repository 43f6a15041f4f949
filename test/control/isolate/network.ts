/** Isolates and a control plane, connected by calls that a test can delay, lose and repeat. */
import { createHash } from "node:crypto";
import { vi } from "vitest";
import type { Policy } from "../../../src/policy/policy.ts";
import type { PolicyRule } from "../../../src/policy/runtime-rules.ts";
import { ControlClient, type ControlClientOptions } from "../../../src/control/isolate/control-client.ts";
import type { BeatCall, BeatReply } from "../../../src/control/protocol.ts";
import { configOf } from "../../policy/parsed.ts";
import { MemorySql } from "../../fakes/memory-sql.ts";
import { RecordedKeys } from "../../../src/control/isolate/traffic-sample.ts";
import { done, policyRule, TestPlane } from "../object/test-plane.ts";

/** The policies "p" and "q" of a configuration. */
export const configured = (fields: object = {}): readonly Policy[] =>
  configOf({
    POLICIES: [
      { name: "p", limits: "10/minute", ...fields },
      { name: "q", limits: "20/minute" },
    ],
  }).policies;

export type BeatSource = ControlClientOptions["statistics"];

export const noStatistics: BeatSource = {
  batches: async () => [],
  stored: () => undefined,
  startMinute: () => undefined,
  setTailed: () => undefined,
  tail: async () => [],
  alerts: () => [],
  recorded: new RecordedKeys(),
};

interface IsolateOptions {
  readonly policies?: readonly Policy[];
  readonly statistics?: BeatSource;
  readonly random?: () => number;
  readonly codeVersion?: string;
}

export class Network {
  readonly plane = new TestPlane();
  /** All calls that were sent, including those that failed. */
  readonly calls: BeatCall[] = [];
  isWatched = false;
  isTailed = false;
  /** Delays a call until the returned promise resolves, and fails the call when the promise rejects. */
  before: (call: BeatCall) => Promise<unknown> = () => Promise.resolve();
  /** Delays, loses or replaces a reply. */
  after: (reply: BeatReply) => Promise<BeatReply> = (reply) => Promise.resolve(reply);

  get nowMs(): number {
    return this.plane.clock.nowMs;
  }

  /** The number of calls since the last read of this number. */
  get beats(): number {
    return this.calls.splice(0).length;
  }

  isolate(options: IsolateOptions = {}): ControlledIsolate {
    return new ControlledIsolate(this, options);
  }

  /** Replaces the control plane with a new one that has no rules. */
  recreatePlane(): void {
    this.plane.restart(new MemorySql());
  }

  async send(call: BeatCall): Promise<BeatReply> {
    this.calls.push(structuredClone(call));
    await this.before(call);
    const { isWatched, isTailed } = this;
    const reply = this.plane.control.beat(structuredClone(call));
    return this.after(structuredClone({ ...reply, isWatched, isTailed }));
  }

  /** Makes a policy rule. */
  async make(rule: WithoutId<PolicyRule>, policy = "p", expiresAtMs: number | null = null) {
    return this.plane.created(policyRule(rule, { policy, expiresAtMs }));
  }

  async remove({ id, revision }: { readonly id: string; readonly revision: number }) {
    const actor = { name: "ada", via: "token" } as const;
    return done(await this.plane.control.deleteRule({ id, revision, actor, note: null }));
  }

  pass(ms: number): Promise<void> {
    return this.plane.clock.pass(ms);
  }
}

type WithoutId<Each> = Each extends unknown ? Omit<Each, "id" | "expiresAtMs"> : never;

export class ControlledIsolate {
  readonly client: ControlClient;
  /** The work passed to `waitUntil`. */
  readonly work: Promise<unknown>[] = [];
  readonly #network: Network;

  constructor(network: Network, { policies = configured(), codeVersion = "1", ...others }: IsolateOptions) {
    this.#network = network;
    this.client = new ControlClient({
      policies,
      codeVersion,
      objects: { getByName: () => ({ beat: (call) => network.send(call) }) },
      hash: async (text) => createHash("sha256").update(text).digest("base64url"),
      statistics: noStatistics,
      clock: network.plane.clock,
      ...others,
    });
  }

  readonly waitUntil = (work: Promise<unknown>): void => void this.work.push(work);

  /** Makes a request. Returns the policies that decide it. */
  request(): readonly Policy[] {
    this.client.touch(this.waitUntil);
    return this.client.policies();
  }

  /** Makes a request, and waits until its beat is answered. */
  async settledRequest(): Promise<void> {
    this.request();
    await this.#network.pass(0);
  }

  /** The limit that is in effect for a policy. */
  limit(name = "p"): number | undefined {
    return this.policy(name)?.limits[0]?.limit;
  }

  /** The version of a policy's rules. */
  version(name = "p"): number | undefined {
    return this.policy(name)?.rules?.version;
  }

  policy(name = "p"): Policy | undefined {
    return this.client.policies().find((policy) => policy.name === name);
  }
}

/** The events reported while `act` runs. */
export async function eventsOf(act: () => Promise<unknown>): Promise<unknown[]> {
  const logged = vi.spyOn(console, "error").mockReturnValue(undefined);
  await act();
  const events = logged.mock.calls.map(([line]): unknown => JSON.parse(String(line)));
  logged.mockRestore();
  return events;
}

/** Makes requests at an interval. Returns the times of the beats that they start, in ms from now. */
export async function beatTimes(network: Network, forMs: number, stepMs: number, request: () => unknown) {
  const startMs = network.nowMs;
  const times: number[] = [];
  let known = network.calls.length;
  while (network.nowMs - startMs < forMs) {
    const atMs = network.nowMs - startMs;
    request();
    // oxlint-disable-next-line no-await-in-loop
    await network.pass(stepMs);
    if (network.calls.length > known) times.push(atMs);
    known = network.calls.length;
  }
  return times;
}
