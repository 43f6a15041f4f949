/**
 * What the proxy answers itself, as clients and scripts in browsers are to see it: marked as no answer of the origin's
 * (RFC 9209), and readable from the origins that the configuration names.
 */
import type { MiddlewareHandler } from "hono";
import { serializeList, Token } from "structured-headers";
import type { AllowedOrigins } from "../../config/index.ts";
import { membersOf } from "../../policies/header-lists.ts";
import type { RequestAttributes } from "../../policies/request-attributes.ts";
import { legacyNames } from "../wire/legacy-headers.ts";
import { proxyErrorOf } from "../wire/problems.ts";

/** Fields that scripts cannot read unless they are told so (Fetch, section 3.3.4). */
const exposed = ["RateLimit", "RateLimit-Policy", "Retry-After"];
const legacyIn = (headers: Headers): string[] => legacyNames.filter((name) => headers.has(name));

/** @param pseudonym what the deployment calls itself */
export function markResponses(
  origins: AllowedOrigins,
  pseudonym: () => Promise<string>,
): MiddlewareHandler {
  return async function ownMarked(c, next) {
    await next();
    const { res } = c;
    const proxyError = proxyErrorOf(res);
    if (proxyError === null) extendExposed(res.headers);
    else {
      const error = new Map([["error", new Token(proxyError)]]);
      res.headers.set("Proxy-Status", serializeList([[new Token(await pseudonym()), error]]));
      allowOrigin(res.headers, c.req.header("Origin"), origins);
    }
  };
}

/** An answer of the origin's that scripts may read has fields of ours that they may read, too. */
function extendExposed(headers: Headers): void {
  if (!headers.has("Access-Control-Allow-Origin")) return;
  const listed = headers.get("Access-Control-Expose-Headers") ?? "";
  const names = new Set(
    membersOf(headers, "Access-Control-Expose-Headers").map((name) => name.toLowerCase()),
  );
  const isOpen = names.has("*") && headers.get("Access-Control-Allow-Credentials") !== "true";
  const missing = [...exposed.filter((name) => headers.has(name)), ...legacyIn(headers)].filter(
    (name) => !names.has(name.toLowerCase()),
  );
  if (isOpen || missing.length === 0) return;
  const all = [...(listed === "" ? [] : [listed]), ...missing];
  headers.set("Access-Control-Expose-Headers", all.join(", "));
}

function allowOrigin(headers: Headers, origin: string | undefined, origins: AllowedOrigins): void {
  if (origins.kind === "none") return;
  if (origins.kind === "list") headers.append("Vary", "Origin");
  if (origin === undefined) return;
  if (origins.kind === "list" && !origins.origins.has(origin)) return;
  headers.set("Access-Control-Allow-Origin", origins.kind === "any" ? "*" : origin);
  if (origins.kind === "list") headers.set("Access-Control-Allow-Credentials", "true");
  headers.set("Access-Control-Expose-Headers", [...exposed, ...legacyIn(headers)].join(", "));
}

/** Asks whether a script may send a request; what it answers no client reads, and it carries no credentials. */
export const isPreflight = ({ method, headers }: RequestAttributes): boolean =>
  method === "OPTIONS" && headers.has("Origin") && headers.has("Access-Control-Request-Method");
