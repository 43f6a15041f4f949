/**
 * The demo traffic of `npm start`: what visitors send, and that it reaches the local Worker and the demo origin only.
 */
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { parseConfig, demoLimits } from "../../src/policy/vars/config.ts";
import { demoTrafficObstacle, demoVisitors, type ExampleRequest } from "../../src/cli/demo.ts";
import { advise } from "../../src/advisor/search/advise.ts";
import { parseGoal } from "../../src/advisor/search/goal.ts";
import { timelinesOf } from "../advisor/replay/timelines-of.ts";
import { checkout, freePort, printed, type Run, runNpm, stopped } from "../system/checkout.ts";

const secret = "a secret of thirty-two characters or more";

interface Sent extends ExampleRequest {
  readonly address: string;
}

/** The requests that the demo visitors send within a number of seconds. */
function sent(variables: object, seconds: number): Sent[] {
  const visitors = demoVisitors(parseConfig({ KEY_SECRET: secret, ...variables }));
  const ticks = Array.from({ length: seconds * 10 }, (_, tick) => tick);
  return ticks.flatMap((tick) =>
    visitors.flatMap(({ address, requestAt }) => {
      const request = requestAt(tick);
      return request === null ? [] : [{ address, ...request }];
    }),
  );
}

describe("the demo traffic", () => {
  it("eight demo visitors stay within the demo limits, two exceed them, and many others send one request each", () => {
    const counts = Map.groupBy(sent(demoLimits, 10), ({ address }) => address);
    const sums = [...counts].map(([address, { length }]) => [address, length]);
    expect(sums.filter(([, count]) => count === 4)).toHaveLength(8);
    expect(sums.filter(([, count]) => count === 1)).toHaveLength(50);
    expect(Object.fromEntries(sums.filter(([, count]) => count !== 4 && count !== 1))).toEqual({
      "198.51.100.23": 50,
      "2001:db8:bad::1": 20,
    });
  });

  it("every address of demo traffic is reserved for documentation, and no two share an IPv6 network", () => {
    const addresses = new Set(sent(demoLimits, 200).map(({ address }) => address));
    expect(addresses.size).toBe(1_010);
    for (const address of addresses) {
      expect(address).toMatch(/^(?:203\.0\.113\.\d+|198\.51\.100\.\d+|2001:db8:[0-9a-f]+::1)$/);
    }
  });

  it("each demo visitor sends its own API key, and all policies get requests", () => {
    const POLICIES = [
      { name: "api", match: { path: "/api/*" }, key: "header:X-Api-Key", limits: "9/s" },
      { name: "sign-in", match: { methods: ["POST"], path: "/sign-in" }, limits: "5/minute" },
      { name: "proxied", key: "ip", trustedProxies: 2, limits: "9/s" },
    ];
    const all = sent({ ORIGIN: "route", POLICIES }, 20);
    const keys = all.map(({ fields }) => fields.get("x-api-key") ?? fields.get("X-Api-Key"));
    const known = new Set(keys.filter((key) => key !== undefined));
    expect(known).toContain("greedy");
    for (let visitor = 1; visitor <= 8; visitor++) expect(known).toContain(`visitor-${visitor}`);
    expect(new Set(all.map(({ method, target }) => `${method} ${target}`))).toEqual(
      new Set(["GET /api/example", "POST /sign-in", "GET /hello"]),
    );
    const attack = all.filter(({ address }) => address === "2001:db8:bad::1");
    expect(new Set(attack.map(({ target }) => target))).toEqual(new Set(["/sign-in"]));
    const proxied = all.filter(({ fields }) => fields.has("X-Forwarded-For"));
    expect(proxied.length).toBeGreaterThan(0);
    for (const { address, fields } of proxied) {
      expect(fields.get("X-Forwarded-For")).toBe(`${address}, 127.0.0.1`);
    }
  });

  it("npm start sends no demo traffic when ORIGIN or ALERT_WEBHOOK is set", () => {
    const setup = { hasDemoOrigin: true, variables: {} } as Parameters<typeof demoTrafficObstacle>[0];
    expect(demoTrafficObstacle(setup)).toBeNull();
    expect(demoTrafficObstacle({ ...setup, hasDemoOrigin: false })).toMatch(/^ORIGIN is set/);
    const variables = { ALERT_WEBHOOK: "https://hooks.example.com/1" };
    expect(demoTrafficObstacle({ ...setup, variables })).toMatch(/^ALERT_WEBHOOK is set/);
  });
});

