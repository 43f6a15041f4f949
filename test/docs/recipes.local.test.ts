/** Sends the traffic that each how-to page describes to the page's first configuration. */
import { Temporal } from "temporal-polyfill";
import { describe, expect, it, vi } from "vitest";
import { pageBlock } from "./page-block.ts";
import { type Answer, type CheckedDecision, having, many, pageTraffic, type Sent } from "./page-traffic.ts";
import { upgrade } from "../system/frames.ts";

const { origin, serve, url, printed, send, check, look, remaining } = pageTraffic();

describe("protect a login", () => {
  serve("docs/tutorials/protect-a-login.md");

  const login = (address: string, password: string): Promise<Answer> =>
    send("/login", { method: "POST", address, body: `${address}: ${password}` });

  it("the login recipe allows five of fifty concurrent wrong passwords, and bans after twenty denials", async () => {
    const address = "203.0.113.1";
    const answers = await many(50, () => login(address, "a guess"));
    expect(having(answers, 401)).toHaveLength(5);
    expect(origin().logins.filter((body) => body.startsWith(address))).toHaveLength(5);
    expect(having(answers, 429, "#quota-exceeded")).toHaveLength(19);
    const banned = having(answers, 429, "#abnormal-usage-detected");
    expect(banned).toHaveLength(26);
    expect(banned.map(({ headers }) => headers.get("Retry-After"))).toContain("3600");
  });

  it("the login recipe charges nothing for correct passwords", async () => {
    const statuses = [];
    for (let attempt = 0; attempt < 20; attempt++) {
      // oxlint-disable-next-line no-await-in-loop
      statuses.push((await login("203.0.113.2", "the right password")).status);
    }
    expect(new Set(statuses)).toEqual(new Set([200]));
    await vi.waitFor(async () => expect(await remaining("login", "203.0.113.2")).toBe(5), 5_000);
  });

  it("the login recipe denies even the correct password during a ban, until the key is reset", async () => {
    const address = "203.0.113.3";
    await many(50, () => login(address, "a guess"));
    const refused = await login(address, "the right password");
    expect([refused.status, refused.text]).toEqual([429, expect.stringContaining("#abnormal-usage-detected")]);
    expect((await check("DELETE", `?policy=login&key=${address}`)).status).toBe(204);
    expect((await login(address, "the right password")).status).toBe(200);
  });
});

describe("limit by a JWT claim", () => {
  serve("docs/how-to/jwt.md");

  /** The remaining units of the limit of a thousand per hour after a request. */
  const left = async (sent: Sent, path = "/api/things"): Promise<string | undefined> =>
    /^"user.1000-per-1h";r=(\d+);/.exec((await send(path, sent)).headers.get("RateLimit") ?? "")?.[1];

  it("the per-user recipe limits each user by token, from any address", async () => {
    const alice = await origin().tokenOf({ sub: "alice" });
    const bob = await origin().tokenOf({ sub: "bob" });
    expect(await left({ token: alice, address: "203.0.113.1" })).toBe("999");
    expect(await left({ token: alice, address: "203.0.113.2" })).toBe("998");
    expect(await left({ token: bob, address: "203.0.113.1" })).toBe("999");
  });

  it("the per-user recipe limits clients without a valid token by address", async () => {
    const address = "203.0.113.3";
    const forged = await origin().forgedTokenOf({ sub: "carol" });
    const ofAnother = await origin().tokenOf({ sub: "carol", aud: "https://other.example" });
    expect(await left({ address })).toBe("999");
    expect(await left({ address, token: forged })).toBe("998");
    expect(await left({ address, token: ofAnother })).toBe("997");
    expect(await left({ address: "203.0.113.4" })).toBe("999");
  });

  it("the per-user recipe denies a search without a token, and reports all three limits to users", async () => {
    const dave = { token: await origin().tokenOf({ sub: "dave" }) };
    const forged = { token: await origin().forgedTokenOf({ sub: "dave" }) };
    const refused = [await send("/api/search", {}), await send("/api/search", forged)];
    expect(refused.map(({ status }) => status)).toEqual([403, 403]);
    expect(JSON.parse(refused[0]?.text ?? "")).toMatchObject({ missing_parts: ["jwt:sub"] });
    const { status, headers } = await send("/api/search", dave);
    expect([status, headers.get("RateLimit-Policy")]).toEqual([
      200,
      '"user.1000-per-1h";q=1000;w=3600, "user.10-per-1s";q=10;w=1, "search";q=30;w=60',
    ]);
  });

  it("the per-user recipe charges both policies or neither", async () => {
    const erin = { token: await origin().tokenOf({ sub: "erin" }) };
    await check("POST", "", { policy: "search", key: "erin", cost: 30 });
    const { status, text } = await send("/api/search", erin);
    expect([status, JSON.parse(text)]).toEqual([429, expect.objectContaining({ "violated-policies": ["search"] })]);
    expect(await remaining("user", "erin")).toBe(1_000);
  });

  it("the per-user recipe denies a user who is too fast, and no other user", async () => {
    const fast = { token: await origin().tokenOf({ sub: "fast" }) };
    const slow = { token: await origin().tokenOf({ sub: "slow" }) };
    const answers = await many(60, () => send("/api/things", fast));
    expect((await send("/api/things", slow)).status).toBe(200);
    expect(having(answers, 200).length).toBeGreaterThanOrEqual(10);
    expect(having(answers, 429, '"violated-policies":["user.10-per-1s"]')).not.toEqual([]);
  });
});

