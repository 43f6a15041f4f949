/** When an isolate sends beats, and what it does when they fail. */
import { describe, expect, it } from "vitest";
import { beatTimes, eventsOf, Network } from "./network.ts";

const off = { kind: "mode", mode: "off" } as const;

describe("when a beat is due", () => {
  it("the first request of an isolate starts a beat, and the creation of an isolate starts none", async () => {
    const network = new Network();
    const isolate = network.isolate();
    await network.pass(60_000);
    expect(network.beats).toBe(0);
    await isolate.settledRequest();
    expect(network.beats).toBe(1);
  });

  it("until the first rule is made, a beat follows after 20 requests or 30 s, whichever is later", async () => {
    const network = new Network();
    const isolate = network.isolate();
    await isolate.settledRequest();
    const requests = (count: number): void => Array.from({ length: count }).forEach(() => isolate.request());
    requests(100);
    await network.pass(29_999);
    requests(1);
    await network.pass(0);
    expect(network.beats).toBe(1);
    await network.pass(1);
    requests(1);
    await network.pass(0);
    expect(network.beats).toBe(1);
    await network.pass(60_000);
    requests(19);
    await network.pass(0);
    expect(network.beats).toBe(0);
    requests(1);
    await network.pass(0);
    expect(network.beats).toBe(1);
  });

  it("after the first rule was made, a request starts a beat 5 s after the last one, and not 1 ms earlier", async () => {
    const network = new Network();
    await network.make(off);
    const isolate = network.isolate();
    await isolate.settledRequest();
    await network.pass(4_999);
    await isolate.settledRequest();
    expect(network.beats).toBe(1);
    await network.pass(1);
    await isolate.settledRequest();
    expect(network.beats).toBe(1);
  });

  it("while a console is open, a request starts a beat after 1 s, with rules and without", async () => {
    for (const hasRules of [false, true]) {
      const network = new Network();
      // oxlint-disable-next-line no-await-in-loop
      if (hasRules) await network.make(off);
      network.isWatched = true;
      const isolate = network.isolate();
      // oxlint-disable-next-line no-await-in-loop
      const times = await beatTimes(network, 3_000, 250, () => isolate.request());
      expect(times).toEqual([0, 1_000, 2_000]);
    }
  });

  it("an isolate that has answered a read of the statistics starts beats after 1 s, until a reply sets the usual interval", async () => {
    const network = new Network();
    const isolate = network.isolate();
    await isolate.settledRequest();
    isolate.client.watch();
    const times = await beatTimes(network, 29_000, 250, () => isolate.request());
    expect(times).toEqual([1_000]);
  });

  it("a read of the statistics waits for the counts of its isolate, but at most 500 ms, and at most once a second", async () => {
    const network = new Network();
    const isolate = network.isolate();
    await isolate.settledRequest();
    network.before = () => new Promise(() => undefined);
    let isRead = false;
    const read = async (): Promise<void> => {
      isRead = false;
      await isolate.client.report(isolate.waitUntil);
      isRead = true;
    };
    await network.pass(999);
    await read();
    expect([isRead, network.beats]).toEqual([true, 1]);
    await network.pass(1);
    const reading = read();
    await network.pass(499);
    expect([isRead, network.beats]).toEqual([false, 1]);
    await network.pass(101);
    await reading;
    expect(isRead).toBe(true);
  });

  it("an isolate without requests sends no beats, even if its rules are old", async () => {
    const network = new Network();
    await network.make(off);
    await network.isolate().settledRequest();
    await network.pass(3_600_000);
    expect(network.beats).toBe(1);
  });

  it("many requests while a beat is in flight start no second one", async () => {
    const network = new Network();
    const isolate = network.isolate();
    network.before = () => new Promise(() => undefined);
    for (let count = 0; count < 100; count++) isolate.request();
    await network.pass(4_000);
    isolate.request();
    expect(network.beats).toBe(1);
  });

  it("a clock that steps back does not delay the next beat", async () => {
    const network = new Network();
    await network.make(off);
    const isolate = network.isolate();
    await isolate.settledRequest();
    network.plane.clock.nowMs -= 3_600_000;
    await isolate.settledRequest();
    await isolate.settledRequest();
    expect(network.beats).toBe(2);
  });
});

describe("stale replies of objects", () => {
  /** The reply of an object that has seen the newest rules. */
  const newest = (network: Network) => [{ policy: "p", ...network.plane.control.policyState("p") }];

  it("newer rules of an object are in effect at once, and start a beat at most once a second", async () => {
    const network = new Network();
    const isolate = network.isolate();
    await isolate.settledRequest();
    const beats: number[] = [];
    for (let limit = 1; limit <= 5; limit++) {
      // oxlint-disable-next-line no-await-in-loop
      await network.make({ kind: "limits", limits: `${limit}/s` });
      isolate.client.adopt(newest(network), isolate.waitUntil);
      expect(isolate.limit()).toBe(limit);
      network.calls.splice(0);
      // oxlint-disable-next-line no-await-in-loop
      await network.pass(0);
      beats.push(network.beats);
      // oxlint-disable-next-line no-await-in-loop
      await network.pass(400);
    }
    expect(beats).toEqual([1, 0, 0, 1, 0]);
  });

  it("a stale reply starts no beat while one is in flight, or shortly after a failed one", async () => {
    const network = new Network();
    const isolate = network.isolate();
    const { promise, reject } = Promise.withResolvers<never>();
    network.before = () => promise;
    isolate.request();
    await network.make(off);
    isolate.client.adopt(newest(network), isolate.waitUntil);
    await eventsOf(() => {
      reject(new Error("down"));
      return network.pass(999);
    });
    isolate.client.adopt(newest(network), isolate.waitUntil);
    await network.pass(0);
    expect(network.beats).toBe(1);
    expect(isolate.policy()?.isOff).toBe(true);
  });
});

