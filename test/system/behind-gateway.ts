/** An origin and a Headgate server for gateways: Headgate decides, and the gateway enforces. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SignJWT } from "jose";
import { startWorkerd } from "../tools/workerd.ts";
import type { Upstreams } from "./gateway-process.ts";
import { bodyOf, Origin } from "./proxied.ts";

const token = "the-tests-token";
const jwtSecret = "a secret of the tests, thirty-two bytes or more";

/** The origin's default answer, which describes the request that the origin received. */
export interface ReceivedRequest {
  readonly request: string;
  readonly bytes: number;
  readonly headers: Record<string, string>;
}

export interface BehindGateway {
  readonly origin: Origin;
  readonly upstreams: Upstreams;
  /** The remaining units of a policy's only limit, read without spending. */
  readonly remaining: (policy: string, ...key: string[]) => Promise<number | undefined>;
  readonly close: () => Promise<void>;
}

/** @param policies without limits: every policy gets a limit of 2 requests per hour */
export async function startBehindGateway(policies: readonly object[]): Promise<BehindGateway> {
  const origin = new Origin();
  origin.answers.set("/", ({ request, response }) => {
    const { method, url, headers } = request;
    void bodyOf(request).then(({ length }) =>
      response.end(JSON.stringify({ request: `${method} ${url}`, bytes: length, headers })),
    );
  });
  await origin.listen();
  const folder = mkdtempSync(join(tmpdir(), "headgate-behind-gateway-"));
  const limited = policies.map((policy) => ({
    strategy: "fixed-window",
    limits: "2/hour",
    ...policy,
  }));
  const workerd = await startWorkerd(folder, {
    CHECK_TOKENS: token,
    JWT_KEY: jwtSecret,
    POLICIES: JSON.stringify(limited),
  });
  return {
    origin,
    upstreams: { headgate: workerd.url, origin: origin.url, token },
    remaining: async (policy, ...key) => {
      const look = new URL(`/check?policy=${policy}`, workerd.url);
      for (const part of key) look.searchParams.append("key", part);
      const response = await fetch(look, { headers: { Authorization: `Bearer ${token}` } });
      const { limits } = await response.json<{ limits: { remaining: number }[] }>();
      return limits[0]?.remaining;
    },
    close: async () => {
      await workerd.close();
      await origin.close();
      rmSync(folder, { recursive: true });
    },
  };
}

/**
 * An `Authorization` field with a token for this `sub`. Headgate accepts the token unless `secret` differs from its
 * own.
 */
export async function bearer(sub: string, secret = jwtSecret): Promise<Record<string, string>> {
  const signing = new SignJWT({ sub }).setProtectedHeader({ alg: "HS256" });
  const signed = await signing.setExpirationTime("1m").sign(new TextEncoder().encode(secret));
  return { Authorization: `Bearer ${signed}` };
}

/** The status of a response, whose body is read and discarded. */
export async function statusOf(sent: Promise<Response>): Promise<number> {
  const response = await sent;
  await response.text();
  return response.status;
}

export const rateLimitFields = (headers: Headers): (string | null)[] =>
  ["RateLimit", "RateLimit-Policy", "Retry-After"].map((name) => headers.get(name));
