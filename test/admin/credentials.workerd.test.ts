/** The callers of the admin API: tokens and their rights, Cloudflare Access, and limited attempts. */
import { exportJWK, generateKeyPair, type GenerateKeyPairResult, SignJWT, UnsecuredJWT } from "jose";
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { statusOf } from "../http/harness.ts";
import { admin, type Admin, tokens } from "./admin.ts";

const withToken = (token: string) => ({ Authorization: `Bearer ${token}` });
const id = "a".repeat(43);

describe("the rights of a token", () => {
  const read = ["read"];
  const write = ["write"];
  it.for<[string, string, unknown, readonly string[]]>([
    ["GET", "/openapi.json", undefined, ["read", "write", "reveal"]],
    ["GET", "/operator", undefined, ["read", "write", "reveal"]],
    ["GET", "/policies", undefined, read],
    ["GET", "/policies/unknown", undefined, read],
    ["PATCH", "/policies/unknown", {}, write],
    ["POST", "/keys/explain", {}, read],
    ["POST", "/keys/reveal", {}, ["reveal"]],
    ["DELETE", `/keys/unknown/${id}/usage`, undefined, write],
    ["GET", `/keys/unknown/${id}/history`, undefined, read],
    ["PUT", `/keys/unknown/${id}/recording`, undefined, write],
    ["DELETE", `/keys/unknown/${id}/recording`, undefined, write],
    ["GET", "/rules", undefined, read],
    ["POST", "/rules", {}, write],
    ["GET", "/rules/unknown", undefined, read],
    ["PUT", "/rules/unknown", {}, write],
    ["DELETE", "/rules/unknown", undefined, write],
    ["GET", "/audit", undefined, read],
    ["POST", "/rollback", {}, write],
    ["GET", "/stats?from=x", undefined, read],
    ["GET", "/top", undefined, read],
    ["GET", "/samples", undefined, read],
  ])("the call %s %s needs its right", async ([method, path, body, rights]) => {
    const { call } = admin();
    for (const right of ["read", "write", "reveal"] as const) {
      // oxlint-disable-next-line no-await-in-loop
      const { status, headers } = await call(method, path, body, withToken(tokens[right]));
      const isScoped = (headers.get("WWW-Authenticate") ?? "").includes("insufficient_scope");
      const isMissing = !rights.includes(right);
      expect([right, status === 403, isScoped]).toEqual([right, isMissing, isMissing]);
    }
  });

  it("a missing or wrong token gets 401 before the body and the path are read", async () => {
    const { call, send } = admin();
    const wrong = [
      await call("POST", "/rules", "x".repeat(100_000), withToken("wrong")),
      await call("GET", "/nothing", undefined, withToken(`${tokens.all}x`)),
      await call("GET", "/rules", undefined, { Authorization: `Basic ${tokens.all}` }),
      await call("GET", "/rules", undefined, withToken("the-tests-token")),
    ];
    expect(wrong.map(({ status }) => status)).toEqual([401, 401, 401, 401]);
    expect(wrong[0]?.headers.get("WWW-Authenticate")).toBe('Bearer realm="headgate admin", error="invalid_token"');
    const missing = await send("/_headgate/api/rules");
    expect([missing.status, missing.headers.get("WWW-Authenticate")]).toEqual([401, 'Bearer realm="headgate admin"']);
  });
});

it.each([tokens.all, "unknown"])(
  "the answer to the token %s has the time, also without Cloudflare's network",
  async (token) => {
    const { headers } = await admin().call("GET", "/operator", undefined, withToken(token));
    expect(Date.parse(headers.get("Date") ?? "")).toBeCloseTo(Date.now(), -4);
  },
);

it("the caller learns its name and rights, without a call to the control plane", async () => {
  const getByName = vi.fn<() => never>();
  const { call } = admin({}, { CONTROL_PLANE: { getByName } });
  const callers = await Promise.all(
    [tokens.all, tokens.read].map((token) => call("GET", "/operator", undefined, withToken(token))),
  );
  expect(callers.map(({ body }) => body)).toEqual([
    { name: "alice", via: "token", may: ["read", "write", "reveal"] },
    { name: "grafana", via: "token", may: ["read"] },
  ]);
  expect((await call("GET", "/operator?x=1")).status).toBe(422);
});

