/** `block` rules and bans, for requests that send the key's value together with other values, and for preflights. */
import { SignJWT } from "jose";
import { afterEach, describe, expect, it, vi } from "vitest";
import { type Admin, admin } from "../../admin/admin.ts";
import { from, headgate, statusOf, token } from "../harness.ts";

afterEach(() => void vi.restoreAllMocks());

type Init = NonNullable<Parameters<Admin["send"]>[1]>;
type Sent = readonly [path: string, init?: Init];

const secret = "a secret of the tests, thirty-two bytes or more";
const jwtOf = (claims: Record<string, unknown>): Promise<string> =>
  new SignJWT(claims).setProtectedHeader({ alg: "HS256" }).sign(new TextEncoder().encode(secret));
const bearer = async (claims: Record<string, unknown>): Promise<Init> => ({
  headers: { Authorization: `Bearer ${await jwtOf(claims)}` },
});
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

/** For each key: requests that send the value `evil` among others, and requests that send only other values. */
const ambiguous: readonly [string, readonly Sent[], readonly Sent[]][] = [
  [
    "query:k",
    [["/?k=evil&k=x"], ["/?k=x&k=evil"], ["/?K=evil"], ["/?k=x&k[]=evil"], ["/?k=x;k=evil"]],
    [["/?k=x&k=y"], ["/?k=EVIL&k=evil2"], ["/"]],
  ],
  [
    "cookie:sid",
    ["sid=evil; sid=x", "sid=x; sid=evil", "sid=evil; sid=", "sid=x, sid=evil", "a=1, sid=evil"].map((Cookie) =>
      withHeaders({ Cookie }),
    ),
    ["sid=x; sid=y", "sid=evil2; sid=x", "a=1"].map((Cookie) => withHeaders({ Cookie })),
  ],
  [
    "header:x-user",
    [
      twice("X-User", "evil", "x"),
      twice("X-User", "x", "evil"),
      twice("X-User", "evil, x"),
      twice("X-User", "x,evil"),
      twice("X-User", "evil,"),
      twice("X-User", "evil", "evil"),
      twice("X-User", "x", "\t evil \t"),
    ],
    [twice("X-User", "x", "y"), twice("X-User", "evil2,x"), ["/"]],
  ],
];

