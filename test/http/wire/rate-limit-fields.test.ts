/** The RateLimit fields and Retry-After that decisions lead to. */
import * as fc from "fast-check";
import { parseList, serializeList } from "structured-headers";
import { describe, expect, it } from "vitest";
import {
  addRateLimitFields,
  type RateLimitFields,
  rateLimitFields,
  retryAfterFieldOf,
  advertisedWaitMs,
  retryAfterSeconds,
} from "../../../src/http/wire/rate-limit-fields.ts";
import { createMeter, type Decision, type Limit, type LimitInput, parseLimits } from "../../../src/strategies/index.ts";
import { forAll } from "../../for-all.ts";

type LimitsInput = string | LimitInput | (string | LimitInput)[];

const fieldsOf = (input: LimitsInput, cost: number, strategy = "fixed-window", nowMs = 1_000_000): RateLimitFields => {
  const limits = parseLimits(input, { strategy });
  return rateLimitFields(limits, [createMeter(limits).consume(cost, nowMs)]);
};

/** The decision on `cost`, after a spend of `before` at the same time. */
const denialOf = (input: LimitsInput, before: number, cost: number, policy = "p"): Decision => {
  const meter = createMeter(parseLimits(input, { strategy: "fixed-window", policy }));
  meter.consume(before, 1_000_000);
  return meter.consume(cost, 1_000_000);
};

describe("the RateLimit fields", () => {
  it("the RateLimit fields are canonical structured fields", () => {
    const fields = fieldsOf("10/minute; 1000/day; 5/90s", 3);
    for (const value of [fields.RateLimit ?? "", fields["RateLimit-Policy"] ?? ""]) {
      expect(serializeList(parseList(value))).toBe(value);
    }
    expect(fields.RateLimit).toBe(
      '"default.10-per-1m";r=7;t=60, "default.1000-per-1d";r=997;t=86400, "default.5-per-90s";r=2;t=90',
    );
  });

  it("the parameter w is absent for a window shorter than a second, and otherwise rounded up", () => {
    const { "RateLimit-Policy": policy } = fieldsOf("5/500ms; 5/1500ms", 1);
    expect(policy).toBe('"default.5-per-500ms";q=5, "default.5-per-1500ms";q=5;w=2');
  });

  it("the parameter t is the window while nothing has been used, and never more than the window", () => {
    expect(fieldsOf("5/minute", 0).RateLimit).toBe('"default";r=5;t=60');
    const full = fieldsOf("5/minute", 5, "sliding-window-counter");
    // The next unit becomes available 1 ms after the window's end, so t would be 61 without the maximum.
    expect(full.RateLimit).toBe('"default";r=0;t=60');
  });

  it("a denial has no Retry-After when no wait is long enough for the cost", () => {
    expect(fieldsOf("5/minute", 6)).not.toHaveProperty("Retry-After");
  });
});

describe("the RateLimit fields of a calendar window", () => {
  const day = 86_400;
  const berlin = { limit: 5, window: "1d", align: "calendar", timezone: "Europe/Berlin" };

  it.for<[string, LimitInput, number, number]>([
    ["February", { limit: 5, window: "1mo" }, Date.UTC(2027, 1, 3), 28 * day],
    ["March", { limit: 5, window: "1mo" }, Date.UTC(2027, 2, 3), 31 * day],
    ["the day on which clocks are set forward", berlin, Date.UTC(2027, 2, 28), 23 * 3_600],
    ["the day on which clocks are set back", berlin, Date.UTC(2027, 9, 31), 25 * 3_600],
  ])("w and t of a calendar window are the length of %s", ([, limit, nowMs, seconds]) => {
    const fields = fieldsOf(limit, 0, "fixed-window", nowMs);
    expect(fields["RateLimit-Policy"]).toBe(`"default";q=5;w=${seconds}`);
    expect(fields.RateLimit).toBe(`"default";r=5;t=${seconds}`);
  });

  it("the parameter w of an undecided calendar window is its nominal length", () => {
    const limits = [...parseLimits("5/minute", { policy: "a" }), ...parseLimits("9/month", { policy: "b" })];
    const decision = createMeter(limits.slice(0, 1)).consume(6, Date.UTC(2027, 1, 3));
    const { "RateLimit-Policy": policy } = rateLimitFields(limits, [decision]);
    expect(policy).toBe(`"a";q=5;w=60, "b";q=9;w=${31 * day}`);
  });
});

