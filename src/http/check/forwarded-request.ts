/**
 * The request that a gateway describes when it asks whether to let it in: `X-Forwarded-*` of Traefik and Caddy, or
 * `X-Original-*` of nginx. Whoever holds a token is believed.
 */
import { withoutPort } from "../../policies/address.ts";
import { membersOf } from "../../policies/header-lists.ts";
import type { RequestAttributes } from "../../policies/request-attributes.ts";
import { tokenField } from "./auth.ts";
import type { FieldError } from "../wire/problems.ts";
import { attributesOf } from "../attributes.ts";

const method = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}$/;
const host = /^(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?$/i;

/** Gateways tell of upgrades, too. */
const schemes = new Map([
  ["http", "http"],
  ["https", "https"],
  ["ws", "http"],
  ["wss", "https"],
]);

/** Fields of the asking itself: what is described has them not, or has others. */
const ofAsking = ["Connection", "Content-Length", "Transfer-Encoding", "Upgrade", tokenField];

/**
 * @param asked with the headers of what is described beside those that describe it
 * @param isTokenOfCaller whether `Authorization` is the gateway's own, and not of the request that it describes
 */
export function forwardedRequest(
  asked: Request,
  isTokenOfCaller: boolean,
): RequestAttributes | { readonly kind: "fields-invalid"; readonly errors: readonly FieldError[] } {
  const errors: FieldError[] = [];
  const isNginx = asked.headers.has("X-Original-URI") || asked.headers.has("X-Original-Method");
  const told = (
    names: readonly string[],
    accepted: string,
    isFine: (text: string) => boolean,
  ): string => {
    const [name = names[isNginx ? 1 : 0] ?? "", ...others] = names.filter((each) =>
      asked.headers.has(each),
    );
    const text = asked.headers.get(name) ?? "";
    if (!isFine(text)) errors.push({ field: name, accepted });
    // A gateway writes one of them; the other would be its client's, who is not to describe itself.
    for (const other of others) {
      if (asked.headers.get(other) !== text) {
        errors.push({ field: other, accepted: `nothing beside ${name}` });
      }
    }
    return text;
  };
  const spoken = told(["X-Forwarded-Method", "X-Original-Method"], "a method", (text) =>
    method.test(text),
  );
  const uri = told(["X-Forwarded-Uri", "X-Original-URI"], "a path, and a query", (text) =>
    text.startsWith("/"),
  );
  const scheme = schemes.get((asked.headers.get("X-Forwarded-Proto") ?? "https").toLowerCase());
  if (scheme === undefined) {
    errors.push({ field: "X-Forwarded-Proto", accepted: '"http" or "https"' });
  }
  const authority = asked.headers.get("X-Forwarded-Host") ?? new URL(asked.url).host;
  if (!host.test(authority) || !URL.canParse(`https://${authority}`))
    errors.push({ field: "X-Forwarded-Host", accepted: "a host name" });
  // A base would take two slashes at the beginning for a host.
  const url = `${scheme}://${authority}${uri}`;
  if (errors.length > 0) return { kind: "fields-invalid", errors };
  const headers = new Headers(asked.headers);
  for (const name of ofAsking) headers.delete(name);
  if (isTokenOfCaller) headers.delete("Authorization");
  nameVisitor(headers);
  return {
    ...attributesOf(new Request(asked.url, { headers })),
    url: new URL(url),
    unparsedPath: uri.split(/[?#]/, 1)[0] ?? uri,
    method: spoken,
  };
}

/**
 * The visitor is who the gateway was connected to: the last of its list. Cloudflare has added the gateway itself, where
 * the call came through it.
 */
function nameVisitor(headers: Headers): void {
  const hops = membersOf(headers, "X-Forwarded-For");
  const gateway = headers.get("CF-Connecting-IP");
  if (hops.length > 1 && hops.at(-1) === gateway) hops.pop();
  const visitor = hops.at(-1) ?? "";
  headers.set("X-Forwarded-For", hops.join(", "));
  if (visitor === "") headers.delete("CF-Connecting-IP");
  else headers.set("CF-Connecting-IP", withoutPort(visitor));
}