describe("a request that brings a blocked value beside others", () => {
  it.for(
    ambiguous.flatMap((row) => ["shared", "ip", "skip", "deny"].map((onMissingKey) => [...row, onMissingKey] as const)),
  )(
    "for the key %s, a block rule denies each of %j, and not %j, with onMissingKey = %s",
    async ([key, evil, others, onMissingKey]) => {
      const gate = gateOf(key, { onMissingKey });
      const before = onMissingKey === "deny" ? 403 : 200;
      expect(await statuses(gate, evil)).toEqual(evil.map(() => before));
      expect(await block(gate, "evil")).toBe(201);
      expect(await statuses(gate, evil)).toEqual(evil.map(() => 403));
      expect(await statuses(gate, others)).toEqual(others.map(() => before));
    },
  );

  it("a block rule for a claim denies a token whose claim is a list that contains the value", async () => {
    const gate = gateOf("jwt:sub");
    await block(gate, "evil");
    const sent = [["x", "evil"], ["evil"], "evil", ["x", "y"], "x"].map((sub) => bearer({ sub }));
    const requests = (await Promise.all(sent)).map((init) => ["/", init] as const);
    expect(await statuses(gate, requests)).toEqual([403, 403, 403, 200, 200]);
  });

  it("a block rule for a header value that begins with a no-break space denies the value among others", async () => {
    const gate = gateOf("header:x-user");
    expect(await block(gate, "\u00a0x")).toBe(201);
    const sent = ["\u00a0x", "z, \u00a0x", "z, x"].map((value) => twice("X-User", value));
    expect(await statuses(gate, sent)).toEqual([403, 403, 200]);
  });

  it("a block rule for a key of several parts denies a request in which any combination of the sent values is the key", async () => {
    const gate = gateOf(["header:x-a", "header:x-b"]);
    await block(gate, ["evil", "1"]);
    await block(gate, ["worse", null]);
    const request = (a: string, b?: string): Sent => withHeaders({ "X-A": a, ...(b !== undefined && { "X-B": b }) });
    const denied = [
      request("evil", "1"),
      request("evil,x", "1"),
      request("evil", "2,1"),
      request("x,evil", "1,2"),
      request("worse"),
      request("worse,x"),
      request("worse,x", "1,2"),
      request("worse", "1,2"),
    ];
    expect(await statuses(gate, denied)).toEqual(denied.map(() => 403));
    const allowed = [request("evil,x", "2"), request("evil", "2,3"), request("evil,x"), request("worse,x", "1")];
    expect(await statuses(gate, allowed)).toEqual(allowed.map(() => 200));
  });

  it("a request that is denied for a blocked value is not charged, and counts as blocked in the statistics", async () => {
    const gate = gateOf("query:k");
    await block(gate, "evil");
    const [evil, other] = [["/?k=evil&k=x"] as const, ["/?k=x&k=y"] as const];
    expect(await statuses(gate, [evil, evil, evil, other])).toEqual([403, 403, 403, 200]);
    const explained = await gate.call("POST", "/keys/explain", {
      policy: gate.policy,
      key: [null],
    });
    expect(explained.body).toMatchObject({ limits: [{ used: 1 }] });
  });

  it("a request with a blocked value is allowed again when the rule has ended", async () => {
    const gate = gateOf("query:k");
    const rule = { policy: gate.policy, key: "evil", kind: "block", note: "abuse" };
    const made = await gate.call("POST", "/rules", rule);
    expect(await statuses(gate, [["/?k=evil&k=x"]])).toEqual([403]);
    const tag = { "If-Match": made.headers.get("ETag") ?? "" };
    await gate.call("DELETE", `/rules/${made.body.id}`, undefined, tag);
    expect(await statuses(gate, [["/?k=evil&k=x"]])).toEqual([200]);
  });

  it.for(["leased", "eventual"])(
    "a block rule denies a request with a blocked value beside others under %s consistency",
    async (consistency) => {
      const gate = gateOf("query:k", { consistency });
      expect(await statuses(gate, [["/?k=evil&k=x"]])).toEqual([200]);
      await block(gate, "evil");
      expect(await statuses(gate, [["/?k=evil&k=x"], ["/?k=x&k=y"]])).toEqual([403, 200]);
    },
  );

  it("a dry run denies no request with a blocked value", async () => {
    const gate = gateOf("query:k", { dryRun: true });
    await block(gate, "evil");
    expect(await statuses(gate, [["/?k=evil&k=x"]])).toEqual([200]);
  });

  it("/check/forward denies a described request with a blocked value", async () => {
    const gate = gateOf("query:k");
    await block(gate, "evil");
    const described = (uri: string): Sent => [
      "/check/forward",
      {
        headers: {
          "X-Headgate-Token": token,
          "X-Forwarded-Method": "GET",
          "X-Forwarded-Uri": uri,
        },
      },
    ];
    expect(await statuses(gate, [described("/?k=evil&k=x"), described("/?k=x&k=y")])).toEqual([403, 204]);
  });

  it("a ban denies a request that sends the banned value among others", async () => {
    const { send } = headgate({
      POLICIES: [{ name: "a", key: "query:k", limits: "1/hour", ban: "1h", denyCache: false }],
    });
    const status = (path: string): Promise<number> => statusOf(send(path));
    expect([await status("/?k=evil"), await status("/?k=evil")]).toEqual([200, 429]);
    const banned = await send("/?k=evil&k=x");
    expect(await banned.json()).toMatchObject({ title: expect.stringMatching(/abnormal/i) });
    expect([banned.status, await status("/?k=x&k=y")]).toEqual([429, 200]);
  });

  it.for([
    ["closed", 503],
    ["open", 200],
    ["local", 200],
  ] as const)("while no object answers, onError = %s decides: %i", async ([onError, expected]) => {
    vi.spyOn(console, "error").mockReturnValue(undefined);
    const call = (): Promise<never> => Promise.reject(new Error("gone"));
    const { send } = headgate({
      POLICIES: [{ name: "a", key: "query:k", limits: "9/hour", ban: "1h", onError }],
      RATE_LIMITER: { getByName: () => ({ decide: call, look: call }) },
    });
    expect(await statusOf(send("/?k=evil&k=x"))).toBe(expected);
  });
});

