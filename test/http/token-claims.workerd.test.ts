/** Claims of a token: exact numbers, valid UTF-8 and a maximum depth. */
import { CompactSign } from "jose";
import { afterEach, describe, expect, it, vi } from "vitest";
import { headgate, type Headgate, statusOf } from "./harness.ts";

const secret = "a secret of at least thirty-two bytes";
const utf8 = new TextEncoder();
const policy = { name: "users", key: "jwt:sub", limits: "5/hour", strategy: "fixed-window" };
const variables = (fields: object = {}): Record<string, unknown> => ({
  POLICIES: [{ ...policy, ...fields }],
  JWT_KEY: secret,
});

afterEach(() => void vi.restoreAllMocks());

/** A request with a signed token of this payload, which may be any bytes. */
async function withPayload(payload: string | Uint8Array): Promise<{ headers: Record<string, string> }> {
  const bytes = typeof payload === "string" ? utf8.encode(payload) : payload;
  const token = await new CompactSign(bytes).setProtectedHeader({ alg: "HS256" }).sign(utf8.encode(secret));
  return { headers: { Authorization: `Bearer ${token}` } };
}

const sendAs = async ({ send }: Headgate, payload: string | Uint8Array): Promise<number> =>
  statusOf(send("/", await withPayload(payload)));

async function remainingOf({ check }: Headgate, key: string): Promise<unknown> {
  const look = await check("GET", `/check?${new URLSearchParams({ key }).toString()}`);
  const { limits } = await look.json<{ limits: { remaining: number }[] }>();
  return limits[0]?.remaining;
}

describe("a number in a token", () => {
  it.for([
    "175928847299117063",
    "9007199254740993",
    "-9007199254740993",
    "99999999999999999999999999999999",
    "0.12345678901234567890",
    "1e3",
    "1E+3",
    "1.0",
    "1.50",
    "-0",
    "42",
    "0",
    "-7",
    "1.5",
    "9007199254740991",
  ])("the number %s in a token is a key of exactly these digits", async (digits) => {
    const gate = headgate(variables());
    expect(await sendAs(gate, `{"sub": ${digits}}`)).toBe(200);
    expect(await remainingOf(gate, digits)).toBe(4);
  });

  it("two claims that are numbers beyond 2^53 and differ by 1 are two keys", async () => {
    const gate = headgate(variables({ limits: "1/hour", onMissingKey: "deny" }));
    const statuses = [];
    for (const id of ["175928847299117063", "175928847299117064", "175928847299117063"]) {
      // oxlint-disable-next-line no-await-in-loop
      statuses.push(await sendAs(gate, `{"sub":${id}}`));
    }
    expect(statuses).toEqual([200, 200, 429]);
  });

  it("allow, deny and overrides compare all digits of a number, even in a claim that is a list", async () => {
    const id = "175928847299117063";
    const other = "175928847299117064";
    const denying = headgate(variables({ deny: [id] }));
    expect(await sendAs(denying, `{"sub":${id}}`)).toBe(403);
    expect(await sendAs(denying, `{"sub":${other}}`)).toBe(200);
    expect(await sendAs(denying, `{"sub":[${other},${id}]}`)).toBe(403);
    const allowed = headgate(variables({ limits: "1/hour", allow: [id] }));
    expect(await sendAs(allowed, `{"sub":${id}}`)).toBe(200);
    expect(await sendAs(allowed, `{"sub":${id}}`)).toBe(200);
    expect(await sendAs(allowed, `{"sub":${other}}`)).toBe(200);
    expect(await sendAs(allowed, `{"sub":${other}}`)).toBe(429);
    const overrides = [{ when: `jwt:orgs=${id}`, limits: "9/hour" }];
    const overridden = headgate(variables({ key: "global", limits: "5/hour", overrides }));
    const limitFor = async (org: string): Promise<string | null> => {
      const response = await overridden.send("/", await withPayload(`{"orgs":[1,${org}]}`));
      await response.body?.cancel();
      return response.headers.get("RateLimit-Policy");
    };
    expect(await limitFor(id)).toContain("q=9");
    expect(await limitFor(other)).toContain("q=5");
  });

  it("a number whose digits the runtime does not report is a missing claim, reported once", async () => {
    const errors = vi.spyOn(console, "error").mockReturnValue(undefined);
    const parse = JSON.parse.bind(JSON);
    vi.spyOn(JSON, "parse").mockImplementation((text, reviver) =>
      parse(text, reviver && ((key, value) => reviver.call(null, key, value) as unknown)),
    );
    const gate = headgate(variables({ onMissingKey: "deny" }));
    expect(await sendAs(gate, '{"sub":175928847299117063}')).toBe(403);
    expect(await sendAs(gate, '{"sub":175928847299117064}')).toBe(403);
    expect(await sendAs(gate, '{"sub":42,"org":175928847299117063}')).toBe(200);
    expect(await sendAs(gate, '{"sub":"175928847299117063"}')).toBe(200);
    expect(errors.mock.calls).toEqual([['{"event":"token-number-inexact"}']]);
  });
});

