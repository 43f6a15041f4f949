/** A site in one process: its policies, one isolate, the objects and the statistics of its requests. */
import { parseConfig } from "../../src/policy/vars/config.ts";
import { fromBase64Url } from "../../src/control/base64url.ts";
import type { PolicyCounts, StatisticsBatch } from "../../src/control/protocol.ts";
import { decodeSamples } from "../../src/control/sample-codec.ts";
import { attributesOf, targetOf } from "../../src/http/attributes.ts";
import { applicablePolicies, enforcePolicies, reservationTtlMs } from "../../src/http/proxy/enforce.ts";
import { type Forward, forwardTo } from "../../src/http/proxy/forward.ts";
import { createRuntime, type Runtime } from "../../src/http/runtime.ts";
import { type KeyRule, objectLocation } from "../../src/limiter/protocol.ts";
import { TestIsolate } from "../fakes/isolate.ts";

export const secret = "a secret of at least 32 characters";
const common = { strategy: "fixed-window", denyCache: false };

export class CountedSite {
  readonly isolate = new TestIsolate();
  readonly runtime: Runtime;
  readonly #config: ReturnType<typeof parseConfig>;
  readonly #work: Promise<unknown>[] = [];

  constructor(policies: readonly object[], variables: object = {}) {
    this.#config = parseConfig({
      KEY_SECRET: secret,
      ADMIN_TOKENS: JSON.stringify([{ name: "ops", token: "0123456789abcdef", may: ["read"] }]),
      ORIGIN: "https://origin.example",
      POLICIES: policies.map((policy, index) => ({ name: `p${index}`, ...common, ...policy })),
      ...variables,
    });
    const beat = (): never => {
      throw new Error("no beat is expected");
    };
    this.runtime = createRuntime(this.#config, {
      RATE_LIMITER: this.isolate.namespace(),
      CONTROL_PLANE: { getByName: () => ({ beat }) },
    });
  }

  /** The origin's answer to a request. */
  forwardTo: Forward = async () => new Response("answered");

  readonly waitUntil = (work: Promise<unknown>): void => void this.#work.push(work);

  /** Sends a request through the proxy. */
  async request(
    headers: Readonly<Record<string, string>> = {},
    init: RequestInit = {},
    tenant: string | null = null,
  ): Promise<number> {
    const request = new Request("https://site.example/", {
      ...init,
      headers: { "CF-Connecting-IP": "192.0.2.1", ...headers },
    });
    const attributes = attributesOf(request);
    const { runtime, waitUntil } = this;
    const options = { runtime, attributes, tenant, reservationTtlMs, waitUntil };
    const response = await enforcePolicies(request, () => applicablePolicies(runtime, attributes), {
      ...options,
      forward: this.forwardTo,
    });
    await response.text();
    return response.status;
  }

  /** The sampled events of a policy by key, in the batch since the last call. */
  async samples(policy = "p0"): Promise<ReturnType<typeof decodeSamples>> {
    const events = (await this.batch())?.samples?.[policy]?.events;
    return events === undefined ? new Map() : decodeSamples(fromBase64Url(events) ?? new Uint8Array());
  }

  /** Sends a request straight to the origin, which no policy decides. */
  async forward(): Promise<number> {
    const failed = (): void => this.runtime.statistics?.originFailed();
    const forward = forwardTo(this.#config, async () => "headgate", failed);
    const request = new Request("https://site.example/");
    return (await forward(request, targetOf(request), undefined)).status;
  }

  async setKeyRule(rule: KeyRule, address = "192.0.2.1"): Promise<void> {
    const [policy] = this.runtime.policies;
    if (policy === undefined) throw new Error("a policy was configured");
    const key = await this.runtime.partitions.partitionKey(policy.key, [address]);
    const object = this.isolate.object(objectLocation(policy.objects, key).name);
    object.setRules(key, policy.name, [rule], { epoch: 1, version: 1 });
  }

  /** The counts of a policy since the last call. */
  async counts(policy = "p0"): Promise<PolicyCounts | undefined> {
    return (await this.batch())?.policies[policy];
  }

  /**
   * Waits for the work of all requests, and returns the batch since the last call; undefined when nothing was recorded.
   */
  async batch(): Promise<StatisticsBatch | undefined> {
    const work = Promise.all(this.#work.splice(0));
    // Eventual policies sync after a second.
    await this.isolate.clock.pass(1_000);
    await work;
    const batch = (await this.runtime.statistics?.batches())?.at(-1);
    this.runtime.statistics?.stored(batch?.seq ?? 0);
    return batch;
  }

  async outcomes(policy = "p0"): Promise<PolicyCounts["outcomes"] | undefined> {
    return (await this.allOutcomes())[policy];
  }

  /** The outcomes of each policy since the last call. */
  async allOutcomes(): Promise<Record<string, PolicyCounts["outcomes"]>> {
    const policies = Object.entries((await this.batch())?.policies ?? {});
    return Object.fromEntries(policies.map(([name, { outcomes }]) => [name, outcomes]));
  }
}
