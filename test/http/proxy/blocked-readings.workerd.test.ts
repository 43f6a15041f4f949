/** `block` rules and `deny` entries, for paths and credentials that origins read in different ways. */
import { SignJWT } from "jose";
import { describe, expect, it } from "vitest";
import { type Admin, admin } from "../admin/admin.ts";
import { headgate, statusOf } from "../harness.ts";

type Init = NonNullable<Parameters<Admin["send"]>[1]>;
type Sent = readonly [path: string, init?: Init];

const secret = "a secret of the tests, thirty-two bytes or more";
const jwtOf = (claims: Record<string, unknown>): Promise<string> =>
  new SignJWT(claims).setProtectedHeader({ alg: "HS256" }).sign(new TextEncoder().encode(secret));
const withHeaders = (headers: HeadersInit): Sent => ["/", { headers }];
const twice = (name: string, ...values: string[]): Sent =>
  withHeaders(values.map((value): [string, string] => [name, value]));

const gateOf = (key: string | string[], fields: object = {}): Admin =>
  admin(
    { key, limits: "50/hour", strategy: "fixed-window", denyCache: false, ...fields },
    { JWT_KEY: secret },
  );

const block = async (
  { call, policy }: Admin,
  key: string | readonly (string | null)[],
): Promise<unknown> => {
  const rule = { policy, key, kind: "block", note: "abuse" };
  return (await call("POST", "/rules", rule)).status;
};

const statuses = async ({ send }: Admin, requests: readonly Sent[]): Promise<number[]> => {
  const found: number[] = [];
  for (const [path, init] of requests) {
    // oxlint-disable-next-line no-await-in-loop
    found.push(await statusOf(send(path, init)));
  }
  return found;
};

describe("a path that origins read in different ways", () => {
  it.for<[string | undefined, string, readonly string[], readonly string[]]>([
    [
      undefined,
      "/admin",
      [
        "/admin;x=1",
        "/a%2f..%2fadmin",
        "/admin;x%2fy",
        "/;x%2f..%2fadmin",
        "/%u0061dmin",
        "/admin;%2f..",
      ],
      ["/other;x%2fy", "/;x%2f..%2fother", "/administrator;x%2fy"],
    ],
    [
      "/API/*",
      "/api/Users/7",
      ["/api/Users/7/", "/api/Users/7;x%2fy", "/api/x;%2f..%2fUsers/7"],
      ["/api/Users/8;x%2fy", "/api/users/7;x%2fy", "/Users/7;x%2fy"],
    ],
  ])(
    "with match.path = %s, a block rule of the path %s denies each of %j, and not %j",
    async ([path, key, evil, others]) => {
      const gate = gateOf("path", path === undefined ? {} : { match: { path } });
      const sent = (paths: readonly string[]): Sent[] => paths.map((each) => [each]);
      expect(await statuses(gate, sent(evil))).toEqual(evil.map(() => 200));
      expect(await block(gate, key)).toBe(201);
      expect(await statuses(gate, sent(evil))).toEqual(evil.map(() => 403));
      expect(await statuses(gate, sent(others))).toEqual(others.map(() => 200));
    },
  );

  it("a block rule of a path and another part denies an ambiguous path beside several values", async () => {
    const gate = gateOf(["path", "query:k"]);
    await block(gate, ["/admin", "evil"]);
    await block(gate, ["/none", null]);
    const sent = ["/admin?k=evil", "/admin;x%2fy?k=evil", "/admin;x%2fy?k=x&k=evil", "/none;x%2fy"];
    const others = ["/admin;x%2fy?k=x", "/admin;x%2fy", "/none;x%2fy?k=x", "/;x%2fy?k=evil&k=x"];
    const both = [...sent, ...others].map((path): Sent => [path]);
    expect(await statuses(gate, both)).toEqual([403, 403, 403, 403, 200, 200, 200, 200]);
  });

  it("a deny entry of a path denies its ambiguous spellings, and not those of other paths", async () => {
    const gate = gateOf("path", { deny: ["/adm2"] });
    const sent = ["/adm2", "/adm2;x%2fy", "/;x%2f..%2fadm2", "/adm3;x%2fy"];
    expect(
      await statuses(
        gate,
        sent.map((path) => [path]),
      ),
    ).toEqual([403, 403, 403, 200]);
  });

  it("all ambiguous paths are still charged on one key", async () => {
    const gate = gateOf("path", { limits: "1/hour" });
    expect(await statuses(gate, [["/a;x%2fy"], ["/b;x%2fy"], ["/a"]])).toEqual([200, 429, 200]);
  });
});