describe("a request that names too many keys", () => {
  const values = (count: number): string => `/?${Array.from({ length: count }, (_, index) => `k=v${index}`).join("&")}`;

  it.for(["shared", "ip", "skip"])(
    "a request with more than 16 values of a part is denied with onMissingKey = %s",
    async (onMissingKey) => {
      const gate = gateOf("query:k", { onMissingKey });
      await block(gate, "v16");
      expect(await statuses(gate, [[values(16)], [values(17)]])).toEqual([200, 403]);
      const refused = await gate.send(values(17));
      expect(await refused.json()).toMatchObject({ detail: expect.stringContaining("query:k") });
    },
  );

  it.for(["shared", "skip"])(
    "a verified list claim may have 64 values with onMissingKey = %s",
    async (onMissingKey) => {
      const gate = gateOf("jwt:groups", { onMissingKey });
      await block(gate, "g63");
      const sent = [17, 63, 64, 65].map(async (length): Promise<Sent> => {
        const groups = Array.from({ length }, (_, index) => `g${index}`);
        return ["/", await bearer({ groups })];
      });
      expect(await statuses(gate, await Promise.all(sent))).toEqual([200, 200, 403, 403]);
    },
  );

  it("a request with many values is charged when its keys have neither bans nor rules", async () => {
    const { send } = headgate({ POLICIES: [{ name: "a", key: "query:k", limits: "9/hour" }] });
    expect(await statusOf(send(values(64)))).toBe(200);
  });
});

describe("a preflight of a blocked client", () => {
  const app = "https://app.example.com";
  const preflight = (headers: Record<string, string> = from("203.0.113.7").headers): Init => ({
    method: "OPTIONS",
    headers: { ...headers, Origin: app, "Access-Control-Request-Method": "PUT" },
  });

  it("a block rule denies preflights of the key until it is removed", async () => {
    const gate = gateOf("ip");
    expect(await statuses(gate, [["/", preflight()]])).toEqual([200]);
    const rule = { policy: gate.policy, key: "203.0.113.7", kind: "block", note: "abuse" };
    const made = await gate.call("POST", "/rules", rule);
    const denied = await gate.send("/", preflight());
    expect([denied.status, await denied.json()]).toMatchObject([403, { title: "Forbidden" }]);
    expect(await statuses(gate, [["/", preflight(from("203.0.113.8").headers)]])).toEqual([200]);
    const explained = await gate.call("POST", "/keys/explain", {
      policy: gate.policy,
      key: "203.0.113.7",
    });
    expect(explained.body).toMatchObject({ limits: [{ used: 0 }] });
    const tag = { "If-Match": made.headers.get("ETag") ?? "" };
    await gate.call("DELETE", `/rules/${made.body.id}`, undefined, tag);
    expect(await statuses(gate, [["/", preflight()]])).toEqual([200]);
  });

  it("a block rule for a value in the URL denies the preflight, even if the URL has other values too", async () => {
    const gate = gateOf("query:k");
    await block(gate, "evil");
    const paths = ["/?k=evil", "/?k=evil&k=x", "/?k=x", "/?k=x&k=y", "/"];
    expect(
      await statuses(
        gate,
        paths.map((path) => [path, preflight()]),
      ),
    ).toEqual([403, 403, 200, 200, 200]);
  });

  it.for(["shared", "ip", "skip", "deny"])(
    "a block rule denies the preflight of a request that names further keys, with onMissingKey = %s",
    async (onMissingKey) => {
      const gate = gateOf("query:k", { onMissingKey });
      await block(gate, "evil");
      const further = Array.from({ length: 16 }, (_, index) => `&k=${index}`).join("");
      const paths = ["/?k=evil&k=x", `/?k=evil${further}`, "/?k=x&k=y", `/?k=0${further}`];
      expect(
        await statuses(
          gate,
          paths.map((path) => [path, preflight()]),
        ),
      ).toEqual([403, 403, 200, 200]);
    },
  );

  it("a block rule denies no preflight for a request that its policy does not match", async () => {
    const gate = gateOf("ip", { match: { methods: ["DELETE"] } });
    await block(gate, "203.0.113.7");
    expect(await statuses(gate, [["/", preflight()]])).toEqual([200]);
  });

  it("a block rule denies no preflight if the key has a part that preflights lack", async () => {
    const gate = gateOf(["ip", "header:x-user"]);
    await block(gate, ["203.0.113.7", null]);
    expect(
      await statuses(gate, [
        ["/", preflight()],
        ["/", from("203.0.113.7")],
      ]),
    ).toEqual([200, 403]);
  });

  it("a block rule of a dry run denies no preflight", async () => {
    const gate = gateOf("ip", { dryRun: true });
    await block(gate, "203.0.113.7");
    expect(await statuses(gate, [["/", preflight()]])).toEqual([200]);
  });
});
