/** `block` rules and `deny` entries, for paths and credentials that different origins read differently. */
import { SignJWT } from "jose";
import { describe, expect, it } from "vitest";
import { type Admin, admin } from "../../admin/admin.ts";
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
  admin({ key, limits: "50/hour", strategy: "fixed-window", denyCache: false, ...fields }, { JWT_KEY: secret });

const block = async ({ call, policy }: Admin, key: string | readonly (string | null)[]): Promise<unknown> => {
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
      ["/admin;x=1", "/a%2f..%2fadmin", "/admin;x%2fy", "/;x%2f..%2fadmin", "/%u0061dmin", "/admin;%2f.."],
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

  it("a block rule for a path and a query value denies an ambiguous path with that value among several", async () => {
    const gate = gateOf(["path", "query:k"]);
    await block(gate, ["/admin", "evil"]);
    await block(gate, ["/none", null]);
    const sent = ["/admin?k=evil", "/admin;x%2fy?k=evil", "/admin;x%2fy?k=x&k=evil", "/none;x%2fy"];
    const others = ["/admin;x%2fy?k=x", "/admin;x%2fy", "/none;x%2fy?k=x", "/;x%2fy?k=evil&k=x"];
    const both = [...sent, ...others].map((path): Sent => [path]);
    expect(await statuses(gate, both)).toEqual([403, 403, 403, 403, 200, 200, 200, 200]);
  });

  it("a deny entry for a path denies ambiguous spellings of this path, and not of other paths", async () => {
    const gate = gateOf("path", { deny: ["/adm2"] });
    const sent = ["/adm2", "/adm2;x%2fy", "/;x%2f..%2fadm2", "/adm3;x%2fy"];
    expect(
      await statuses(
        gate,
        sent.map((path) => [path]),
      ),
    ).toEqual([403, 403, 403, 200]);
  });

  it("requests with ambiguous paths are all charged to one key", async () => {
    const gate = gateOf("path", { limits: "1/hour" });
    expect(await statuses(gate, [["/a;x%2fy"], ["/b;x%2fy"], ["/a"]])).toEqual([200, 429, 200]);
  });
});

describe("credentials that origins read in different ways", () => {
  it.for(["shared", "ip", "skip"])(
    "a block rule of a claim denies a verified token beside other credentials, with onMissingKey = %s",
    async (onMissingKey) => {
      const gate = gateOf("jwt:sub", { onMissingKey });
      await block(gate, "evil");
      const [evil, other] = await Promise.all(["evil", "x"].map((sub) => jwtOf({ sub })));
      const fields = (jwt: string): readonly Sent[] => [
        twice("Authorization", `Bearer ${jwt}`, "Bearer x"),
        twice("Authorization", "Bearer x", `bearer ${jwt}`),
        twice("Authorization", `Bearer ${jwt}`, "Basic dTpw"),
        twice("Authorization", "Basic dTpw", `Bearer ${jwt}`),
        ...[",", " x", "\tx", ', Bearer a.b.c, realm="x"'].map((end) =>
          withHeaders({ Authorization: `Bearer ${jwt}${end}` }),
        ),
        withHeaders({ Authorization: `Bearer\t${jwt}` }),
        withHeaders({ Authorization: `Bearer${jwt}` }),
        withHeaders({ Authorization: `Bearer ${other}, Bearer ${jwt}` }),
      ];
      const denied = fields(evil ?? "");
      expect(await statuses(gate, denied)).toEqual(denied.map(() => 403));
      const allowed = fields(other ?? "");
      expect(await statuses(gate, allowed)).toEqual(allowed.map(() => 200));
    },
  );

  it("a deny entry for a claim denies a verified token next to other credentials, and claims of other tokens do not count", async () => {
    const gate = gateOf("jwt:sub", {
      deny: ["evil"],
      overrides: [{ when: "jwt:plan=none", limits: "9/hour" }],
      limits: "1/hour",
      onMissingKey: "shared",
    });
    const sent = await Promise.all(
      ["evil", "x", "y"].map(async (sub) =>
        twice("Authorization", `Bearer ${await jwtOf({ sub, plan: "none" })}`, "Bearer x"),
      ),
    );
    expect(await statuses(gate, sent)).toEqual([403, 200, 429]);
  });

  it("an allow entry for a claim exempts a token sent alone, and no token next to other credentials", async () => {
    const gate = gateOf("jwt:sub", { allow: ["alice"], limits: "1/hour" });
    const jwt = await jwtOf({ sub: "alice" });
    const clean = withHeaders({ Authorization: `Bearer ${jwt}` });
    expect(await statuses(gate, [clean, clean])).toEqual([200, 200]);
    const joined = twice("Authorization", `Bearer ${jwt}`, "Bearer x");
    expect(await statuses(gate, [joined, joined])).toEqual([200, 429]);
  });

  it("where a claim can be blocked, a request with more than 4 tokens is denied, since too many would have to be verified", async () => {
    const tokens = (count: number): Sent =>
      withHeaders({
        Authorization: Array.from({ length: count }, (_, index) => `Bearer a.b.c${index}`).join(),
      });
    const gate = gateOf("jwt:sub");
    expect(await statuses(gate, [tokens(4), tokens(5)])).toEqual([200, 403]);
    const { send } = headgate({
      POLICIES: [{ name: "a", key: "jwt:sub", limits: "9/hour" }],
      JWT_KEY: secret,
    });
    expect(await statusOf(send(...tokens(5)))).toBe(200);
  });
});
