/** The search for the denial of an address, an API key, the id of a key or an instance, and its result in one sentence. */
import type { DenialView, FoundDenials } from "../../../admin/wire.ts";
import { ApiProblem, call } from "../api/client.ts";
import { countOf, durationText, timeText } from "../parts/text.ts";

type Sought = { readonly instance: string } | { readonly id: string } | { readonly key: string };

const uuid = /^(?:urn:uuid:)?[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i;

/** The parts of a search that a text can be, the likeliest first: a UUID may also be an API key, and so may a text with the form of an id. */
export function soughtBy(text: string): readonly Sought[] {
  const key = { key: text };
  if (text.toLowerCase().startsWith("urn:uuid:")) return [{ instance: text }];
  if (uuid.test(text)) return [{ instance: text }, key];
  return /^[\w-]{43}$/.test(text) ? [{ id: text }, key] : [key];
}

/**
 * The first result with a denial, or the last one without.
 * @throws ApiProblem when the search fails, except when the text fits the key of no policy but may be an instance or an id
 */
export async function findDenial(
  text: string,
  { policy, at }: { readonly policy?: string | undefined; readonly at?: string | undefined },
  post: (body: object) => Promise<FoundDenials> = (body) => call<FoundDenials>("POST", "denials/search", { body }),
): Promise<FoundDenials> {
  let last: FoundDenials | null = null;
  for (const sought of soughtBy(text)) {
    try {
      // oxlint-disable-next-line no-await-in-loop -- most searches end with the first answer
      last = await post({ ...sought, ...(policy !== undefined && { policy }), ...(at !== undefined && { at }) });
      if (last.denial !== null) return last;
    } catch (error) {
      if (last === null || !(error instanceof ApiProblem) || error.status !== 422) throw error;
    }
  }
  if (last === null) throw new Error("Enter an address, an API key, the id of a key, or an instance.");
  return last;
}

/** The end of the sentence, after the policy, such as "at 09:41:12 (10 min ago): 5 of 5 per minute used." */
export function denialText(denial: DenialView, nowMs: number): string {
  const { at, lastAt, cause, count } = denial;
  const ago = durationText(Math.max(0, nowMs - Date.parse(at)));
  const more = count === 1 ? "" : ` ${countOf(count, "denial")} like this one until ${timeText(lastAt)}.`;
  return `at ${timeText(at)} (${ago} ago): ${cause}.${more}`;
}

/** A search reads at most this many entries, the newest first. */
const mostFound = 200;

type CountedDenials = Pick<FoundDenials, "denial" | "count" | "since" | "denials">;

/** Such as "14 denials of this key since 09:38:02." Empty for a denial without a key. */
export function denialsOfKeyText({ denial, count, since, denials }: CountedDenials): string {
  if (denial === null || denial.id === null || since === null) return "";
  const earlier = denials.length < mostFound ? "" : ", and earlier ones";
  return `${countOf(count, "denial")} of this key since ${timeText(since)}${earlier}.`;
}

/** Since when the log is complete, and how many denials it lacks. */
export const completenessText = ({ dropped, completeSince }: Pick<FoundDenials, "dropped" | "completeSince">): string =>
  dropped === 0
    ? `The log has every denial since ${timeText(completeSince)}.`
    : `The log lacks ${countOf(dropped, "denial")} of the last 24 hours. It is complete since ${timeText(completeSince)}.`;
