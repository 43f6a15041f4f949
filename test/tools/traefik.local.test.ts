/**
 * The configuration for Traefik in docs/how-to. A model replaces Traefik: it implements the middlewares `headers` and
 * `forwardAuth` as https://doc.traefik.io/traefik/middlewares/http/forwardauth/ describes them, and calls a real
 * Headgate.
 */
import { Yaml } from "@stoplight/spectral-parsers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { bearer, type BehindGateway, startBehindGateway } from "../system/behind-gateway.ts";
import { pageBlock } from "../docs/page-block.ts";

interface Middleware {
  readonly headers?: { readonly customRequestHeaders: Readonly<Record<string, string>> };
  readonly forwardAuth?: {
    readonly address: string;
    readonly trustForwardHeader: boolean;
    readonly authResponseHeaders: readonly string[];
  };
}

interface Configuration {
  readonly http: {
    readonly middlewares: Readonly<Record<string, Middleware>>;
    readonly routers: Readonly<Record<string, { rule: string; middlewares: readonly string[]; service: string }>>;
    readonly services: Readonly<Record<string, { loadBalancer: { servers: readonly { url: string }[] } }>>;
  };
}

const { data, diagnostics } = Yaml.parse(pageBlock("how-to/behind-traefik", "yaml"));
const { middlewares, routers, services } = (data as Configuration).http;
const { app } = routers;
const chain = (app?.middlewares ?? []).map((name) => middlewares[name] ?? {});

const policies = [
  { name: "visits", match: { path: "/visits/*", host: "app.example.com" }, key: ["ip", "path"] },
  { name: "users", match: { path: "/users" }, key: "jwt:sub", onMissingKey: "deny" },
];

let behind: BehindGateway;
beforeAll(async () => {
  behind = await startBehindGateway(policies);
});
afterAll(async () => {
  await behind.close();
});

interface Passage {
  /** The response to the client; null when the service gets the request. */
  readonly denial: Response | null;
  readonly service: Headers;
}

/** Passes a client's request through the middlewares of the router. */
async function passed(uri: string, client: Record<string, string> = {}): Promise<Passage> {
  const service = new Headers(client);
  for (const { headers, forwardAuth } of chain) {
    for (const [name, value] of Object.entries(headers?.customRequestHeaders ?? {})) {
      // An empty value removes the field.
      if (value === "") service.delete(name);
      else service.set(name, value === "the token" ? behind.upstreams.token : value);
    }
    if (forwardAuth === undefined) continue;
    const { pathname } = new URL(forwardAuth.address);
    const call = new Headers(service);
    // With `trustForwardHeader: false`, the client's own fields of these names are replaced.
    call.set("X-Forwarded-Method", "GET");
    call.set("X-Forwarded-Proto", "https");
    call.set("X-Forwarded-Host", "app.example.com");
    call.set("X-Forwarded-Uri", uri);
    call.set("X-Forwarded-For", "203.0.113.7");
    // oxlint-disable-next-line no-await-in-loop
    const answer = await fetch(new URL(pathname, behind.upstreams.headgate), { headers: call });
    if (!answer.ok) return { denial: answer, service };
    for (const name of forwardAuth.authResponseHeaders) {
      const value = answer.headers.get(name);
      if (value === null) service.delete(name);
      else service.set(name, value);
    }
  }
  return { denial: null, service };
}

describe("the documented configuration of Traefik", () => {
  it("the configuration of Traefik is valid YAML, and defines every middleware and service that it names", () => {
    expect(diagnostics).toEqual([]);
    expect(app).toBeDefined();
    expect(Object.keys(services)).toEqual([app?.service]);
    expect(app?.middlewares.toSorted()).toEqual(Object.keys(middlewares).toSorted());
    for (const middleware of chain) expect(Object.keys(middleware)).toHaveLength(1);
  });

  it("Traefik sets the token, calls Headgate over HTTPS without trusting the client's fields, and removes the token", () => {
    expect(chain.map((middleware) => Object.keys(middleware)[0])).toEqual(["headers", "forwardAuth", "headers"]);
    const [before, forwardAuth, after] = chain;
    expect(before?.headers?.customRequestHeaders["X-Headgate-Token"]).toBe("the token");
    expect(forwardAuth?.forwardAuth).toEqual({
      address: "https://headgate.example.com/check/forward",
      trustForwardHeader: false,
      authResponseHeaders: ["RateLimit", "RateLimit-Policy"],
    });
    expect(after?.headers?.customRequestHeaders).toEqual({ "X-Headgate-Token": "" });
  });

  it("Headgate allows and denies the requests that Traefik describes, and the service does not see the token", async () => {
    const forged = { RateLimit: '"forged";r=9', "X-Headgate-Token": "the client's" };
    const first = await passed("/visits/a?b=1", forged);
    expect(first.denial).toBeNull();
    expect(Object.fromEntries(first.service)).toEqual({
      ratelimit: '"visits";r=1;t=3600',
      "ratelimit-policy": '"visits";q=2;w=3600',
    });
    expect((await passed("/visits/a")).denial).toBeNull();
    const { denial } = await passed("/visits/a");
    expect([denial?.status, Number(denial?.headers.get("Retry-After")) > 3_500]).toEqual([429, true]);
    expect(await denial?.json()).toMatchObject({ "violated-policies": ["visits"] });
  });

  it.for([
    ["X-Original-URI", "/free"],
    ["X-Original-Method", "POST"],
    ["CF-Connecting-IP", "192.0.2.9"],
    ["X-Forwarded-For", "192.0.2.9"],
    ["X-Forwarded-Uri", "/free"],
  ] as const)("a client of Traefik cannot make Headgate see another request by sending %s", async ([name, value]) => {
    const path = `/visits/${name}`;
    expect((await passed(path, { [name]: value })).denial).toBeNull();
    expect(await behind.remaining("visits", "203.0.113.7", path)).toBe(1);
  });

  it("Traefik's clients keep their own Authorization field, which is the key of a jwt: policy", async () => {
    const ann = await bearer("ann");
    const { denial, service } = await passed("/users", ann);
    expect([denial, service.get("Authorization")]).toEqual([null, ann["Authorization"]]);
    expect(await behind.remaining("users", "ann")).toBe(1);
    expect((await passed("/users")).denial?.status).toBe(403);
  });
});
