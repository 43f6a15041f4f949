/** Identifies the caller of the admin API, before the body is read or an object is called. */
import { type AdminRight, adminRights } from "../policy/vars/secrets.ts";
import type { AdminSettings } from "../policy/vars/admin.ts";
import { normalizedHost } from "../policy/match.ts";
import { bearerIn } from "../policy/request.ts";
import type { Actor } from "../control/protocol.ts";
import { urlOf } from "../http/attributes.ts";
import { tokenMatcher } from "../http/check/auth.ts";
import { accessIdentity, assertionField } from "./access.ts";
import type { FailedAttempts } from "./failed-attempts.ts";
import { CallRefused } from "./refusal.ts";

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
      const holder = holderOf(bearerIn(headers) ?? "");
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