describe("plans in a JWT", () => {
  serve("docs/how-to/limit-by-api-key-and-plan.md", "jwt:plan");

  it("the per-plan recipe allows pro users ten times as much as other users", async () => {
    const users: Sent[] = [
      { token: await origin().tokenOf({ sub: "pro", plan: "pro" }) },
      { token: await origin().tokenOf({ sub: "free", plan: "free" }) },
      { token: await origin().forgedTokenOf({ sub: "forger", plan: "pro" }) },
    ];
    const answers = await Promise.all(users.map((user) => many(61, () => send("/api/", user))));
    expect(answers.map((each) => having(each, 200).length)).toEqual([61, 60, 60]);
    const policies = answers.map(([first]) => first?.headers.get("RateLimit-Policy"));
    expect(policies).toEqual(['"plan";q=600;w=60', '"plan";q=60;w=60', '"plan";q=60;w=60']);
  });

  it("the per-plan recipe keeps the units that a user has spent when the plan changes", async () => {
    const before = await origin().tokenOf({ sub: "upgrader", plan: "free" });
    const after = await origin().tokenOf({ sub: "upgrader", plan: "pro" });
    await many(60, () => send("/api/", { token: before }));
    const answer = await send("/api/", { token: after });
    expect(answer.headers.get("RateLimit")).toMatch(/^"plan";r=539;/);
  });
});

describe("limit LLM tokens", () => {
  serve("docs/how-to/llm-tokens-and-budgets.md");

  const ask = async (user: string, tokens: string): Promise<Answer> =>
    send(`/v1/${tokens}`, { method: "POST", token: await origin().tokenOf({ sub: user }) });
  const leftIs = (user: string, tokens: number): Promise<void> =>
    vi.waitFor(async () => expect(await remaining("tokens", user)).toBe(tokens), 5_000);

  it("the LLM recipe reserves 1,000 tokens and charges the tokens of the response once it is known", async () => {
    const { headers } = await ask("one", "9000");
    expect(headers.get("RateLimit")).toMatch(/^"tokens";r=49000;/);
    await leftIs("one", 41_000);
    await ask("one", "12");
    await leftIs("one", 40_988);
  });

  it("the LLM recipe charges the reserved cost when the response reports no cost, and never more than 16,000", async () => {
    await ask("two", "none");
    await leftIs("two", 49_000);
    await ask("two", "1000000");
    await leftIs("two", 33_000);
  });

  it("the LLM recipe charges nothing for a failed response", async () => {
    expect((await ask("three", "broken")).status).toBe(503);
    await leftIs("three", 50_000);
  });

  it("the LLM recipe allows a last response to leave a debt, which takes longer than an hour to recover", async () => {
    await check("POST", "", { policy: "tokens", key: "four", cost: 49_000 });
    expect((await ask("four", "16000")).status).toBe(200);
    await leftIs("four", 0);
    const denied = await ask("four", "1");
    expect(denied.status).toBe(429);
    // 49,000 and 16,000 tokens are spent. The wait is an hour plus the time until a quarter of these tokens no longer
    // counts.
    const waitSeconds = Number(denied.headers.get("Retry-After"));
    expect(waitSeconds).toBeGreaterThan(3_600 + 800);
    expect(waitSeconds).toBeLessThan(3_600 + 900);
  });

  it("the LLM recipe denies clients without a token", async () => {
    expect((await send("/v1/1", { method: "POST" })).status).toBe(403);
  });
});