it("a token whose payload is not UTF-8 has no claims, so that two users never share a key", async () => {
  const gate = headgate(variables({ onMissingKey: "deny" }));
  const payload = utf8.encode('{"sub":"user-?"}');
  payload[payload.indexOf(0x3f)] = 0xff;
  expect(await sendAs(gate, payload)).toBe(403);
});

describe("a token of deeply nested JSON", () => {
  const nested = (depth: number): string => `${"[".repeat(depth)}${"]".repeat(depth)}`;
  const claims = (depth: number): string => `{"sub":"ann","deep":${nested(depth - 1)}}`;

  it("a token nested 64 levels deep is read, and one nested 65 levels is answered with a 400 that names the maximum", async () => {
    const gate = headgate(variables({ onMissingKey: "deny" }));
    expect(await sendAs(gate, claims(64))).toBe(200);
    const response = await gate.send("/", await withPayload(claims(65)));
    expect([response.status, response.headers.get("Content-Type")]).toEqual([400, "application/problem+json"]);
    expect(await response.json()).toMatchObject({
      title: "Bad Request",
      detail: `The JSON in the bearer token is nested deeper than 64 levels at character ${'{"sub":"ann","deep":'.length + 64}.`,
    });
    expect(await sendAs(gate, claims(5_000))).toBe(400);
    expect(await remainingOf(gate, "ann")).toBe(4);
  });

  it("JSON nested too deep in the header or the payload of a token is answered with 400, whether or not the signature is valid", async () => {
    const gate = headgate(variables());
    const deep = btoa(nested(9_000));
    const plain = btoa('{"alg":"HS256"}');
    for (const token of [`${deep}.${plain}.x`, `${plain}.${deep}.x`, `${plain}.${deep}`]) {
      const headers = { Authorization: `Bearer ${token}` };
      // oxlint-disable-next-line no-await-in-loop
      expect(await statusOf(gate.send("/", { headers }))).toBe(400);
    }
  });

  it("a dry run ignores a token nested too deep, and policies without claims do not read it", async () => {
    const dry = headgate(variables({ dryRun: true }));
    expect(await sendAs(dry, claims(65))).toBe(200);
    const withoutClaims = headgate({ ...variables({ key: "global" }) });
    expect(await sendAs(withoutClaims, claims(65))).toBe(200);
  });

  it("/check/forward answers 400 for a token nested too deep", async () => {
    const { send } = headgate(variables());
    const { headers } = await withPayload(claims(65));
    const response = await send("/check/forward", {
      headers: {
        ...headers,
        "X-Headgate-Token": "the-tests-token",
        "X-Forwarded-Method": "GET",
        "X-Forwarded-Uri": "/",
        "X-Forwarded-For": "203.0.113.7",
      },
    });
    expect(response.status).toBe(400);
    await response.body?.cancel();
  });
});