describe("beats that fail", () => {
  it("a failed beat is repeated after 1, 2, 4 and then every 5 s, and the failure is logged once until a beat succeeds", async () => {
    const network = new Network();
    await network.make(off);
    network.before = () => Promise.reject(new Error("down"));
    const isolate = network.isolate();
    let times: number[] = [];
    const events = await eventsOf(async () => {
      times = await beatTimes(network, 23_000, 500, () => isolate.request());
    });
    expect(times).toEqual([0, 1_000, 3_000, 7_000, 12_000, 17_000, 22_000]);
    expect(events).toEqual([{ event: "control-plane-silent", error: "Error: down" }]);
    network.before = () => Promise.resolve();
    await network.pass(5_000);
    await isolate.settledRequest();
    network.before = () => Promise.reject(new Error("down again"));
    await network.pass(5_000);
    expect(await eventsOf(() => isolate.settledRequest())).toHaveLength(1);
  });

  it("until the first rule is made, failed beats are repeated after up to 30 s", async () => {
    const network = new Network();
    const isolate = network.isolate();
    await isolate.settledRequest();
    await network.pass(30_000);
    network.before = () => Promise.reject(new Error("down"));
    network.calls.splice(0);
    const twentyRequests = (): unknown => Array.from({ length: 20 }, () => isolate.request());
    let times: number[] = [];
    await eventsOf(async () => {
      times = await beatTimes(network, 95_000, 1_000, twentyRequests);
    });
    const seconds = [0, 1, 3, 7, 15, 31, 61, 91];
    expect(times).toEqual(seconds.map((each) => each * 1_000));
  });

  it("an injected random number shortens the delay by up to half", async () => {
    const network = new Network();
    network.before = () => Promise.reject(new Error("down"));
    const isolate = network.isolate({ random: () => 0 });
    let times: number[] = [];
    await eventsOf(async () => {
      times = await beatTimes(network, 4_000, 500, () => isolate.request());
    });
    expect(times).toEqual([0, 500, 1_500, 3_500]);
  });

  it("a beat without an answer fails after 5 s, and the background work of its request ends", async () => {
    const network = new Network();
    await network.make(off);
    network.before = () => new Promise(() => undefined);
    const isolate = network.isolate();
    isolate.request();
    const events = await eventsOf(() => network.pass(5_000));
    expect(events).toEqual([{ event: "control-plane-silent", error: "DeadlineExceeded: no answer within 5000 ms" }]);
    await Promise.all(isolate.work);
    network.before = () => Promise.resolve();
    await network.pass(1_000);
    await isolate.settledRequest();
    expect(isolate.policy()?.isOff).toBe(true);
  });

  it("when the platform cancels the request that sends a beat, with its timers, the beat is repeated after its deadline", async () => {
    const network = new Network();
    network.before = () => new Promise(() => undefined);
    const isolate = network.isolate();
    const { clock } = network.plane;
    const { after } = clock;
    Object.assign(clock, { after: () => () => undefined });
    isolate.request();
    await network.pass(5_000);
    Object.assign(clock, { after });
    const events = await eventsOf(() => isolate.settledRequest());
    expect(events).toMatchObject([{ event: "control-plane-silent" }]);
    await network.pass(1_000);
    await isolate.settledRequest();
    expect(network.beats).toBe(2);
  });

  it("the reply to a beat that has failed is applied when it arrives late", async () => {
    const network = new Network();
    await network.make(off);
    const { promise, resolve } = Promise.withResolvers<undefined>();
    network.before = () => promise;
    const isolate = network.isolate();
    isolate.request();
    await eventsOf(() => network.pass(5_000));
    expect(isolate.policy()?.isOff).toBe(false);
    resolve(undefined);
    await network.pass(0);
    expect(isolate.policy()?.isOff).toBe(true);
  });

  it("no request fails when the control plane throws or returns an invalid reply", async () => {
    const network = new Network();
    const isolate = network.isolate();
    network.after = () => Promise.resolve({} as never);
    const events = await eventsOf(() => isolate.settledRequest());
    expect(events).toMatchObject([{ event: "control-plane-silent" }]);
    expect(isolate.limit()).toBe(10);
    await expect(Promise.all(isolate.work)).resolves.toHaveLength(1);
  });

  it("rules are in effect within 10 s after the end of an outage of the control plane", async () => {
    for (const fault of [() => Promise.reject(new Error("down")), () => new Promise(() => undefined)]) {
      const network = new Network();
      await network.make({ kind: "limits", limits: "1/s" });
      const isolate = network.isolate();
      await isolate.settledRequest();
      network.before = fault;
      await eventsOf(() => beatTimes(network, 40_000, 1_000, () => isolate.request()));
      await network.make({ kind: "limits", limits: "2/s" });
      network.before = () => Promise.resolve();
      const startMs = network.nowMs;
      await eventsOf(async () => {
        while (isolate.limit() !== 2) {
          isolate.request();
          // oxlint-disable-next-line no-await-in-loop
          await network.pass(250);
        }
      });
      expect(network.nowMs - startMs).toBeLessThanOrEqual(10_000);
    }
  });
});