describe("calendar quotas", () => {
  serve("docs/how-to/calendar-quotas.md");

  const berlinAt = (atMs: number): Temporal.ZonedDateTime =>
    Temporal.Instant.fromEpochMilliseconds(atMs).toZonedDateTimeISO("Europe/Berlin");
  const midnightAfter = (atMs: number): number => berlinAt(atMs).add({ days: 1 }).startOfDay().epochMilliseconds;

  it("the daily recipe reports how long the current day is, and the time until midnight in Berlin", async () => {
    const beforeMs = Date.now();
    const spent = await check("POST", "", { key: "203.0.113.1" });
    const afterMs = Date.now();
    const [limit] = (await spent.json<CheckedDecision>()).limits;
    const hours = [beforeMs, afterMs].map((atMs) => berlinAt(atMs).hoursInDay);
    expect(hours).toContain((limit?.windowMs ?? 0) / 3_600_000);
    // The decision lies between these two instants, even around midnight.
    const decided = [beforeMs, afterMs].map((atMs) => midnightAfter(atMs) - (limit?.resetAfterMs ?? 0));
    expect(decided.some((atMs) => atMs >= beforeMs && atMs <= afterMs)).toBe(true);
  });

  it("the daily recipe reports the same wait in seconds in the RateLimit fields", async () => {
    const beforeMs = Date.now();
    const { headers } = await send("/", { address: "203.0.113.2" });
    const afterMs = Date.now();
    const [, left, seconds] = /^"daily";r=(\d+);t=(\d+)$/.exec(headers.get("RateLimit") ?? "") ?? [];
    expect(left).toBe("999");
    const decided = [beforeMs, afterMs].map((atMs) => midnightAfter(atMs) - Number(seconds) * 1000);
    expect(decided.some((atMs) => atMs > beforeMs - 1000 && atMs <= afterMs)).toBe(true);
  });

  it("the daily recipe denies every request after the thousandth until midnight", async () => {
    await check("POST", "", { key: "203.0.113.3", cost: 1_000 });
    const { status, headers } = await send("/", { address: "203.0.113.3" });
    const [, seconds] = /^"daily";r=0;t=(\d+)$/.exec(headers.get("RateLimit") ?? "") ?? [];
    expect([status, headers.get("Retry-After")]).toEqual([429, seconds]);
  });
});

describe("cap concurrent requests", () => {
  serve("docs/how-to/cap-concurrent-requests.md");

  const report = (path: string, address: string): Promise<Response> =>
    fetch(url() + path, { headers: { "CF-Connecting-IP": address } });

  it("the concurrency recipe sends two reports at a time, and the next one when one of them has been sent", async () => {
    const address = "203.0.113.1";
    const first = await report("/reports/1", address);
    const second = await report("/reports/2", address);
    expect([first.status, second.status]).toEqual([200, 200]);
    const third = await report("/reports/3", address);
    expect([third.status, third.headers.get("Retry-After")]).toEqual([429, "1"]);
    const ofAnother = await report("/reports/4", "203.0.113.2");
    expect(ofAnother.status).toBe(200);
    origin().finish("/reports/1");
    await first.text();
    const next = await vi.waitUntil(async () => {
      const response = await report("/reports/5", address);
      return response.ok ? response : null;
    }, 5_000);
    for (const path of ["/reports/2", "/reports/4", "/reports/5"]) origin().finish(path);
    await Promise.all([second, ofAnother, next].map((response) => response.text()));
  });
});

describe("shadow rollout", () => {
  serve("docs/how-to/shadow-rollout.md");

  it("the shadow recipe denies nothing, shows clients only the old limit and logs what the new limit would deny", async () => {
    const answers = await many(25, () => send("/", { address: "203.0.113.1" }));
    expect(having(answers, 200)).toHaveLength(25);
    const policies = answers.map(({ headers }) => headers.get("RateLimit-Policy"));
    expect(new Set(policies)).toEqual(new Set(['"api";q=100;w=60']));
    const shown = JSON.parse(pageBlock("how-to/shadow-rollout", "json event")) as object;
    const logged = (): object[] =>
      [...printed().matchAll(/\{"event":.*\}/g)].map(([line]) => JSON.parse(line) as object);
    await vi.waitFor(() => expect(logged()).toHaveLength(5), 5_000);
    for (const event of logged()) {
      expect(event).toEqual({ ...shown, key: expect.stringMatching(/^[\w-]{16}$/) });
    }
    expect(new Set(logged().map((event) => JSON.stringify(event))).size).toBe(1);
  });

  it("under the shadow recipe, /check allows the request, and its response names the limit that would deny", async () => {
    await check("POST", "", { policy: "next", key: "203.0.113.2", cost: 20 });
    expect(await look("next", "203.0.113.2")).toMatchObject({ allowed: true, violated: ["next"] });
  });

  it("the shadow recipe still denies requests over the old limit", async () => {
    await check("POST", "", { policy: "api", key: "203.0.113.3", cost: 100 });
    const { status, text } = await send("/", { address: "203.0.113.3" });
    expect([status, JSON.parse(text)]).toEqual([429, expect.objectContaining({ "violated-policies": ["api"] })]);
  });
});

