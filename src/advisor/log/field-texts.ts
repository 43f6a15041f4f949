/** The texts of fields that log formats write in different ways. */
import { scalarText } from "../../policy/key-values.ts";

/** Values that servers write in place of a missing one. Caddy replaces credentials. */
export const placeholders: ReadonlySet<unknown> = new Set(["", "-", "REDACTED"]);

export const upperText = (value: unknown): string | null => scalarText(value)?.toUpperCase() ?? null;

export const acceptedHeader = "one value without a comma, since Headgate regards any other as missing";

export function headerText(value: unknown): string | null {
  const [first, ...others]: readonly unknown[] = Array.isArray(value) ? value : [value];
  const text = others.length > 0 ? null : scalarText(first);
  return text?.includes(",") === true ? null : text;
}

/** A request line such as `GET /login HTTP/1.1`. */
const requestLine = /^([A-Za-z]+) (\S+)(?: HTTP\/[\d.]+)?$/;

export const methodText = (value: unknown): string | null => {
  const text = scalarText(value);
  return text === null || !text.includes(" ") ? text : (requestLine.exec(text)?.[1] ?? null);
};

const authority = /^[a-z][a-z\d+.-]*:\/\/([^/?#]*)/i;

/** The path and query of a request line or of a URL. */
export function targetText(value: unknown): string | null {
  const text = scalarText(value);
  const target = text?.includes(" ") === true ? requestLine.exec(text)?.[2] : text;
  return target?.replace(authority, "") ?? null;
}

export function pathText(value: unknown): string | null {
  const path = targetText(value)?.replace(/[?#].*$/s, "");
  return path === undefined || path === "*" ? null : path === "" ? "/" : path;
}

/** A host without its port, also that of a URL. Empty for a path. */
export function hostText(value: unknown): string | null {
  const text = scalarText(value);
  const target = text?.includes(" ") === true ? (requestLine.exec(text)?.[2] ?? "") : text;
  const host = target?.includes("/") === true ? (authority.exec(target)?.[1] ?? "") : target;
  return host?.replace(/^.*@/, "").replace(/:\d{1,5}$/, "") ?? null;
}
