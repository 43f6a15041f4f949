/** How rules reach isolates: through beats, with several isolates and deployments, and after the loss of the control plane. */
import { describe, expect, it } from "vitest";
import { configured, type ControlledIsolate, Network } from "./network.ts";

const limits = (limit: number) => ({ kind: "limits", limits: `${limit}/minute` }) as const;

/** The time until a limit is in effect in every isolate, when each gets a request at this interval. */
async function timeUntil(
  network: Network,
  isolates: readonly ControlledIsolate[],
  limit: number,
  stepMs: number,
): Promise<number> {
  const startMs = network.nowMs;
  while (isolates.some((isolate) => isolate.limit() !== limit)) {
    for (const isolate of isolates) isolate.request();
    // oxlint-disable-next-line no-await-in-loop
    await network.pass(stepMs);
    if (network.nowMs - startMs > 60_000) throw new Error("the rule does not arrive");
  }
  return network.nowMs - startMs;
}

const request = async (...isolates: readonly ControlledIsolate[]): Promise<void> => {
  // oxlint-disable-next-line no-await-in-loop
  for (const isolate of isolates) await isolate.settledRequest();
};

/** Before any rule exists, isolates send a beat after 30 s and 20 requests, so the first rule arrives then. */
async function untilFirstRule(network: Network, ...isolates: readonly ControlledIsolate[]) {
  await network.pass(30_000);
  for (const isolate of isolates) for (let count = 0; count < 20; count++) isolate.request();
  await network.pass(0);
}

describe("the propagation of policy rules", () => {
  it.each([
    [false, 5_100],
    [true, 1_100],
  ])("with traffic, and watched = %s, a rule is in effect in every isolate within %i ms", async (isWatched, mostMs) => {
    const network = new Network();
    network.isWatched = isWatched;
    await network.make(limits(1));
    const isolates = Array.from({ length: 5 }, () => network.isolate());
    for (const isolate of isolates) {
      // oxlint-disable-next-line no-await-in-loop
      await isolate.settledRequest();
      // oxlint-disable-next-line no-await-in-loop
      await network.pass(370);
    }
    for (let limit = 2; limit < 8; limit++) {
      // oxlint-disable-next-line no-await-in-loop
      await network.make(limits(limit));
      // oxlint-disable-next-line no-await-in-loop
      expect(await timeUntil(network, isolates, limit, 100)).toBeLessThanOrEqual(mostMs);
    }
  });

  it("the first rule ever made is in effect after 30 s and 20 requests", async () => {
    const network = new Network();
    const isolate = network.isolate();
    await request(isolate);
    await network.make(limits(1));
    await untilFirstRule(network, isolate);
    expect(isolate.limit()).toBe(1);
  });

  it("an idle isolate decides its first request by the rules it last knew, and the next by newer ones", async () => {
    const network = new Network();
    const first = await network.make(limits(1));
    const isolate = network.isolate();
    await request(isolate);
    await network.pass(3_600_000);
    await network.remove(first);
    await network.make(limits(2));
    const [policy] = isolate.request();
    expect(policy?.limits[0]?.limit).toBe(1);
    await network.pass(0);
    expect(isolate.limit()).toBe(2);
  });

  it("a new isolate decides its first request by the configuration, and the next by the rules", async () => {
    const network = new Network();
    await network.make(limits(1));
    const isolate = network.isolate();
    const [policy] = isolate.request();
    expect(policy?.limits[0]?.limit).toBe(10);
    await network.pass(0);
    expect(isolate.limit()).toBe(1);
  });

  it("a deleted rule ends with the next beat, and a rule that expires ends without a beat", async () => {
    const network = new Network();
    const rule = await network.make(limits(1));
    await network.make({ kind: "mode", mode: "off" }, "q", network.nowMs + 7_000);
    const isolate = network.isolate();
    await request(isolate);
    await network.remove(rule);
    expect([isolate.limit(), isolate.policy("q")?.isOff]).toEqual([1, true]);
    await network.pass(5_000);
    await request(isolate);
    expect(isolate.limit()).toBe(10);
    await network.pass(1_999);
    expect(isolate.policy("q")?.isOff).toBe(true);
    await network.pass(1);
    expect(isolate.policy("q")?.isOff).toBe(false);
  });

  it("a beat brings only the rules that have changed", async () => {
    const network = new Network();
    const sent: string[][] = [];
    network.after = (reply) => {
      sent.push(reply.changed.map(({ policy }) => policy));
      return Promise.resolve(reply);
    };
    await network.make(limits(1), "p");
    await network.make(limits(1), "q");
    const isolate = network.isolate();
    await request(isolate);
    await network.pass(5_000);
    await network.make(limits(2), "q");
    await request(isolate);
    await network.pass(5_000);
    await request(isolate);
    expect(sent).toEqual([["p", "q"], ["q"], []]);
  });
});

