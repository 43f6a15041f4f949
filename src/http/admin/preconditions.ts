/** `If-Match` (RFC 9110, section 13.1.1): a change must name the state that it changes. */
import { CallRefused } from "./refusal.ts";

/**
 * Compares strongly, so that a weak ETag never matches. `*` matches every state.
 * @throws CallRefused when the field is missing or names no current state
 */
export function requireMatch(request: Request, etag: string): void {
  const field = request.headers.get("If-Match")?.trim() ?? "";
  if (field === "") throw new CallRefused({ kind: "precondition-required" });
  const named = field.split(",").map((each) => each.trim());
  if (field !== "*" && !named.includes(etag)) {
    throw new CallRefused({ kind: "precondition-failed", etag });
  }
}