describe("the advice for demo traffic", () => {
  it("from four minutes of demo traffic, the advisor recommends a limit for its default goal, which denies the greedy visitor and the attacker", () => {
    const visitors = demoVisitors(parseConfig({ KEY_SECRET: secret, ...demoLimits }));
    const arrivals = visitors.flatMap(({ address, requestAt }) =>
      Array.from({ length: 2_400 }, (_, tick) => tick)
        .filter((tick) => requestAt(tick) !== null)
        .map((tick) => ({ key: address, atMs: tick * 100 })),
    );
    // A test of the console's advisor holds that this is its default goal.
    const steps = advise(timelinesOf(arrivals), parseGoal("deny at most 1 key in 100"));
    let step = steps.next();
    while (step.done !== true) step = steps.next();
    const { recommendation, outliers } = step.value;
    expect(recommendation.kind).toBe("recommended");
    expect(outliers.filter(({ denied }) => denied > 0).map(({ key }) => key)).toEqual([
      "198.51.100.23",
      "2001:db8:bad::1",
    ]);
  });
});

describe("npm start -- --demo-traffic", () => {
  const { folder, configure, remove } = checkout();
  const received: string[] = [];
  const origin = createServer((request, response) => {
    received.push(request.url ?? "");
    response.end();
  });
  let run: Run;
  let port = 0;

  beforeAll(async () => {
    origin.listen(0, "127.0.0.1");
    await once(origin, "listening");
    port = await freePort();
    run = runNpm(folder, "start", "--", "--port", String(port), "--demo-traffic");
    await printed(run, "Demo traffic:");
  });
  afterAll(async () => {
    await stopped(run);
    remove();
    origin.close();
  });

  const ask = async (path: string): Promise<unknown> => {
    const text = readFileSync(join(folder, ".dev.vars"), "utf8");
    const token = /^ADMIN_TOKENS="(.+)"$/m.exec(text)?.[1] ?? "";
    const url = `http://localhost:${port}/_headgate/api${path}`;
    const response = await fetch(url, { headers: { Authorization: `Bearer ${token}` } });
    return response.json();
  };
  const until = (check: () => Promise<void>): Promise<void> => vi.waitFor(check, { timeout: 60_000, interval: 500 });

  interface Counts {
    readonly points: readonly { readonly outcomes: Readonly<Record<string, number>> }[];
  }
  const countOf = async (outcome: string): Promise<number> => {
    const { points } = (await ask("/stats")) as Counts;
    return points.reduce((sum, { outcomes }) => sum + (outcomes[outcome] ?? 0), 0);
  };

  it("the statistics of demo traffic show allowed and denied requests, and the greedy visitor has the most denials", async () => {
    await until(async () => {
      expect(await countOf("allowed")).toBeGreaterThan(20);
      expect(await countOf("denied")).toBeGreaterThan(40);
      expect(await ask("/top?policy=default&by=denied&reveal=true")).toMatchObject({
        keys: [{ key: "ip=198.51.100.23" }, { key: "ip=2001:db8:bad:0::/64" }],
      });
    });
  });

  it("setting ORIGIN pauses the demo traffic before the origin takes effect, and removing it resumes the traffic", async () => {
    const { port: originPort } = origin.address() as AddressInfo;
    const before = run.output().length;
    configure([`ORIGIN = "http://127.0.0.1:${originPort}"`]);
    await printed(run, "Demo traffic is paused: ORIGIN is set", before);
    await fetch(`http://localhost:${port}/of-the-test`);
    expect(received).toEqual(["/of-the-test"]);
    const paused = run.output().length;
    configure([]);
    await printed(run, "Demo traffic: about", paused);
    const denied = await countOf("denied");
    await until(async () => expect(await countOf("denied")).toBeGreaterThan(denied));
    expect(received).toEqual(["/of-the-test"]);
  });

  it("when ORIGIN is set, the command for demo traffic ends with an error and sends nothing", async () => {
    const other = checkout();
    const { port: originPort } = origin.address() as AddressInfo;
    other.configure([`ORIGIN = "http://127.0.0.1:${originPort}"`]);
    const own = String(await freePort());
    const refused = runNpm(other.folder, "start", "--", "--port", own, "--demo-traffic");
    expect(await refused.ended).toBe(1);
    expect(refused.output()).toContain("--demo-traffic: ORIGIN is set");
    other.remove();
  });
});