describe("beats on an unreliable network", () => {
  it("replies that arrive late or out of order do not bring back older rules", async () => {
    const network = new Network();
    await network.make(limits(1));
    const isolate = network.isolate();
    await request(isolate);
    const { promise, resolve } = Promise.withResolvers<undefined>();
    network.after = async (reply) => {
      await promise;
      return reply;
    };
    await network.make(limits(2));
    await network.pass(5_000);
    await request(isolate);
    // The reply with limit 2 is on its way while the deadline passes.
    await network.pass(5_000);
    network.after = (reply) => Promise.resolve(reply);
    await network.make(limits(3));
    await network.pass(1_000);
    await request(isolate);
    expect(isolate.limit()).toBe(3);
    resolve(undefined);
    await network.pass(0);
    expect(isolate.limit()).toBe(3);
  });

  it("rules in a reply that is lost arrive with the next beat", async () => {
    const network = new Network();
    await network.make(limits(1));
    const isolate = network.isolate();
    network.after = () => Promise.reject(new Error("lost"));
    await request(isolate);
    expect(isolate.limit()).toBe(10);
    network.after = (reply) => Promise.resolve(reply);
    await network.pass(1_000);
    await request(isolate);
    expect(isolate.limit()).toBe(1);
  });

  it("a beat that the platform sends twice changes nothing", async () => {
    const network = new Network();
    await network.make(limits(1));
    const isolate = network.isolate();
    network.after = async (reply) => {
      const call = network.calls.at(-1);
      return call === undefined ? reply : { ...reply, ...network.plane.control.beat(call) };
    };
    await request(isolate);
    expect([isolate.limit(), isolate.version()]).toEqual([1, 1]);
  });
});

describe("deployments of the configuration", () => {
  it("while two versions are deployed, each applies the rules to its own configuration", async () => {
    const network = new Network();
    await network.make({ kind: "mode", mode: "dry-run" });
    const old = network.isolate();
    const next = network.isolate({ policies: configured({ limits: "99/minute" }) });
    await request(old, next);
    expect([old.limit(), next.limit()]).toEqual([10, 99]);
    expect([old.policy()?.isDryRun, next.policy()?.isDryRun]).toEqual([true, true]);
    expect(old.version()).toBe(next.version());
  });

  it("after a roll-back of the configuration, the same rules apply over the earlier limits", async () => {
    const network = new Network();
    const next = network.isolate({ policies: configured({ limits: "99/minute" }) });
    await network.make(limits(1));
    await request(next);
    const rolledBack = network.isolate();
    await request(rolledBack);
    expect([next.limit(), rolledBack.limit()]).toEqual([1, 1]);
    expect(rolledBack.version()).toBe(next.version());
  });

  it("a renamed policy has no rules until some are made for its new name", async () => {
    const network = new Network();
    await network.make(limits(1), "p");
    const renamed = configured().map((policy) => (policy.name === "p" ? { ...policy, name: "renamed" } : policy));
    const isolate = network.isolate({ policies: renamed });
    await request(isolate);
    expect([isolate.limit("renamed"), isolate.version("renamed")]).toEqual([10, 0]);
    await network.make(limits(2), "renamed");
    await network.pass(5_000);
    await request(isolate);
    expect(isolate.limit("renamed")).toBe(2);
  });
});

describe("the loss of the control plane's storage", () => {
  it("a recreated control plane begins a later epoch without rules, in every isolate", async () => {
    const network = new Network();
    await network.make(limits(1));
    const isolates = [network.isolate(), network.isolate()];
    await request(...isolates);
    await network.pass(5_000);
    network.recreatePlane();
    await request(...isolates);
    expect(isolates.map((isolate) => isolate.limit())).toEqual([10, 10]);
    await network.make(limits(3));
    await untilFirstRule(network, ...isolates);
    expect(isolates.map((isolate) => isolate.limit())).toEqual([3, 3]);
  });

  it("a control plane restored from an older copy begins an epoch above that of the isolates, with the rules of the copy", async () => {
    const network = new Network();
    await network.make(limits(1));
    const copy = network.plane.storage.copy();
    await network.make(limits(2));
    const [informed, idle] = [network.isolate(), network.isolate()];
    await request(informed);
    expect(informed.limit()).toBe(2);
    network.plane.restart(copy);
    await network.pass(5_000);
    await request(informed, idle);
    expect([informed.limit(), idle.limit()]).toEqual([1, 1]);
    expect(informed.policy()?.rules).toEqual(idle.policy()?.rules);
  });

  it("a control plane whose clock was set back begins an epoch above the one that isolates know", async () => {
    const network = new Network();
    await network.make(limits(1));
    const isolate = network.isolate();
    await request(isolate);
    network.plane.clock.nowMs -= 3_600_000;
    network.recreatePlane();
    await request(isolate);
    expect(isolate.limit()).toBe(10);
    await network.make(limits(4));
    await untilFirstRule(network, isolate);
    expect(isolate.limit()).toBe(4);
  });
});