describe("attempts with wrong tokens", () => {
  const attempt = ({ call }: Admin, address: string, token = "wrong") =>
    call("GET", "/openapi.json", undefined, {
      ...withToken(token),
      "CF-Connecting-IP": address,
    });

  it("the eleventh wrong token of an address within a minute gets 429 without any call", async () => {
    const getByName = vi.fn<() => never>();
    const gate = admin({}, { CONTROL_PLANE: { getByName } });
    const statuses = [];
    for (let index = 0; index < 11; index++) {
      // oxlint-disable-next-line no-await-in-loop
      statuses.push((await attempt(gate, "203.0.113.9")).status);
    }
    expect(statuses).toEqual([...Array<number>(10).fill(401), 429]);
    const limited = await attempt(gate, "203.0.113.9", tokens.all);
    expect(limited.status).toBe(429);
    expect(Number(limited.headers.get("Retry-After"))).toBeGreaterThan(0);
    expect((await attempt(gate, "203.0.113.10", tokens.all)).status).toBe(200);
    expect(getByName).toHaveBeenCalledTimes(1);
  });

  it("wrong tokens from one IPv6 network count together, and missing tokens do not count", async () => {
    const gate = admin();
    for (let index = 0; index < 10; index++) {
      // oxlint-disable-next-line no-await-in-loop
      await attempt(gate, `2001:db8::${index}`);
      // oxlint-disable-next-line no-await-in-loop
      await statusOf(gate.send("/_headgate/api/rules", { headers: { "CF-Connecting-IP": "203.0.113.11" } }));
    }
    expect((await attempt(gate, "2001:db8::ffff")).status).toBe(429);
    expect((await attempt(gate, "2001:db8:0:1::1")).status).toBe(401);
    expect((await attempt(gate, "203.0.113.11")).status).toBe(401);
  });
});

