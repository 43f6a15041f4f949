/** The names of ad hoc limits in `/check`. */
import { describe, expect, it } from "vitest";
import { headgate } from "../harness.ts";

const strategy = "fixed-window";
const one = { LIMITS: "3/minute", STRATEGY: strategy, KEY: "header:X-Api-Key" };

/** The answers of one Worker to checks, one after the other. */
async function answersOf(
  checks: readonly Record<string, unknown>[],
  variables: Record<string, unknown> = one,
): Promise<unknown[]> {
  const { check } = headgate(variables);
  const answers: unknown[] = [];
  for (const each of checks) {
    // oxlint-disable-next-line no-await-in-loop
    const response = await check("POST", "/check", each);
    // oxlint-disable-next-line no-await-in-loop
    answers.push({ status: response.status, ...(await response.json<object>()) });
  }
  return answers;
}

const remaining = (units: number): unknown => ({
  status: 200,
  limits: [expect.objectContaining({ remaining: units })],
});

interface InvalidAnswer {
  status: number;
  errors?: { field: string; accepted: string }[];
}

async function errorsOf(body: Record<string, unknown>): Promise<unknown> {
  const [answer] = await answersOf([body]);
  const { status, errors = [] } = answer as InvalidAnswer;
  return [status, ...errors.map(({ field, accepted }) => [field, accepted])];
}

describe("the name of ad hoc limits", () => {
  const spend = { key: "k", limits: "9/minute", strategy };

  it("ad hoc limits with different names have different counters, and those with the same name share a counter", async () => {
    const names = ["login", "export", "login", undefined, "adhoc", "login"];
    const answers = await answersOf(names.map((name) => ({ ...spend, name })));
    expect(answers).toMatchObject([8, 8, 7, 8, 7, 6].map((left) => remaining(left)));
    expect(answers).toMatchObject([
      {
        policy: "login",
        limits: [{ name: "login" }],
        headers: { "RateLimit-Policy": '"login";q=9;w=60' },
      },
      { policy: "export" },
      { policy: "login" },
      { policy: "adhoc" },
      { policy: "adhoc" },
      { policy: "login" },
    ]);
  });

  it("a name of ad hoc limits gives no access to the counters of a policy with the same name", async () => {
    const POLICIES = [{ name: "login", key: "header:X-Api-Key", limits: "9/minute", strategy }];
    const checks = [
      { ...spend, name: "login" },
      { policy: "login", key: "k" },
    ];
    expect(await answersOf(checks, { POLICIES })).toMatchObject([remaining(8), remaining(8)]);
  });

  it("a denial by named ad hoc limits states the name, also from the deny cache", async () => {
    const check = { key: "k", limits: "1/hour", name: "export" };
    const [, ...denials] = await answersOf([check, check, check]);
    const denied = { allowed: false, policy: "export", violated: ["export"] };
    expect(denials).toMatchObject([denied, denied]);
    expect(await answersOf([check, { ...check, name: "other" }])).toMatchObject([{ allowed: true }, { allowed: true }]);
  });

  it("batches, reads and reservations under named ad hoc limits use the counter of the name", async () => {
    const { check } = headgate(one);
    const named = { ...spend, name: "export" };
    const post = async (path: string, body: object): Promise<unknown> =>
      (await check("POST", `/check${path}`, body)).json();
    expect(await post("/batch", { checks: [named, spend, named] })).toMatchObject({
      results: [8, 8, 7].map((left) => ({ limits: [{ remaining: left }] })),
    });
    const reserved = await post("/reserve", { ...named, cost: 4, ttlMs: 60_000 });
    expect(reserved).toMatchObject({ policy: "export", limits: [{ remaining: 3 }] });
    const { id } = reserved as { id: string };
    expect(await post("/settle", { id, cost: 1 })).toEqual({ settled: true });
    expect(await post("", { ...named, cost: 0 })).toMatchObject({ limits: [{ remaining: 6 }] });
    expect(await post("", { ...spend, cost: 0 })).toMatchObject({ limits: [{ remaining: 8 }] });
  });

  it("DELETE /check with a name resets the counters of that name only", async () => {
    const { check } = headgate(one);
    const left = async (name: string): Promise<unknown> => {
      const answer = await check("POST", "/check", { ...spend, name, cost: 0 });
      return (await answer.json<{ limits: { remaining: number }[] }>()).limits[0]?.remaining;
    };
    for (const name of ["export", "other", "adhoc"]) {
      // oxlint-disable-next-line no-await-in-loop
      await check("POST", "/check", { ...spend, name });
    }
    expect((await check("DELETE", "/check?key=k&name=export")).status).toBe(204);
    expect([await left("export"), await left("other"), await left("adhoc")]).toEqual([9, 8, 8]);
    expect((await check("DELETE", "/check?key=k&name=adhoc")).status).toBe(204);
    expect([await left("export"), await left("other"), await left("adhoc")]).toEqual([9, 8, 9]);
  });

  it("each tenant has its own counters for one name of ad hoc limits", async () => {
    const tokens = ["token-of-the-tenant-a", "token-of-the-tenant-b"];
    const CHECK_TOKENS = tokens.map((token, index) => ({ token, tenant: `t${index}` }));
    const { send } = headgate({ ...one, CHECK_TOKENS });
    for (const token of tokens) {
      // oxlint-disable-next-line no-await-in-loop
      const answer = await send("/check", {
        method: "POST",
        headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
        body: JSON.stringify({ ...spend, name: "export" }),
      });
      // oxlint-disable-next-line no-await-in-loop
      expect(await answer.json()).toMatchObject({ limits: [{ remaining: 8 }] });
    }
  });

  const nameOfPolicy = expect.stringMatching(/^a name of 1 to 64/);

  it.for<[Record<string, unknown>, unknown[]]>([
    [{ ...spend, name: "" }, [["name", nameOfPolicy]]],
    [{ ...spend, name: "Export" }, [["name", nameOfPolicy]]],
    [{ ...spend, name: "a b" }, [["name", nameOfPolicy]]],
    [{ ...spend, name: "a".repeat(65) }, [["name", nameOfPolicy]]],
    [{ ...spend, name: 5 }, [["name", nameOfPolicy]]],
    [{ ...spend, name: null }, [["name", nameOfPolicy]]],
    [{ key: "k", name: "export" }, [["name", "no value without limits"]]],
    [
      { ...spend, policy: "default", name: "No" },
      [
        ["policy", "no value together with limits"],
        ["name", nameOfPolicy],
      ],
    ],
  ])("a check %j is answered with 422 and every invalid field", async ([check, errors]) => {
    expect(await errorsOf(check)).toEqual([422, ...errors]);
  });

  it("DELETE /check refuses a name that is invalid, that is sent with a policy, or that is sent without a key", async () => {
    const { check } = headgate(one);
    for (const [query, fields] of [
      ["key=k&name=No", ["name"]],
      ["key=k&name=export&policy=default", ["policy"]],
      ["name=export", ["key"]],
      ["key=k&name=a&name=b", ["name"]],
    ] as const) {
      // oxlint-disable-next-line no-await-in-loop
      const answer = await check("DELETE", `/check?${query}`);
      // oxlint-disable-next-line no-await-in-loop
      const { errors } = await answer.json<{ errors: { field: string }[] }>();
      expect([query, answer.status, errors.map(({ field }) => field)]).toEqual([query, 422, fields]);
    }
    expect((await check("GET", "/check?key=k&name=export")).status).toBe(422);
  });
});