describe("the RateLimit fields of slots", () => {
  const slots = { limit: 3, window: "10m", strategy: "concurrency", name: "slots" };

  it("limits of slots have the parameter qu with concurrent-requests, and no t", () => {
    const fields = fieldsOf(slots, 1);
    expect(fields["RateLimit-Policy"]).toBe('"slots";q=3;qu="concurrent-requests";w=600');
    expect(fields.RateLimit).toBe('"slots";r=2');
    for (const value of Object.values(fields)) expect(serializeList(parseList(value))).toBe(value);
  });

  it("Retry-After is one second when slots are full, whatever their window is", () => {
    expect(retryAfterFieldOf([denialOf(slots, 3, 1)])).toEqual({ "Retry-After": "1" });
    expect(advertisedWaitMs([denialOf(slots, 3, 1)])).toBe(1_000);
  });

  it("a cost above the number of slots gets no Retry-After", () => {
    expect(retryAfterFieldOf([denialOf(slots, 0, 4)])).toEqual({});
  });
});

describe("Retry-After of several limits", () => {
  const slots = { limit: 3, window: "10m", strategy: "concurrency", name: "slots" };
  const waitOf = (...decisions: Decision[]): unknown => retryAfterFieldOf(decisions)["Retry-After"] ?? null;

  it("Retry-After is the longest wait among the denying limits", () => {
    expect(waitOf(denialOf([slots, "3/30s"], 3, 1))).toBe("30");
    expect(waitOf(denialOf([slots, "4/30s"], 3, 1))).toBe("1");
    expect(waitOf(denialOf([slots, "3/30s", "3/hour"], 3, 1))).toBe("3600");
    expect(waitOf(denialOf(slots, 3, 1), denialOf("2/30s", 2, 1))).toBe("30");
    expect(waitOf(denialOf(slots, 3, 1), denialOf("2/500ms", 2, 1))).toBe("1");
  });

  it("Retry-After is absent when one of several limits can never allow the cost", () => {
    expect(waitOf(denialOf([slots, "1/30s"], 0, 2))).toBe(null);
    expect(waitOf(denialOf("3/30s", 0, 2), denialOf(slots, 0, 4))).toBe(null);
  });
});

describe("RateLimit fields of an origin", () => {
  it("RateLimit fields of an origin are kept, and ours appended, if the origin's fields are lists of names", () => {
    const headers = new Headers({ RateLimit: '"edge";r=1;t=1' });
    addRateLimitFields(headers, { RateLimit: '"ours";r=2;t=2', "RateLimit-Policy": '"ours";q=2' });
    expect(headers.get("RateLimit")).toBe('"edge";r=1;t=1, "ours";r=2;t=2');
    expect(headers.get("RateLimit-Policy")).toBe('"ours";q=2');
  });

  it("empty RateLimit fields of an origin are replaced", () => {
    const headers = new Headers({ RateLimit: "", "RateLimit-Policy": "" });
    addRateLimitFields(headers, { RateLimit: '"ours";r=2;t=2', "RateLimit-Policy": '"ours";q=2' });
    expect(headers.get("RateLimit")).toBe('"ours";r=2;t=2');
    expect(headers.get("RateLimit-Policy")).toBe('"ours";q=2');
  });

  it.for(["limit=100, remaining=5", "5", "100;w=60", '"broken'])(
    "nothing is added to RateLimit fields of an origin that are no lists of names: %j",
    (value) => {
      const headers = new Headers({ RateLimit: value });
      addRateLimitFields(headers, {
        RateLimit: '"ours";r=2;t=2',
        "RateLimit-Policy": '"ours";q=2',
      });
      // RateLimit-Policy is not added either, since both fields must list the same names.
      expect(Object.fromEntries(headers)).toEqual({ ratelimit: value });
    },
  );
});

describe("a name that the origin also uses", () => {
  const ours = {
    RateLimit: '"p";r=2;t=2, "q";r=3;t=3',
    "RateLimit-Policy": '"p";q=2;w=9, "q";q=9',
  };
  const merged = (originFields: Record<string, string>): (string | null)[] => {
    const headers = new Headers(originFields);
    addRateLimitFields(headers, { ...ours, "Retry-After": "5" });
    return [headers.get("RateLimit"), headers.get("RateLimit-Policy"), headers.get("Retry-After")];
  };

  it.for(['"p";r=1;t=1', "p;r=1;t=1", '"P";r=1;t=1'])(
    "our item is prefixed when the origin uses its name: %s",
    (RateLimit) => {
      expect(merged({ RateLimit })).toEqual([
        `${RateLimit}, "headgate.p";r=2;t=2, "q";r=3;t=3`,
        '"headgate.p";q=2;w=9, "q";q=9',
        "5",
      ]);
    },
  );

  it("a name that gets a prefix differs from all our other names", () => {
    const headers = new Headers({ RateLimit: '"a";r=1;t=1' });
    addRateLimitFields(headers, { RateLimit: '"A";r=2;t=2, "headgate.a";r=3;t=3' });
    expect(headers.get("RateLimit")).toBe('"a";r=1;t=1, "headgate.headgate.A";r=2;t=2, "headgate.a";r=3;t=3');
  });

  it("a name gets the same prefix in both fields, and still differs from prefixed names of the origin", () => {
    const originValue = '"p";q=1, "headgate.p";q=1';
    expect(merged({ "RateLimit-Policy": originValue }).slice(0, 2)).toEqual([
      '"headgate.headgate.p";r=2;t=2, "q";r=3;t=3',
      `${originValue}, "headgate.headgate.p";q=2;w=9, "q";q=9`,
    ]);
  });
});

