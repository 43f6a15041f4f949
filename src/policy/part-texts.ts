/** Reads all values that a request has for a key part, for comparison with the entries of lists and overrides. */
import { type KeyPart, pathKeys } from "./vars/index.ts";
import { membersIn } from "./header-lists.ts";
import { keyPartReader, type KeySettings, scalarText } from "./apply-key.ts";
import { parameterValues } from "./query-parameters.ts";
import type { Claims, RequestAttributes } from "./request-attributes.ts";

/** Whether a request may have several values of a part, so that the part counts as missing. */
export const isRepeatable = ({ kind }: KeyPart): boolean =>
  kind === "jwt" || kind === "header" || kind === "cookie" || kind === "query";

export type TextsReader = (request: RequestAttributes, claims: Claims) => readonly string[];

/** Each item of a list claim, each value of a repeated header, and each reading of a path is a separate value. */
export function textsReader(part: KeyPart, settings: KeySettings): TextsReader {
  if (part.kind === "jwt") return (_, claims) => claimTexts(claims, part.name);
  if (part.kind === "header") {
    return ({ headers }) => {
      const value = headers.get(part.name) ?? "";
      return [value, ...membersIn(value)];
    };
  }
  if (part.kind === "cookie") return ({ cookies }) => cookies(part.name);
  if (part.kind === "query") return ({ target }) => parameterValues(target.url, part.name);
  if (part.kind === "path") return ({ target }) => pathKeys(target.path, settings.match.path);
  const read = keyPartReader(part, settings);
  return (request, claims) => {
    const value = read(request, claims);
    return value === null ? [] : [value];
  };
}

function claimTexts(claims: Claims, name: string): readonly string[] {
  const claimed = Object.hasOwn(claims, name) ? claims[name] : undefined;
  const texts: unknown[] = Array.isArray(claimed) ? claimed : [claimed];
  return texts.map(scalarText).filter((text) => text !== null);
}
