/** Changes rules of keys, and sends checks to every isolate after each change. */
import { setTimeout } from "node:timers/promises";
import { change, check, type CheckAnswer } from "./admin-client.ts";

/** The policies of this measurement, one for each way of making decisions. They match no request for the origin. */
export const keyPolicies = [
  { name: "strict", limits: "1000000/hour", denyCache: false },
  { name: "remembered-denials", limits: "1/hour" },
  { name: "leased", limits: "1000000/hour", consistency: "leased" },
  { name: "eventual", limits: "1000000/hour", consistency: "eventual", syncEvery: "500ms" },
].map((policy) => ({
  ...policy,
  key: "header:x-key",
  match: { path: "/none" },
  timeout: "30s",
}));

const configuredLimit = 1_000_000;

export interface KeyChanges {
  readonly changes: number;
  /** Decisions that did not follow the newest rules. */
  readonly late: number;
  readonly decisions: number;
  /** Changes that the key's object had not yet confirmed when the admin API answered. */
  readonly pending: number;
}

type IsNew = (answer: CheckAnswer) => boolean;

/**
 * One rule is created, replaced twice and deleted. Each step returns a function that checks whether a decision follows
 * the newest rules.
 */
const steps = 4;

/**
 * Makes changes through random isolates. After each change, every isolate makes a strict decision at the same time.
 * @param random from 0 up to 1
 */
export async function changeKeys(urls: readonly URL[], changes: number, random: () => number): Promise<KeyChanges> {
  let [late, decisions, pending] = [0, 0, 0];
  const any = (): URL => urls[Math.floor(random() * urls.length)] as URL;
  for (let from = 0; from < changes; from += steps) {
    const key = `key-${from}`;
    const rule = new ChangingRule(key);
    for (let step = 0; step < Math.min(steps, changes - from); step++) {
      // Each change waits for the decisions after the previous one.
      // oxlint-disable-next-line no-await-in-loop
      const isNew = await rule.step(any(), step, 10 + from + step);
      if (rule.isPending) pending++;
      // oxlint-disable-next-line no-await-in-loop
      const answers = await Promise.all(urls.map((url) => check(url, { policy: "strict", key })));
      decisions += answers.length;
      late += answers.filter((answer) => !isNew(answer)).length;
    }
  }
  return { changes, late, decisions, pending };
}

class ChangingRule {
  isPending = false;
  readonly #key: string;
  #path = "/rules";
  #etag = "";

  constructor(key: string) {
    this.#key = key;
  }

  async step(url: URL, step: number, limit: number): Promise<IsNew> {
    const limits = { kind: "limits", limits: `${limit}/hour` };
    const showsLimit: IsNew = (answer) => answer.limits?.[0]?.limit === limit;
    switch (step) {
      case 0:
        await this.#send(url, "POST", { policy: "strict", key: this.#key, ...limits });
        return showsLimit;
      case 1:
        await this.#send(url, "PUT", limits);
        return showsLimit;
      case 2:
        await this.#send(url, "PUT", { kind: "block", note: "measured" });
        return ({ allowed, reason }) => allowed === false && reason === "deny";
      default:
        await this.#send(url, "DELETE");
        return (answer) => answer.limits?.[0]?.limit === configuredLimit;
    }
  }

  async #send(url: URL, method: string, body?: object): Promise<void> {
    const answer = await change(url, method, this.#path, {
      ...(body !== undefined && { body }),
      ...(method !== "POST" && { etag: this.#etag }),
    });
    const { id, state } = answer.body as { id?: string; state?: string };
    this.isPending = answer.status === 202 || state === "pending";
    if (id !== undefined) this.#path = `/rules/${id}`;
    this.#etag = answer.etag;
  }
}

/** The interval at which each isolate decides while a change is awaited. */
const pollMs = 20;
const patienceMs = 10_000;

/**
 * For each of several keys, the time from the confirmation of a rule until all isolates that have already decided the
 * key follow the rule.
 */
export async function delaysOfKeyRules(urls: readonly URL[], policy: string, keys: number): Promise<number[]> {
  const delays: number[] = [];
  for (let number = 0; number < keys; number++) {
    const key = `${policy}-${number}`;
    const limit = 100 + number;
    const decide = (url: URL): Promise<CheckAnswer> => check(url, { policy, key });
    // oxlint-disable no-await-in-loop
    for (let round = 0; round < 3; round++) await Promise.all(urls.map(decide));
    const body = { policy, key, kind: "limits", limits: `${limit}/hour` };
    await change(urls[number % urls.length] as URL, "POST", "/rules", { body });
    const startedMs = performance.now();
    const each = urls.map(async (url) => {
      while ((await decide(url)).limits?.[0]?.limit !== limit) {
        if (performance.now() - startedMs > patienceMs) throw new Error(`${key}: no new limit`);
        await setTimeout(pollMs);
      }
    });
    await Promise.all(each);
    // oxlint-enable no-await-in-loop
    delays.push(performance.now() - startedMs);
  }
  return delays;
}
