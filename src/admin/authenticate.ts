/** Identifies the caller by a token or by Cloudflare Access, before the body is read or an object is called. */
import { type AdminRight, adminRights } from "../policy/vars/secrets.ts";
import type { AccessSettings, AdminSettings } from "../policy/vars/admin.ts";
import { normalizedHost } from "../policy/match.ts";
import { bearerOf } from "../policy/request.ts";
import type { Actor } from "../control/protocol.ts";
import { urlOf } from "../http/attributes.ts";
import { tokenMatcher } from "../http/check/call.ts";
import { CallRefused } from "./context.ts";
import { type JWTPayload, type JWTVerifyOptions, errors } from "jose";
import { Cooldown } from "../limiter/isolate/object-caller.ts";
import { errorText, report } from "../observability/events.ts";
import { fetchedKeys, keyCooldownMs, verifiedPayload, withKeyErrors } from "../http/claims.ts";
import type { Clock } from "../limiter/clock.ts";
import { BoundedMap } from "../policy/caches.ts";
import { visitorKey, visitorOf } from "../policy/address.ts";
import { type Meter, createMeter, parseLimits } from "../strategies/index.ts";

/** A caller with valid credentials. */
export interface Operator {
  readonly actor: Actor;
  readonly may: ReadonlySet<AdminRight>;
}

/** @throws CallRefused without valid credentials */
export type Authenticate = (request: Request) => Promise<Operator>;

/** A bearer token takes precedence over an Access JWT, which the edge adds to every request of a protected host. */
export function authenticator(settings: AdminSettings, attempts: FailedAttempts): Authenticate {
  const { tokens, access, host, reveal } = settings;
  const holderOf = tokenMatcher(tokens);
  const identityOf = access === null ? null : accessIdentity(access);
  const accessRights = new Set(adminRights.filter((right) => right !== "reveal" || reveal));

  const operatorOf = async (request: Request): Promise<Operator | null> => {
    const { headers } = request;
    if (headers.has("Authorization")) {
      const holder = holderOf(bearerOf(headers.get("Authorization")) ?? "");
      return holder === undefined ? null : { actor: { name: holder.name, via: "token" }, may: holder.may };
    }
    const jwt = isOnHost(request, host) ? headers.get(assertionField) : null;
    const name = jwt === null || identityOf === null ? null : await identityOf(jwt);
    return name === null ? null : { actor: { name, via: "access" }, may: accessRights };
  };

  return async (request) => {
    attempts.refuseIfLimited(request);
    const operator = await operatorOf(request);
    if (operator !== null) {
      if (operator.actor.via === "access" && !isSafe(request)) refuseCrossSite(request);
      return operator;
    }
    const given = credentialsIn(request);
    if (given !== null) attempts.note(request);
    throw new CallRefused({ kind: "operator-unknown", hasTokens: tokens.length > 0, given });
  };
}

function credentialsIn({ headers }: Request): "token" | "access" | null {
  if (headers.has("Authorization")) return "token";
  return headers.has(assertionField) ? "access" : null;
}

/** Whether the request is for the host on which nothing is proxied. */
export const isOnHost = (request: Request, host: string | null): boolean =>
  host !== null && normalizedHost(urlOf(request)?.hostname ?? "") === host;

/** WebSockets are not safe: unlike a GET of another site, they let that site read the answer. */
const isSafe = ({ method, headers }: Request): boolean =>
  (method === "GET" || method === "HEAD") && !headers.has("Upgrade");

/**
 * Access authenticates by cookie, so a page of any site could send such a request.
 * @throws CallRefused when the request does not come from a page of the same web origin
 */
export function refuseCrossSite({ headers }: Request): void {
  if (headers.get("Sec-Fetch-Site") !== "same-origin") throw new CallRefused({ kind: "cross-site" });
}

const assertionField = "Cf-Access-Jwt-Assertion";

/**
 * Returns the e-mail of a person, or the name of a service token; null for an invalid JWT. Throws a CallRefused while no keys
 * are available.
 */
function accessIdentity({ teamHost, audiences }: AccessSettings): (jwt: string) => Promise<string | null> {
  const issuer = `https://${teamHost}`;
  const cooldown = new Cooldown(keyCooldownMs);
  const key = withKeyErrors(fetchedKeys(new URL(`${issuer}/cdn-cgi/access/certs`), cooldown));
  const options: JWTVerifyOptions = {
    algorithms: ["RS256"],
    issuer,
    audience: [...audiences],
    requiredClaims: ["exp"],
  };
  return async (jwt) => {
    try {
      return nameIn(await verifiedPayload(jwt, key, options));
    } catch (error) {
      if (error instanceof errors.JOSEError) return null;
      if (!cooldown.isOn) {
        cooldown.begin();
        report({ event: "access-keys-unavailable", error: errorText(error) });
      }
      throw new CallRefused({ kind: "access-unavailable" });
    }
  };
}

const longestName = 320;

/** Service tokens have a `common_name` instead of an e-mail. */
function nameIn({ email, common_name: serviceToken }: JWTPayload): string | null {
  const name = [email, serviceToken].find((each) => typeof each === "string" && each !== "");
  return typeof name === "string" && name.length <= longestName ? name : null;
}

const limits = parseLimits("10/minute");
const mostAddresses = 1_024;
/** Clients of one IPv6 network count together. */
const addressing = { ipv6Prefix: 64, trustedProxies: null };

export class FailedAttempts {
  readonly #clock: Pick<Clock, "now">;
  readonly #meters = new BoundedMap<Meter>(mostAddresses);

  constructor(clock: Pick<Clock, "now">) {
    this.#clock = clock;
  }

  /**
   * @throws CallRefused when the address has had too many failed attempts, even if the credentials of this one are
   * valid
   */
  refuseIfLimited(request: Request): void {
    const decision = this.#meters.get(addressOf(request))?.look(1, this.#clock.now());
    if (decision === undefined || decision.allowed) return;
    const { retryAfterMs } = decision;
    throw new CallRefused({ kind: "attempts-exceeded", retryAfterMs: retryAfterMs ?? 60_000 });
  }

  /** Counts a failed attempt. */
  note(request: Request): void {
    const address = addressOf(request);
    const meter = this.#meters.get(address) ?? createMeter(limits);
    meter.consume(1, this.#clock.now());
    this.#meters.set(address, meter);
  }
}

/** Clients without a known address count together. */
const addressOf = ({ headers }: Request): string =>
  visitorKey(visitorOf(headers, addressing), addressing.ipv6Prefix) ?? "";