describe("an organisation and each of its users", () => {
  serve("docs/how-to/organisations-users-and-regions.md", "jwt:org");

  const member = async (sub: string, org: string): Promise<Sent> => ({ token: await origin().tokenOf({ sub, org }) });

  it("the organisation recipe denies a user who is too fast, and no other user of the organisation", async () => {
    const [fast, slow] = [await member("fast", "one"), await member("slow", "one")];
    await check("POST", "", { policy: "user", key: ["one", "fast"], cost: 100 });
    const denied = await send("/api/x", fast);
    expect([denied.status, JSON.parse(denied.text)]).toMatchObject([429, { "violated-policies": ["user"] }]);
    expect((await send("/api/x", slow)).headers.get("RateLimit")).toMatch(
      /^"organisation";r=899;t=60, "user";r=99;t=60$/,
    );
  });

  it("the organisation recipe denies every user of an organisation whose limit is exceeded, and charges none", async () => {
    await check("POST", "", { policy: "organisation", key: "two", cost: 1_000 });
    const denied = await send("/api/x", await member("ann", "two"));
    expect([denied.status, JSON.parse(denied.text)]).toMatchObject([429, { "violated-policies": ["organisation"] }]);
    await vi.waitFor(async () => expect(await remaining("user", "two&key=ann")).toBe(100), 5_000);
    expect((await send("/api/x", await member("ann", "three"))).status).toBe(200);
  });

  it("the organisation recipe gives an organisation with a larger contract more units", async () => {
    await check("POST", "", { policy: "organisation", key: "acme", cost: 1_000 });
    expect((await send("/api/x", await member("ann", "acme"))).status).toBe(200);
  });
});

describe("all regions and each region", () => {
  serve("docs/how-to/organisations-users-and-regions.md", "continent");

  it("the region recipe limits an API key in each region, and in all regions together", async () => {
    const apiKey = "key-1";
    await check("POST", "", { policy: "region", key: [apiKey, "EU"], cost: 600 });
    const inEurope = await send("/api/x", { apiKey, continent: "EU" });
    expect([inEurope.status, JSON.parse(inEurope.text)]).toMatchObject([429, { "violated-policies": ["region"] }]);
    expect((await send("/api/x", { apiKey, continent: "NA" })).status).toBe(200);
    await check("POST", "", { policy: "all-regions", key: "key-2", cost: 1_000 });
    const anywhere = await send("/api/x", { apiKey: "key-2", continent: "AS" });
    expect([anywhere.status, JSON.parse(anywhere.text)]).toMatchObject([429, { "violated-policies": ["all-regions"] }]);
  });
});

describe("dollars per month", () => {
  serve("docs/how-to/dollars-per-month.md");

  const spend = async (user: string, units: string, plan = "free"): Promise<Answer> =>
    send(`/v1/${units}`, { method: "POST", token: await origin().tokenOf({ sub: user, plan }) });

  it("the dollars recipe charges the price of a response, and denies until the month ends", async () => {
    expect((await spend("one", "3150")).status).toBe(200);
    await vi.waitFor(async () => expect(await remaining("budget", "one")).toBe(496_850), 5_000);
    await check("POST", "", { policy: "budget", key: "one", cost: 496_700 });
    const { status, headers } = await spend("one", "1");
    expect([status, headers.get("Retry-After")]).toEqual([429, monthEnd(headers)]);
    expect((await spend("one", "1", "pro")).status).toBe(200);
  });

  /** The seconds until the budget is full again, as the RateLimit field states them. */
  const monthEnd = (headers: Headers): string | undefined =>
    /^"budget";r=\d+;t=(\d+)$/.exec(headers.get("RateLimit") ?? "")?.[1];

  it("the dollars recipe charges at most $2 for a response, and nothing for a failed one", async () => {
    await spend("two", "90000");
    await vi.waitFor(async () => expect(await remaining("budget", "two")).toBe(480_000), 5_000);
    expect((await spend("three", "broken")).status).toBe(503);
    await vi.waitFor(async () => expect(await remaining("budget", "three")).toBe(500_000), 5_000);
  });
});

describe("the opening of WebSockets", () => {
  serve("docs/how-to/websockets.md");

  it("the WebSocket recipe allows three open WebSockets, and the next one when one of them is closed", async () => {
    const open = (): ReturnType<typeof upgrade> => upgrade(new URL("/socket", url()));
    const opened = [await open(), await open(), await open()];
    expect(opened.map(({ answer }) => answer.statusCode)).toEqual([101, 101, 101]);
    const denied = await fetch(`${url()}/socket`);
    expect([denied.status, denied.headers.get("Retry-After")]).toEqual([429, "1"]);
    opened[0]?.frames.close(1000, "done");
    await vi.waitUntil(async () => (await fetch(`${url()}/socket`)).ok, 5_000);
    for (const { frames } of opened) frames.stream.destroy();
  });
});
