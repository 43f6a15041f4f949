/** The marks of responses: `Proxy-Status` (RFC 9209) on Headgate's own, and CORS fields that let scripts read them. */
import { serializeList, Token } from "structured-headers";
import type { AllowedOrigins } from "../../policy/vars/cors.ts";
import { membersOf } from "../../policy/request.ts";
import { legacyNames } from "../wire/legacy-headers.ts";
import { type ProxyError, proxyErrorOf } from "../wire/proxy-errors.ts";

/** Scripts can read these fields only if `Access-Control-Expose-Headers` names them (Fetch, section 3.3.4). */
const exposedFields = ["RateLimit", "RateLimit-Policy", "Retry-After"];
const legacyFieldNames = (headers: Headers): string[] => legacyNames.filter((name) => headers.has(name));

/**
 * Adds `Proxy-Status` and CORS fields to Headgate's own problem responses. Responses of the origin that already allow
 * a cross-origin script also expose the rate limit fields.
 */
export function proxyStatusAndCors(
  origins: AllowedOrigins,
  pseudonym: () => Promise<string>,
): (response: Response, request: Request) => Promise<void> {
  const statusFields = new Map<ProxyError, string>();
  return async function mark(response, request) {
    const { headers } = response;
    const proxyError = proxyErrorOf(response);
    if (proxyError === null) exposeRateLimitFields(headers);
    else {
      let field = statusFields.get(proxyError);
      if (field === undefined) {
        field = proxyStatusField(await pseudonym(), proxyError);
        statusFields.set(proxyError, field);
      }
      headers.set("Proxy-Status", field);
      allowOrigin(headers, request.headers.get("Origin"), origins);
    }
  };
}

const proxyStatusField = (pseudonym: string, proxyError: ProxyError): string =>
  serializeList([[new Token(pseudonym), new Map([["error", new Token(proxyError)]])]]);

/** Only where the origin lets scripts read its response. */
function exposeRateLimitFields(headers: Headers): void {
  if (!headers.has("Access-Control-Allow-Origin")) return;
  const value = headers.get("Access-Control-Expose-Headers") ?? "";
  const names = new Set(membersOf(headers, "Access-Control-Expose-Headers").map((name) => name.toLowerCase()));
  const areAllExposed = names.has("*") && headers.get("Access-Control-Allow-Credentials") !== "true";
  const missing = [...exposedFields.filter((name) => headers.has(name)), ...legacyFieldNames(headers)].filter(
    (name) => !names.has(name.toLowerCase()),
  );
  if (areAllExposed || missing.length === 0) return;
  const fields = [...(value === "" ? [] : [value]), ...missing];
  headers.set("Access-Control-Expose-Headers", fields.join(", "));
}

function allowOrigin(headers: Headers, origin: string | null, origins: AllowedOrigins): void {
  if (origins.kind === "none") return;
  if (origins.kind === "list") headers.append("Vary", "Origin");
  if (origin === null) return;
  if (origins.kind === "list" && !origins.origins.has(origin)) return;
  headers.set("Access-Control-Allow-Origin", origins.kind === "any" ? "*" : origin);
  if (origins.kind === "list") headers.set("Access-Control-Allow-Credentials", "true");
  headers.set("Access-Control-Expose-Headers", [...exposedFields, ...legacyFieldNames(headers)].join(", "));
}