describe("Cloudflare Access", () => {
  const issuer = "https://acme.cloudflareaccess.com";
  const audience = "the-aud-tag";
  const host = "https://admin.example.com";
  const access = {
    ADMIN_HOST: "admin.example.com",
    ACCESS_TEAM: "acme",
    ACCESS_AUDIENCE: audience,
  };
  const addressOf = (() => {
    let count = 0;
    return () => `198.51.100.${++count}`;
  })();

  let first: GenerateKeyPairResult;
  let second: GenerateKeyPairResult;
  let served: { readonly status: number; readonly keys: readonly object[] };
  let fetches: string[];

  beforeAll(async () => {
    first = await generateKeyPair("RS256", { extractable: true });
    second = await generateKeyPair("RS256", { extractable: true });
  });
  const publicKey = async ({ publicKey: key }: GenerateKeyPairResult, kid: string) => ({
    ...(await exportJWK(key)),
    kid,
    alg: "RS256",
    use: "sig",
  });
  beforeEach(async () => {
    fetches = [];
    served = { status: 200, keys: [await publicKey(first, "first")] };
    vi.spyOn(globalThis, "fetch").mockImplementation(async (input) => {
      fetches.push(input instanceof Request ? input.url : String(input));
      return Response.json({ keys: served.keys }, { status: served.status });
    });
  });
  afterEach(() => void vi.restoreAllMocks());

  const inSeconds = (seconds: number): number => Math.floor(Date.now() / 1_000) + seconds;
  const claims = {
    iss: issuer,
    aud: [audience],
    email: "alice@example.com",
    exp: 0,
    type: "app",
  };

  const signed = (
    changed: object = {},
    {
      key = first.privateKey,
      alg = "RS256",
      kid = "first",
    }: { key?: CryptoKey | Uint8Array; alg?: string; kid?: string } = {},
  ): Promise<string> =>
    new SignJWT({ ...claims, exp: inSeconds(60), ...changed }).setProtectedHeader({ alg, kid }).sign(key);

  const ask = (
    { send }: Admin,
    jwt: string,
    init: { method?: string; headers?: Record<string, string>; body?: string; host?: string } = {},
  ): Promise<Response> =>
    send(`${init.host ?? host}/_headgate/api/policies`, {
      method: init.method ?? "GET",
      headers: {
        "Cf-Access-Jwt-Assertion": jwt,
        "CF-Connecting-IP": addressOf(),
        ...init.headers,
      },
      ...(init.body !== undefined && { body: init.body }),
    });

  it("a JWT of the team for the application identifies the operator by e-mail", async () => {
    const gate = admin({}, access);
    expect(await statusOf(ask(gate, await signed()))).toBe(200);
    expect(fetches).toEqual([`${issuer}/cdn-cgi/access/certs`]);
    expect(await statusOf(ask(gate, await signed()))).toBe(200);
    expect(fetches).toHaveLength(1);
  });

  it("an Access identity learns its e-mail and its rights, which include reveal only with REVEAL", async () => {
    const jwt = await signed();
    const rightsWith = async (variables: object): Promise<unknown> => {
      const response = await admin({}, { ...access, ...variables }).send(`${host}/_headgate/api/operator`, {
        headers: { "Cf-Access-Jwt-Assertion": jwt, "CF-Connecting-IP": addressOf() },
      });
      return response.json();
    };
    const identity = { name: "alice@example.com", via: "access" };
    expect(await rightsWith({})).toEqual({ ...identity, may: ["read", "write"] });
    expect(await rightsWith({ REVEAL: "admins" })).toEqual({
      ...identity,
      may: ["read", "write", "reveal"],
    });
  });

  it("a service token is named by its common_name, and a JWT without a name is refused", async () => {
    const gate = admin({}, access);
    const service = { email: undefined, common_name: "ci.access", sub: "" };
    expect(await statusOf(ask(gate, await signed(service)))).toBe(200);
    expect(await statusOf(ask(gate, await signed({ email: undefined })))).toBe(401);
    expect(await statusOf(ask(gate, await signed({ email: 5 })))).toBe(401);
  });

  it.for<[string, () => Promise<string> | string]>([
    ["for another application", () => signed({ aud: ["other"] })],
    ["without an audience", () => signed({ aud: undefined })],
    ["of another team", () => signed({ iss: "https://evil.cloudflareaccess.com" })],
    ["that has expired", () => signed({ exp: inSeconds(-60) })],
    ["that does not expire", () => signed({ exp: undefined })],
    ["that is not valid yet", () => signed({ nbf: inSeconds(60) })],
    ["signed with another key of the same name", () => signed({}, { key: second.privateKey })],
    ["of an unknown key", () => signed({}, { key: second.privateKey, kid: "unknown" })],
    ["without a signature", () => new UnsecuredJWT({ ...claims, exp: inSeconds(60) }).encode()],
    [
      "signed by HS256 with the public key",
      async () => {
        const jwk = JSON.stringify(await publicKey(first, "first"));
        return signed({}, { key: new TextEncoder().encode(jwk), alg: "HS256" });
      },
    ],
    ["that is no JWT", () => "nonsense"],
  ])("a JWT %s is refused", async ([, make]) => {
    const response = await ask(admin({}, access), await make());
    expect(response.status).toBe(401);
    expect(await response.json()).toMatchObject({
      detail: expect.stringContaining("The Cloudflare Access JWT is invalid"),
    });
  });

  it("a rotated key of Access is fetched when its id is unknown, and a flood of unknown ids fetches nothing more", async () => {
    const gate = admin({}, access);
    expect(await statusOf(ask(gate, await signed()))).toBe(200);
    served = { status: 200, keys: [await publicKey(second, "second")] };
    vi.useFakeTimers({ now: Date.now() + 31_000, toFake: ["Date"] });
    try {
      const rotated = await signed({}, { key: second.privateKey, kid: "second" });
      expect(await statusOf(ask(gate, rotated))).toBe(200);
      expect(fetches).toHaveLength(2);
      expect(await statusOf(ask(gate, await signed()))).toBe(401);
      for (let index = 0; index < 20; index++) {
        // oxlint-disable-next-line no-await-in-loop
        const jwt = await signed({}, { key: second.privateKey, kid: `unknown-${index}` });
        // oxlint-disable-next-line no-await-in-loop
        expect(await statusOf(ask(gate, jwt))).toBe(401);
      }
      expect(fetches).toHaveLength(2);
    } finally {
      vi.useRealTimers();
    }
  });

  it("without the keys of the team, Access gets 503 and tokens still work", async () => {
    served = { status: 500, keys: [] };
    const gate = admin({}, access);
    const response = await ask(gate, await signed());
    expect([response.status, response.headers.get("Retry-After")]).toEqual([503, "5"]);
    await response.body?.cancel();
    expect(await statusOf(ask(gate, await signed()))).toBe(503);
    expect(fetches).toHaveLength(1);
    const call = ask(gate, "x", { headers: withToken(tokens.all) });
    expect(await statusOf(call)).toBe(200);
  });

  it("a JWT is accepted only on ADMIN_HOST, where nothing is proxied", async () => {
    const gate = admin({}, access);
    const elsewhere = ask(gate, await signed(), { host: "https://headgate.example" });
    expect(await statusOf(elsewhere)).toBe(401);
    expect(await statusOf(gate.send(`${host}/anything`))).toBe(404);
    expect(await statusOf(gate.send("https://ADMIN.example.com./anything"))).toBe(404);
    expect(fetches.filter((url) => url.startsWith("https://origin.example"))).toEqual([]);
  });

  it("a change with an Access identity requires Sec-Fetch-Site: same-origin, and a change with a token does not", async () => {
    const gate = admin({}, access);
    const jwt = await signed();
    const change = { method: "POST", body: "{}" };
    const statuses = [];
    for (const site of ["cross-site", "same-site", "none", "", "same-origin"]) {
      const headers: Record<string, string> = site === "" ? {} : { "Sec-Fetch-Site": site };
      // oxlint-disable-next-line no-await-in-loop
      statuses.push(await statusOf(ask(gate, jwt, { ...change, headers })));
    }
    expect(statuses).toEqual([403, 403, 403, 403, 405]);
    const upgrade = { headers: { Upgrade: "websocket" } };
    expect(await statusOf(ask(gate, jwt, upgrade))).toBe(403);
    const token = { headers: withToken(tokens.all) };
    expect(await statusOf(ask(gate, jwt, { ...change, ...token }))).toBe(405);
  });

  it("a read that reveals keys to an Access identity requires Sec-Fetch-Site: same-origin, and is otherwise not audited", async () => {
    const gate = admin({}, { ...access, REVEAL: "admins" });
    const { policy, call } = gate;
    const { body: rule } = await call("POST", "/rules", {
      policy,
      key: "192.0.2.1",
      kind: "allow",
    });
    const jwt = await signed();
    const paths = [
      `/rules?policy=${policy}&reveal=true`,
      `/rules/${rule.id}?reveal=true`,
      `/top?policy=${policy}&reveal=true`,
    ];
    const read = (path: string, site: string, method = "GET"): Promise<number> =>
      statusOf(
        gate.send(`${host}/_headgate/api${path}`, {
          method,
          headers: {
            "Cf-Access-Jwt-Assertion": jwt,
            "CF-Connecting-IP": addressOf(),
            ...(site !== "" && { "Sec-Fetch-Site": site }),
          },
        }),
      );
    const newest = async (): Promise<unknown> => (await call("GET", "/audit?limit=1")).body.entries[0];
    for (const path of paths) {
      for (const site of ["cross-site", "same-site", "none", ""]) {
        // oxlint-disable-next-line no-await-in-loop
        expect([await read(path, site), await read(path, site, "HEAD")]).toEqual([403, 403]);
      }
      // oxlint-disable-next-line no-await-in-loop
      expect(await read(path.replace("reveal=true", "reveal=false"), "cross-site")).toBe(200);
    }
    expect(await newest()).toMatchObject({ action: "create", rule: rule.id });
    expect(await Promise.all(paths.map((path) => read(path, "same-origin")))).toEqual([200, 200, 200]);
    expect(await newest()).toMatchObject({ action: "reveal", keyId: rule.keyId, via: "access" });
  });

  it.for<[string | undefined, number]>([
    [undefined, 403],
    ["off", 403],
    ["admins", 404],
  ])("with REVEAL = %j, an Access identity that reveals a key gets %i", async ([REVEAL, status]) => {
    const gate = admin({}, { ...access, ...(REVEAL !== undefined && { REVEAL }) });
    const response = gate.send(`${host}/_headgate/api/keys/reveal`, {
      method: "POST",
      headers: {
        "Cf-Access-Jwt-Assertion": await signed(),
        "CF-Connecting-IP": addressOf(),
        "Sec-Fetch-Site": "same-origin",
        "Content-Type": "application/json",
      },
      body: JSON.stringify({ policy: gate.policy, id }),
    });
    expect(await statusOf(response)).toBe(status);
  });
});