describe("Retry-After", () => {
  it("Retry-After is in whole seconds, rounded up, from 1 to 2^31 - 1", () => {
    expect([0, 1, 1000, 1001, 1e15].map(retryAfterSeconds)).toEqual([1, 1, 1, 2, 2_147_483_647]);
  });
});

describe("the RateLimit fields of many limits", () => {
  const anyUnits = fc.oneof(fc.integer({ min: 0, max: 2_000 }), fc.constantFrom(1_000_000, 2 ** 53 - 1));
  const anyMs = fc.oneof(
    fc.integer({ min: 0, max: 5_000 }),
    fc.constantFrom(86_400_000, 999_999_999_999_001, 2 ** 53 - 1),
  );
  const anyLimit = fc.record({
    strategy: fc.constantFrom("fixed-window", "token-bucket", "concurrency"),
    limit: anyUnits,
    windowMs: anyMs,
    period: fc.constantFrom(undefined, "month" as const),
    periodMs: anyMs,
    allowed: fc.boolean(),
    remaining: anyUnits,
    replenishAfterMs: anyMs,
    resetAfterMs: anyMs,
  });

  /** A field as the structured-fields library serialises it. */
  const listOf = (items: readonly (readonly [string, Record<string, number | string>])[]): string =>
    serializeList(items.map(([name, members]) => [name, new Map(Object.entries(members))]));
  const greatest = 999_999_999_999_999;
  const seconds = (ms: number): number => Math.min(Math.ceil(ms / 1000), greatest);

  it(
    "the RateLimit fields equal those that the library serialises",
    forAll(
      [fc.array(anyLimit, { minLength: 1, maxLength: 40 }), fc.boolean()],
      (drawn, hasUndecided) => {
        const all = drawn.map((each, index) => ({ ...each, name: `n${index}` }));
        const limits: Limit[] = all.map(({ name, strategy, limit, windowMs, period }) => ({
          name,
          strategy,
          limit,
          windowMs,
          ...(period !== undefined && { period }),
        }));
        const decided = hasUndecided ? all.slice(0, Math.ceil(all.length / 2)) : all;
        const allowed = decided.every((each) => each.allowed);
        const decision = {
          allowed,
          cost: 1,
          delayMs: 0,
          retryAfterMs: null,
          bannedForMs: 0,
          limits: decided.map((each) => {
            const windowMs = each.period === undefined ? each.windowMs : each.periodMs;
            return { ...each, windowMs, capacity: each.limit, retryAfterMs: null };
          }),
        } as Decision;
        const left = ({ remaining, limit }: { remaining: number; limit: number }): number =>
          Math.min(remaining, limit, greatest);
        const sent = decision.limits.filter((each) => allowed || !each.allowed);
        const shown =
          sent.length > 16
            ? sent
                .toSorted(
                  (a, b) =>
                    Math.min(a.remaining, a.limit) - Math.min(b.remaining, b.limit) || b.resetAfterMs - a.resetAfterMs,
                )
                .slice(0, 16)
            : sent;
        const others = limits.filter(({ name }) => shown.every((each) => each.name !== name));
        const named = shown.flatMap(({ name }) => limits.filter((limit) => limit.name === name));
        const listed = limits.length > 16 ? [...named, ...others].slice(0, 16) : limits;
        const expected = {
          RateLimit: listOf(
            shown.map((each) => {
              const windowSeconds = seconds(each.windowMs);
              const t = Math.min(seconds(each.replenishAfterMs) || windowSeconds, windowSeconds);
              return [each.name, { r: left(each), ...(each.strategy !== "concurrency" && { t }) }] as const;
            }),
          ),
          "RateLimit-Policy": listOf(
            listed.map((limit) => {
              const own = decision.limits.find(({ name }) => name === limit.name);
              const windowMs = own?.windowMs ?? limit.windowMs;
              return [
                limit.name,
                {
                  q: Math.min(limit.limit, greatest),
                  ...(limit.strategy === "concurrency" && { qu: "concurrent-requests" }),
                  ...(windowMs >= 1000 && { w: seconds(windowMs) }),
                },
              ] as const;
            }),
          ),
        };
        // Formats the same limits twice: the second time uses values that the first has cached.
        expect(rateLimitFields(limits, [decision])).toEqual(expected);
        expect(rateLimitFields(limits, [decision])).toEqual(expected);
      },
      300,
    ),
  );
});
