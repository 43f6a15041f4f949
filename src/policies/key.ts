/** Who is charged: the values of a key's parts, from a request or from a caller of `/check`. */
import { type KeyPart, normalizedPath } from "../config/index.ts";
import { chargedAddress } from "./address.ts";

/** The value of one part; null when it is missing, which all requests that miss it share. */
export type KeyValue = string | null;

/** What the parts of a key are in a request. */
export function keyOfRequest(parts: readonly KeyPart[], request: Request, url: URL): KeyValue[] {
  return parts.map((part) => {
    switch (part.kind) {
      case "ip":
        return chargedAddress(request.headers.get("CF-Connecting-IP") ?? "");
      case "header":
        return request.headers.get(part.header) || null;
      case "path":
        return normalizedPath(url.pathname);
      case "global":
        return null;
      default:
        return part satisfies never;
    }
  });
}

/**
 * What the parts of a key are when a caller names them, one text for each part: the same values, so that caller and
 * proxy charge the same state. A part called `global` has no value: what stands for it is passed over, and a key of
 * nothing else may be left out. Null when they are not such a key.
 */
export function keyOfCaller(
  parts: readonly KeyPart[],
  texts: readonly string[] | undefined,
): KeyValue[] | null {
  const isGlobal = parts.every((part) => part.kind === "global");
  if (texts === undefined) return isGlobal ? parts.map(() => null) : null;
  if (texts.length !== parts.length) return null;
  const values = parts.map((part, index) => {
    const text = texts[index] ?? "";
    if (part.kind === "global") return null;
    return part.kind === "ip" ? chargedAddress(text) : text;
  });
  return values.every((value, index) => value !== null || parts[index]?.kind === "global")
    ? values
    : null;
}
