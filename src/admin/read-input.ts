/** Reads queries and bodies of the admin API. Every invalid field is named. */
import * as v from "valibot";
import { fields, integerFrom } from "../validation/problems.ts";
import { errorsOf } from "../http/check/input.ts";
import { isDecodable, readJson } from "../http/check/read-request.ts";
import type { AuthorizedCall } from "./context.ts";
import { accepted, CallRefused, fieldsRefused } from "./refusal.ts";

const limitBytes = 16 * 1024;
export const mergePatch = "application/merge-patch+json";

/** @throws CallRefused when the body is not JSON of at most 16 KiB */
export async function bodyOf({ req }: AuthorizedCall, types?: readonly string[]): Promise<unknown> {
  return accepted(await readJson(req.raw, limitBytes, types)).json;
}

/** @throws CallRefused with an error for each invalid field */
export function parsed<Output>(schema: v.GenericSchema<unknown, Output>, input: unknown): Output {
  const result = v.safeParse(schema, input);
  if (result.success) return result.output;
  throw fieldsRefused(errorsOf(result.issues));
}

/** Reads the query. A parameter that stands twice is invalid. */
export function queryIn<const Entries extends v.ObjectEntries>(c: AuthorizedCall, entries: Entries) {
  if (!isDecodable(c.req.url)) throw new CallRefused({ kind: "query-malformed" });
  const values = Object.entries(c.req.queries()).map(([name, all]) => [name, all.length === 1 ? all[0] : all]);
  return parsed(fields(entries), Object.fromEntries(values));
}

export const text = (acceptedText: string) => v.pipe(v.string(acceptedText), v.nonEmpty(acceptedText));

/** An integer in digits. */
export const integerText = (least: number, most: number) =>
  v.pipe(
    v.string(`an integer from ${least} to ${most}`),
    v.regex(/^\d{1,15}$/, `an integer from ${least} to ${most}`),
    v.transform(Number),
    integerFrom(least, most),
  );

const acceptedCursor = "the cursor of the previous page";

/** Items of a page. @param cursor the form of its cursors */
export const pageEntries = (cursor: RegExp) => ({
  cursor: v.optional(v.pipe(v.string(acceptedCursor), v.regex(cursor, acceptedCursor))),
  limit: v.optional(integerText(1, 200), "50"),
});

export const flagText = v.optional(
  v.pipe(
    v.picklist(["true", "false"], '"true" or "false"'),
    v.transform((flag) => flag === "true"),
  ),
  "false",
);

const acceptedInstant = 'an instant such as "2026-11-22T18:30:00Z" (RFC 3339)';
/** Date, time, and a zone: RFC 3339, section 5.6. */
const instantForm = /^(\d{4}-\d{2}-\d{2})[Tt ]([01]\d|2[0-3]):\d{2}:\d{2}(?:\.\d{1,9})?(?:[Zz]|[+-]\d{2}:\d{2})$/;

/** `Date.parse` reads the 30th of February as the 2nd of March. */
function isDateOfCalendar(written: string): boolean {
  const [, date = ""] = instantForm.exec(written) ?? [];
  const atMs = Date.parse(`${date}T00:00:00Z`);
  return Number.isSafeInteger(atMs) && new Date(atMs).toISOString().startsWith(date);
}

/** An instant in milliseconds since the Unix epoch. */
export const instant = v.pipe(
  v.string(acceptedInstant),
  v.check(isDateOfCalendar, acceptedInstant),
  v.transform((written) => Date.parse(written.toUpperCase().replace(" ", "T"))),
  v.check((atMs) => Number.isSafeInteger(atMs), acceptedInstant),
);

/**
 * The link to the next page, from the query of this one; none on the last page.
 * @param path the documented path of the list. A request can spell its path so that, in a link, it would name another
 * host
 */
export function nextLink(
  { req }: AuthorizedCall,
  path: string,
  cursor: string | null,
): Readonly<Record<string, string>> {
  if (cursor === null) return {};
  const { searchParams } = new URL(req.url);
  searchParams.set("cursor", cursor);
  return { Link: `<${path}?${searchParams.toString()}>; rel="next"` };
}
