/** Parses values of header fields. */

/** The members of a list field. Repeated fields arrive as one, joined by commas. */
export const membersOf = (headers: Headers, name: string): string[] => membersIn(headers.get(name) ?? "");

/** The members in the value of a list field, without the white space of HTTP around them (RFC 9110, section 5.6.3). */
export const membersIn = (value: string): string[] =>
  value.split(",").map((member) => member.replace(/^[ \t]+|(?<![ \t])[ \t]+$/g, ""));

/** The bearer token in `Authorization` (RFC 6750, section 2.1); null without one. */
export const bearerIn = (headers: Headers): string | null => bearerOf(headers.get("Authorization"));

/** Texts in the form of a JWT (RFC 7519), wherever they stand in the value of `Authorization`. */
export const tokensIn = (authorization: string): string[] => {
  const texts = authorization.split(/^bearer|[^\w.-]+/i);
  return [...new Set(texts)].filter((text) => text.split(".", 4).length === 3);
};

/** The bearer token in the value of `Authorization`; null without one. */
export const bearerOf = (authorization: string | null): string | null =>
  authorization === null ? null : (/^Bearer +(\S+) *$/i.exec(authorization)?.[1] ?? null);
