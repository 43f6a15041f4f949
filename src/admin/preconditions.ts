/** `If-Match` (RFC 9110, section 13.1.1): a change must name the state that it changes. */
import { CallRefused } from "./refusal.ts";

/**
 * `*` matches every state. Cloudflare and other proxies make the ETag of a response weak when they compress it:
 * https://developers.cloudflare.com/cache/reference/etag-headers/. The weak form therefore matches, too: it names the same state.
 * @throws CallRefused when the field is missing or names no current state
 */
export function requireMatch(request: Request, etag: string): void {
  const field = request.headers.get("If-Match")?.trim() ?? "";
  if (field === "") throw new CallRefused({ kind: "precondition-required" });
  const named = field.split(",").map((each) => each.trim().replace(/^W\//, ""));
  if (field !== "*" && !named.includes(etag)) {
    throw new CallRefused({ kind: "precondition-failed", etag });
  }
}
